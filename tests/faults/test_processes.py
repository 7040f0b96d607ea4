"""Faults 1, 2, 18, 19, 20 and 22: processes that are killed, stopped, stopped early, or hang; drivers beside
each other.
"""

import os
import signal
import time
from pathlib import Path

import pytest
import tiny
from shell import TINY, Shell, processes, until

from recstudy.records import Results
from recstudy.study.plan import make_plan

pytestmark = pytest.mark.fault

FIRST_VARIANT = "latent_steps=1, supervision_steps=1"
TWO = ("--only", "latent_steps=1*", "--set", "train.epochs=150")


@pytest.mark.parametrize("workers", [1, 2])
def test_1_2_run_resumes_from_its_checkpoint_after_a_worker_is_killed(shell, workers):
    with shell.start(
        "--only", FIRST_VARIANT, "--set", "train.epochs=80", "--workers", str(workers)
    ) as driver:
        (run,) = until(shell.running_runs, "ten epochs")
        other_workers = {
            process for process, title in processes(driver.pid).items() if "RayTrainWorker" in title
        } - {shell.process(run)}
        os.kill(next(iter(other_workers)) if workers == 2 else shell.process(run), signal.SIGKILL)
        epoch_count = shell.lines()[run]
        output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 0, output + errors
    assert errors == ""
    assert output.count("process lost, the run resumes from its last checkpoint in a new process: ") == 1
    assert shell.attempts() == [2]
    result, lines = shell.records()[run], shell.lines()[run]
    assert (result["attempts"], result["provenance"]["workers"]) == (2, workers)
    assert lines[:9] == epoch_count[:9]  # as they were, with their times
    assert [line["epoch"] for line in lines] == list(range(80))


def test_19_early_stops_by_train_give_back_what_they_held(tmp_path):
    """One run at a time: the next cannot start before the one that was stopped has given back its worker."""
    shell = Shell(tmp_path, Path(__file__).parents[1] / "study/tiny_search.py")
    cores = str(os.cpu_count())
    shell.run(
        "--preset",
        "wild",
        "--budget",
        "6",
        "--seeds",
        "0",
        "--stopping",
        "asha",
        "--trainer",
        "train",
        "--cpus",
        cores,
    )

    assert shell.records("stopped.json")
    assert len(shell.records("stopped.json")) + len(shell.records()) == 6


@pytest.mark.parametrize("trainer", ["inline", "train"])
def test_20_a_hung_run_is_ended_and_marked(shell, trainer):
    """The other run goes on, with a worker of Train's that takes the place of the one that hung."""
    chosen = (
        "--only",
        "latent_steps=1*",
        "--set",
        "resources.hang_timeout_minutes=0.1",
        "--trainer",
        trainer,
    )
    chosen += ("--cpus", str(os.cpu_count()))  # one run at a time
    hung, healthy = (
        run.id for run in make_plan(tiny.study, changes={"resources.hang_timeout_minutes": 0.1}).runs[:2]
    )
    Results(shell.results).create().run(hung).path.mkdir()
    # whose reader hangs, as on a file server without an answer
    os.mkfifo(shell.results / "runs" / hung / "checkpoint-000001.pt")

    output = shell.run(*chosen, code=5)

    assert "no sign of life for 0.1 minutes (resources.hang_timeout_minutes); it was stopped" in output
    failure = shell.records("failure.json")[hung]
    assert (failure["class"], failure["attempts"]) == ("hung", 1)
    assert "in load_checkpoint" in failure["traceback"]
    assert shell.records()[healthy]["status"] == "done"
    assert "hung" in shell.page()


@pytest.mark.parametrize(
    ("signs", "kill"),
    [
        ([signal.SIGINT], os.kill),
        ([signal.SIGINT] * 2, os.kill),
        ([signal.SIGTERM], os.killpg),
        ([signal.SIGHUP], os.killpg),
    ],
    ids=["ctrl-c", "ctrl-c twice", "timeout", "closed terminal"],
)
def test_22_a_stop_keeps_what_was_finished(shell, signs, kill):
    """`timeout`, batch systems and a terminal that is closed end the whole process group."""
    with shell.start("--set", "train.epochs=40") as driver:
        until(shell.records, "a result")
        for sign in signs:
            kill(driver.pid, sign)
            time.sleep(0.3)
        output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 130, output + errors
    assert errors.splitlines()[-1] == "Stopped. Finished work is kept. Run the same command to resume."
    assert "Traceback" not in output + errors
    assert "does not answer" not in output + errors
    finished = shell.records()
    assert len(finished) < 6
    shell.run("--set", "train.epochs=40")
    assert len(shell.records()) == 6
    assert all(shell.records()[run] == result for run, result in finished.items())


def test_18_drivers_beside_each_other_run_nothing_twice(shell):
    """Two of one study, of which one waits, and one of another study with the same runs."""
    twin = Shell(shell.folder, shell.folder / "twin.py")
    twin.study.write_text(TINY.read_text().replace('name="tiny"', 'name="twin"'))
    drivers = [study_shell.start() for study_shell in (shell, shell, twin)]
    outputs = [driver.communicate(timeout=900) for driver in drivers]

    assert [driver.returncode for driver in drivers] == [0, 0, 0], outputs
    assert shell.attempts() == [1] * 6
    assert len(shell.records()) == 6
    waited = ["which runs this study" in output for output, _ in outputs]
    assert waited[2:] == [False]  # the other study may well wait for the last of the runs
    assert sum(waited) == 1
    assert (shell.results / "studies/twin/quick/report/tables/depths.md").read_bytes() == shell.table()


def test_dead_raylet_ends_the_command_in_one_line_and_the_next_resumes(shell):
    with shell.start(*TWO) as driver:
        until(shell.running_runs, "ten epochs")
        (raylet,) = (number for number, title in processes(driver.pid).items() if "/raylet/raylet " in title)
        os.kill(raylet, signal.SIGKILL)
        output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 9, output + errors
    assert "Ray's raylet on this machine has ended. Finished runs are saved. Resume with: " in output + errors
    assert "Traceback" not in output + errors

    until(lambda: not processes(driver.pid), "without ghosts")
    shell.run(*TWO)
    assert len(shell.records()) == 2
