"""Fault 5 while seeds go to open questions: the driver of `--until decided` is killed within a block."""

from pathlib import Path

import pytest
from shell import Shell, kill_all, until

from recstudy.analysis.frame import load_study
from recstudy.records import Results

STUDY = Path(__file__).parents[1] / "study" / "tiny_until.py"


@pytest.mark.fault
def test_5_a_killed_driver_goes_on_within_its_block(tmp_path):
    shell = Shell(tmp_path, STUDY)
    with shell.start("--until", "decided") as driver:  # four first runs, then blocks of up to three
        until(lambda: len(shell.lines("attempts.jsonl")) > 4, "a run of the first block")
        kill_all(driver)
    before, begun = shell.records(), shell.lines("attempts.jsonl").keys()
    planned = load_study(Results(shell.results), "tiny_until", "quick")
    assert begun <= {row.id for row in planned.rows}

    output = shell.run("--until", "decided")

    assert f"{len(planned.rows)} runs: {len(before)} finished before" in output
    assert "2 questions: 1 decided, 1 out of reach." in output
    records = load_study(Results(shell.results), "tiny_until", "quick")
    assert {row.id for row in planned.rows} <= {row.id for row in records.rows} == shell.records().keys()
    assert {row.id: row.attempts for row in records.rows if row.id in before} == dict.fromkeys(before, 1)
    assert records.plan.looks[:2] == (1, 2)
