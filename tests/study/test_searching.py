"""A real search through a real Ray, in processes of its own."""

import json
import os
import signal
from pathlib import Path

import pytest
from shell import Shell, until


@pytest.mark.whole
def test_a_killed_driver_forgets_no_trial_and_asha_stops_runs_early(tmp_path):
    """Eight settings over many learning rates: the poor ones are stopped, recorded so, and not run again;
    first without Ray.
    """
    shell = Shell(tmp_path, Path(__file__).with_name("tiny_search.py"))
    options = (
        "--preset",
        "wild",
        "--budget",
        "8",
        "--seeds",
        "0",
        "--stopping",
        "asha",
        "--set",
        "train.epochs=27",
    )

    def numbers() -> list[int]:
        (log,) = shell.results.glob("studies/tiny_search/*/trials-*.jsonl")
        lines = map(json.loads, log.read_text().splitlines())
        return [line["number"] for line in lines if "number" in line]

    with shell.start(*options, "--no-ray") as driver:
        until(shell.records, "a result")
        os.killpg(driver.pid, signal.SIGKILL)
    finished, trial_numbers = shell.records(), numbers()
    assert len(finished) < 8

    shell.run(*options)

    assert numbers()[: len(trial_numbers)] == trial_numbers
    assert numbers() == list(range(8))
    assert all(shell.records()[run] == result for run, result in finished.items())
    stopped = shell.records("stopped.json")
    assert {record["by"] for record in stopped.values()} == {"asha"}
    assert not stopped.keys() & shell.records().keys()
    assert len(stopped) + len(shell.records()) == 8
    assert "Which tiny model learns the digits best?" in shell.page()
    assert f"{len(stopped)} stopped" in shell.page()
    assert "nothing is left to run" in shell.run(*options, "--no-ray")
