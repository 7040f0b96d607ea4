"""When a finished study shows the report that lies there, and when it draws it anew."""

from collections.abc import Callable
from pathlib import Path

import pytest
from made_up import plan, run_id, write_epochs, write_search, write_study

from recstudy.analysis.report import write_report
from recstudy.records import Results, append_line, write_json
from recstudy.study import kept_report as keeping
from recstudy.study.kept_report import keep_report, kept_report, report_source


@pytest.fixture
def folder(results) -> Path:
    """Of a study whose report was drawn."""
    folder = results.study("made_up", "paper")
    source = report_source(results, folder, 160)
    write_report(results, "made_up", "paper")
    keep_report(folder, source, "what was said")
    return folder


def said(folder: Path, width: int = 160) -> str:
    return kept_report(folder, report_source(Results(folder.parents[2]), folder, width))


def test_what_was_said_is_said_again_whenever_the_plan_was_written(folder):
    assert said(folder) == "what was said"

    write_json(folder / "plan.json", plan())
    (folder / "lock").write_text("a process")
    (folder / "plan-0123abc.json").touch()
    assert said(folder) == ""
    (folder / "plan-0123abc.json").unlink()
    assert said(folder) == "what was said"


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: write_json(folder / "plan.json", plan(question="Another?")),
        lambda folder: write_epochs(Results(folder.parents[2]), run_id(0, 0), 20.0),
        lambda folder: append_line(folder.parents[2] / "runs" / run_id(3, 2) / "attempts.jsonl", {"attempt": 2}),
        lambda folder: (folder.parents[2] / "runs" / run_id(0, 0) / "measured.json").touch(),
        lambda folder: (folder.parents[2] / "runs" / run_id(1, 2) / "failure.json").unlink(),
        lambda folder: (folder / "report/tables/table1.md").unlink(),
        lambda folder: (folder / "report/report.html").write_text("not a page"),
        lambda folder: (folder / "report/.drawn.json").write_text("{"),
        lambda folder: (folder / "report/.drawn.json").write_text("{}"),
        lambda folder: (folder / "report/.drawn.json").write_text("[]"),
    ],
    ids=["plan", "epochs", "attempt", "measured later", "failure gone", "table gone", "page changed", "damaged", "empty", "list"],
)
def test_anything_else_that_changed_draws_it_anew(change: Callable[[Path], object], folder):
    change(folder)

    assert said(folder) == ""


def test_so_do_another_width_and_another_recstudy(folder, tmp_path, monkeypatch):
    assert said(folder, width=80) == ""

    monkeypatch.setattr(keeping, "version", lambda name: "another")
    assert said(folder) == ""
    monkeypatch.undo()
    monkeypatch.setattr(keeping, "PACKAGE", tmp_path)
    assert said(folder) == ""


def test_what_may_be_drawn_from_other_things_is_always_drawn(tmp_path):
    own = write_study(tmp_path / "own", plugins=[{"module": "mine", "file": "mine.py", "digest": "0"}])
    search = write_search(tmp_path / "search")

    assert report_source(own, own.study("made_up", "paper")) == ""
    (planned,) = search.root.glob("studies/*/*/plan.json")
    assert report_source(search, planned.parent) == ""
