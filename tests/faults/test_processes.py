"""Faults 1, 2, 5, 19, 20 and 22: processes that are killed, stopped, stopped early, or hang."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from ray_nodes import TOKEN, free_port, head_of, started
from shell import Shell, kill_all, processes, until
from twice import TWO, curve, hang

from recstudy.records import Results
from recstudy.records.locks import locked

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


@pytest.mark.parametrize("frozen", [1, 2])
def test_a_ray_that_freezes_as_it_starts_is_started_once_more(shell, frozen):
    """Its raylet is stopped before it has told of itself, for which Ray waits half a minute."""
    stopped: set[int] = set()
    with shell.start("--only", ONE) as driver:

        def freeze() -> bool:
            for process in [process for process, title in processes(driver.pid).items() if "raylet/raylet" in title]:
                if process not in stopped and len(stopped) < frozen:
                    os.kill(process, signal.SIGSTOP)
                    stopped.add(process)
            return len(stopped) == frozen

        until(freeze, "so many frozen raylets")
        output, errors = driver.communicate(timeout=900)

    if frozen == 1:
        assert driver.returncode == 0, output + errors
        assert shell.attempts() == [1]
    else:
        assert driver.returncode == 2, output + errors
        assert errors.splitlines()[-1].startswith("ClusterError: Ray does not start on this machine (The current node timed out")
    until(lambda: not processes(driver.pid), "without ghosts")


def test_5_a_driver_killed_in_the_middle_costs_nothing(shell, tmp_path):
    other = Shell(tmp_path / "undisturbed")
    other.folder.mkdir()
    other.run("--seeds", "2")
    with shell.start("--seeds", "2") as driver:
        until(lambda: len(shell.records()) >= 4, "four results")
        kill_all(driver)
    finished = shell.records()
    assert 4 <= len(finished) < 12

    shell.run("--seeds", "2")

    assert shell.table() == other.table()
    assert len(shell.records()) == 12
    ours, theirs = shell.records(), other.records()
    for run in theirs:
        assert ours[run]["metrics"] == theirs[run]["metrics"]
    assert all(ours[run] == result for run, result in finished.items())  # not run again
    for run in shell.results.glob("runs/*"):
        assert [epoch for epoch, *_ in curve(run)] == list(range(8))
        assert not list(run.glob("checkpoint-*"))


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


def test_18_a_run_that_another_process_works_on_is_waited_for_when_the_others_have_ended(shell):
    """With room for one run at a time: the second one is done, while the first one's lock is held."""
    chosen = (*TWO, "--cpus-per-run", str(os.cpu_count()))
    held, other = shell.plan(*chosen).values()
    Results(shell.results).create()
    with ExitStack() as lock:
        lock.enter_context(locked(shell.results / "runs" / held / "lock", "process 7 on moon"))
        with shell.start(*chosen) as driver:
            assert driver.stdout is not None
            said = [driver.stdout.readline()]
            while said[-1] and not said[-1].startswith("Waiting for"):
                said.append(driver.stdout.readline())
            assert list(shell.records()) == [other], said
            lock.close()
            output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 0, output + errors
    assert f"{ONE}, seed 0: process 7 on moon works on it; it is put off, and the others go first\n" in said
    assert said[-1] == f"Waiting for process 7 on moon, which works on {ONE}, seed 0. Ctrl-C stops waiting.\n"
    assert shell.attempts() == [1, 1]


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
    [[signal.SIGINT], [signal.SIGTERM], pytest.param([signal.SIGINT, signal.SIGINT], marks=pytest.mark.fault)],
    ids=["ctrl-c", "sigterm", "ctrl-c twice"],
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
