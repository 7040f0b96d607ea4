"""Faults 1, 2, 5, 19, 20 and 22: processes that are killed, stopped, stopped early, or hang."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ray_nodes import TOKEN, free_port, head_of, started
from shell import Shell, processes, until
from twice import TWO, curve, hang

pytestmark = pytest.mark.fault

ONE = "latent_steps=1, supervision_steps=1"


def test_1_a_killed_trial_goes_on_from_its_checkpoint(shell, undisturbed):
    killed = shell.plan(*TWO)[f"{ONE}, seed 0"]
    with shell.start(*TWO) as driver:
        until(lambda: killed in shell.begun(), "ten epochs")
        os.kill(shell.process(killed), signal.SIGKILL)
        begun = shell.lines()
        output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 0, output + errors
    assert errors == ""
    assert output.count("its process was lost, and another one goes on from its checkpoint, if it had one: ") == 1
    assert shell.attempts() == [1, 2]
    assert shell.records()[killed]["attempts"] == 2
    assert shell.lines()[killed][:9] == begun[killed][:9]  # as they were, with their times
    assert curve(shell.results / "runs" / killed) == undisturbed(killed)


def test_2_a_group_of_workers_of_which_one_is_killed_starts_again(shell):
    with shell.start("--only", ONE, "--set", "train.epochs=80", "--workers-per-run", "2") as driver:
        until(shell.begun, "ten epochs")
        (run,) = shell.begun()
        workers = {process for process, title in processes(driver.pid).items() if "RayTrainWorker" in title}
        (other,) = workers - {shell.process(run)}
        os.kill(other, signal.SIGKILL)
        output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 0, output + errors
    assert errors == ""
    assert output.count("its process was lost, and another one goes on from its checkpoint, if it had one: ") == 1
    (result,) = shell.records().values()
    assert (result["attempts"], result["provenance"]["workers"]) == (2, 2)
    (epochs,) = shell.lines().values()
    assert [line["epoch"] for line in epochs] == list(range(80))


AT_REST = """
import sys, time, ray
from ray.util import placement_group_table
ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
deadline = time.monotonic() + 20
while time.monotonic() < deadline:
    groups = [group for group in placement_group_table().values() if group["state"] != "REMOVED"]
    free = ray.available_resources()
    if not groups and all(free.get(name) == count for name, count in ray.cluster_resources().items()):
        sys.exit()
    time.sleep(0.2)
sys.exit(f"held: {groups}, free: {free}")
"""


@pytest.mark.parametrize("trainer", ["inline", "train"])
def test_19_early_stops_give_back_what_they_held(tmp_path, trainer):
    """One run at a time takes the one core: the next cannot start before the one that was stopped has given them back."""
    port, shell = free_port(), Shell(tmp_path, Path(__file__).with_name("early.py"))
    with started(tmp_path / "head.log", "--num-cpus=1", *head_of(port, free_port()), port=port):
        with shell.start("--address", f"127.0.0.1:{port}", "--trainer", trainer, "--budget", "30") as driver:
            output, errors = driver.communicate(timeout=900)
        rest = subprocess.run(
            [sys.executable, "-c", AT_REST, f"127.0.0.1:{port}"],
            env={**os.environ, **TOKEN}, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip

    assert driver.returncode == 0, output + errors
    assert rest.returncode == 0, rest.stderr
    stopped = [path.stat().st_mtime for path in shell.results.glob("runs/*/stopped.json")]
    assert len(stopped) >= 20, output
    begun = [path.stat().st_mtime for path in shell.results.glob("runs/*/attempts.jsonl")]
    waits = [min((start - stop for start in begun if start > stop), default=0) for stop in stopped]
    assert max(waits) < 20  # seconds


@pytest.mark.parametrize("trainer", ["inline", "train"])
def test_20_a_hung_run_is_ended_and_marked(shell, trainer):
    """The other run goes on, with a worker of Train's that takes the place of the one that hung."""
    chosen = ("--only", "latent_steps=1*", "--set", "place.silent_minutes=0.1", "--trainer", trainer)
    chosen += ("--cpus-per-run", str(os.cpu_count()))  # one run at a time
    hung, other = shell.plan(*chosen).values()
    hang(shell, hung)

    output = shell.run(*chosen, code=5)

    assert "no sign of life for 0.1 minutes (place.silent_minutes); it was stopped" in output
    failure = shell.records("failure.json")[hung]
    assert (failure["class"], failure["attempts"]) == ("hung", 1)
    assert "in load_checkpoint" in failure["traceback"]
    assert shell.records()[other]["status"] == "done"
    assert "hung" in shell.page()


@pytest.mark.parametrize("trainer", ["inline", "train"])
def test_22_runs_that_sigterm_asks_to_leave_end_their_epoch_and_go_on(shell, trainer):
    """No attempt is counted for it, and no epoch computed twice."""
    chosen = (*TWO, "--trainer", trainer)
    with shell.start(*chosen) as driver:
        until(shell.begun, "ten epochs")
        driver.terminate()
        output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 130, output + errors
    assert "with a checkpoint. Ctrl-C ends at once.\n" in output
    assert errors.splitlines()[-1] == "Stopped. What was finished is kept; the same command goes on from there."
    left = {run: len(lines) for run, lines in shell.lines().items()}
    assert not shell.records()
    for run, lines in shell.lines("attempts.jsonl").items():
        assert [line["drained"] for line in lines] == [False, True]
        assert (shell.results / "runs" / run / f"checkpoint-{left[run]:06}.pt").exists()

    shell.run(*chosen)

    assert {result["attempts"] for result in shell.records().values()} == {1}


@pytest.mark.parametrize(
    "signs",
    [[signal.SIGINT], [signal.SIGINT, signal.SIGINT]],
    ids=["ctrl-c", "ctrl-c twice"],
)
def test_22_a_stop_keeps_what_was_finished(shell, signs):
    with shell.start() as driver:
        until(shell.records, "a result")
        for sign in signs:
            os.kill(driver.pid, sign)
            time.sleep(0.3)
        stopped = time.monotonic()
        _, errors = driver.communicate(timeout=900)

    assert driver.returncode == 130
    assert errors.splitlines()[-1] == "Stopped. What was finished is kept; the same command goes on from there."
    assert "Traceback" not in errors
    assert time.monotonic() - stopped < 40
    kept = shell.records()
    assert all(json.loads(path.read_text()) for path in shell.results.rglob("*.json"))
    shell.run()
    assert all(shell.records()[run] == result for run, result in kept.items())
