"""Real searches through a real Ray, in processes of their own."""

import json
import os
import signal
from pathlib import Path

import pytest
from shell import Shell, until

pytestmark = pytest.mark.whole

TINY = Path(__file__).with_name("tiny_search.py")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path, TINY)


def trials(shell: Shell) -> list[dict]:
    (log,) = shell.results.glob("studies/tiny_search/*/trials-*.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


def numbers(shell: Shell) -> list[int]:
    return [line["number"] for line in trials(shell) if "number" in line]


def test_a_search_from_one_command_to_the_page_and_on(shell):
    output = shell.run()

    assert "Budget: 6 runs in all: 4 to search, 2 for the best 2 with fresh seeds; 0 runs made before" in output
    assert "The best 2 again with fresh seeds: 2 runs, 2 to run" in output
    assert numbers(shell) == [0, 1, 2, 3]
    assert trials(shell)[0]["params"]["model.latent_steps"] == 3  # the preset's own
    assert [line["seed"] for line in trials(shell) if "confirms" in line] == [1, 1]
    assert shell.attempts() == [1] * 6
    assert "Which tiny model learns the digits best?" in shell.page()

    before = shell.records()
    again = shell.run()
    assert "Budget: 6 runs in all; 6 runs made before, 2 with fresh seeds: nothing is left to run" in again
    assert "Ray dashboard" not in again

    more = shell.run("--budget", "8", "--seeds", "0")
    assert "Budget: 8 runs in all, without fresh seeds; 6 runs made before" in more
    assert numbers(shell) == [0, 1, 2, 3, 4, 5]
    assert all(shell.records()[run] == result for run, result in before.items())


def test_a_killed_driver_forgets_no_trial_and_asha_stops_runs_early(shell):
    """Twelve settings over many learning rates: the poor ones are stopped, recorded so, and not run again."""
    options = ("--preset", "wild", "--budget", "12", "--seeds", "0", "--stopping", "asha", "--set", "train.epochs=40")
    with shell.start(*options) as driver:
        until(shell.records, "a result")
        os.killpg(driver.pid, signal.SIGKILL)
    finished, begun = shell.records(), numbers(shell)
    assert len(finished) < 12

    shell.run(*options)

    assert numbers(shell)[: len(begun)] == begun
    assert numbers(shell) == list(range(12))
    assert all(shell.records()[run] == result for run, result in finished.items())
    stopped = shell.records("stopped.json")
    assert {record["by"] for record in stopped.values()} == {"asha"}
    assert not stopped.keys() & shell.records().keys()
    assert len(stopped) + len(shell.records()) == 12
    assert f"{len(stopped)} stopped" in shell.page()
    assert "nothing is left to run" in shell.run(*options)
