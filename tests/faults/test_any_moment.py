"""Fault 5 at any moment: a study of 24 runs, killed at thirty random moments of its start, its runs and its
end.
"""

import itertools
import random
import time

import pytest
from shell import Shell, kill_all
from twice import curve

from recstudy.records import Results
from recstudy.report.study_records import load_study

KILLS = 30
RUNS = ("--seeds", "4")


@pytest.mark.fault
def test_5_kills_at_random_moments_change_nothing(tmp_path):
    seed = time.time_ns() % 10**6
    print(f"seed {seed}")
    chance, kills = random.Random(seed), 0
    undisturbed = Shell(tmp_path / "undisturbed")
    undisturbed.folder.mkdir()
    start_time = time.monotonic()
    undisturbed.run(*RUNS)
    total_seconds = time.monotonic() - start_time

    for study in itertools.count():
        shell = Shell(tmp_path / f"study-{study}")
        shell.folder.mkdir()
        while kills < KILLS and killed(shell, chance.uniform(0, left(shell, total_seconds))):
            kills += 1
            readable(shell)
        shell.run(*RUNS)
        check_same_results(shell, undisturbed)
        if kills == KILLS:
            return


def left(shell: Shell, total_seconds: float) -> float:
    """About how long the command would take from here: half of an undisturbed one is Ray's start and the
    report.
    """
    return total_seconds * (1 - len(shell.records()) / 48)


def killed(shell: Shell, seconds: float) -> bool:
    """Whether the study was still at work after so many seconds; then it no longer is."""
    driver = shell.start(*RUNS)
    with driver:
        time.sleep(seconds)
        at_work = driver.poll() is None
        print(f"{seconds:.2f} s, {len(shell.records())} finished: {'killed' if at_work else 'over'}")
        kill_all(driver) if at_work else driver.communicate()
    return at_work


def readable(shell: Shell) -> None:
    """The plan and every record."""
    results = Results(shell.results)
    if (shell.results / "studies/tiny/quick/plan.json").exists():
        assert len(load_study(results, "tiny", "quick").rows) == 24
    states = results.states()
    assert all(states[run] == "done" for run in shell.records())


def check_same_results(shell: Shell, undisturbed: Shell) -> None:
    ours, theirs = shell.records(), undisturbed.records()
    assert shell.table() == undisturbed.table()
    assert ours.keys() == theirs.keys()
    for run, result in ours.items():
        assert result["metrics"] == theirs[run]["metrics"]
        assert curve(shell.results / "runs" / run) == curve(undisturbed.results / "runs" / run)
