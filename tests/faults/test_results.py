"""Faults 12, 15, 21 and 24: memory, clocks, code and old records."""

import json
import shutil
from pathlib import Path

import pytest
import tiny
from logs import read_lines
from shell import Shell

from recstudy.cli import main
from recstudy.programs.attempt import CodeVersion
from recstudy.programs.trial import run_trial
from recstudy.records import read_json
from recstudy.recursive.testing import make_trial, tiny_run
from recstudy.study.plan import make_plan

FOLDER = Path(__file__).parent
SAMPLES = sorted(path.parent for path in FOLDER.parent.glob("records/0.*/recstudy.json"))


@pytest.mark.fault
def test_12_a_run_without_memory_is_tried_once_more_alone_and_then_marked(shell):
    """The weights of one of the two would take 4 PB."""
    output = shell.run(
        "--vary", "model.width=33554432,16", "--only", "latent_steps=1, supervision_steps=1,*", code=4
    )

    ((run, failure),) = shell.records("failure.json").items()
    assert failure["class"] == "out of memory"
    assert "can't allocate memory" in failure["error"]
    assert len(shell.lines("attempts.jsonl")[run]) == 2
    assert [result["status"] for result in shell.records().values()] == ["done"]
    assert output.count("out of memory") >= 1
    assert "out of memory: 1 run" in shell.page()


@pytest.mark.fault
def test_12_a_run_that_ray_kills_for_the_hosts_memory_is_marked_so(shell):
    """With all but one per cent of the host's memory declared full, Ray's monitor kills every worker."""
    shell.environment = {"RAY_memory_usage_threshold": "0.01", "RAY_memory_monitor_refresh_ms": "200"}

    output = shell.run("--only", "latent_steps=1, supervision_steps=1", "--set", "train.epochs=500", code=4)

    (failure,) = shell.records("failure.json").values()
    assert (failure["class"], failure["error"]) == (
        "out of memory",
        "its node ran low on memory, and Ray ended its process",
    )
    assert output.count("its node ran low on memory") >= 2  # tried once more, alone


def test_15_a_clock_that_is_an_hour_behind_changes_no_cost(tmp_path, monkeypatch):
    """The second attempt begins before the first one did."""
    config = tiny_run(epochs=2)
    run_trial(make_trial(tmp_path, config), lambda line: None, lambda: True)
    monkeypatch.setattr("recstudy.programs.trial.current_time", lambda: "2020-01-01T00:00:00+00:00")
    run_trial(make_trial(tmp_path, config), lambda line: None)

    folder = tmp_path / "runs" / config.run_id
    first, second = (line["started"] for line in read_lines(folder / "attempts.jsonl") if "started" in line)
    assert second < first
    result = read_json(folder / "result.json")
    assert result["provenance"]["started"] <= result["provenance"]["finished"]
    assert all(value >= 0 for value in result["cost"].values() if isinstance(value, int | float))


@pytest.mark.parametrize("dirty", [(True, False), (False, True), (False, False)])
def test_21_run_with_an_attempt_of_changed_code_is_marked(tmp_path, dirty):
    run = make_plan(tiny.study, changes={"train.epochs": 2}).runs[0]
    for changed, leave in zip(dirty, (True, False), strict=True):  # the first is left in its middle
        run_trial(
            make_trial(tmp_path, run.config, version=CodeVersion(dirty=changed)),
            lambda line: None,
            lambda leave=leave: leave,
        )

    assert json.loads((tmp_path / "runs" / run.id / "result.json").read_text())["provenance"]["dirty"] is any(
        dirty
    )


@pytest.mark.fault
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_24_records_of_every_version_are_read_and_resumed(tmp_path, sample, capsys):
    study = tmp_path / "sample.py"
    study.write_text("from make import STUDY\n\nfrom recstudy import main\n\nmain(STUDY)\n")
    shell = Shell(tmp_path, study, {"PYTHONPATH": str(FOLDER.parent / "records")})
    shutil.copytree(sample, shell.results)
    ((finished, old_record),) = shell.records().items()

    for name in ("report", "status"):
        with pytest.raises(SystemExit, match=r"^0$"):
            main([name, str(shell.results)])
    page_text, output = capsys.readouterr().out, shell.run()

    assert "latent steps" in page_text
    assert "sample (quick) can be resumed with its recorded command: python sample.py" in page_text
    assert "2 runs: 1 finished before, 1 to run" in output
    assert len(shell.records()) == 2
    assert shell.records()[finished] == old_record
    assert shell.attempts() == [1, 2]
