"""Figures and tables of kinds that recstudy does not have: drawn by a module of the user's, or named where it
is absent.
"""

import logging
import re
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_up import printed, run_id, write_answers, write_report, write_study

import recstudy
from recstudy.base.errors import ConfigError, PartError
from recstudy.plugins import user_files_of
from recstudy.report import PARTS, Table, dump_report, read_report
from recstudy.report.explain import explain_cell, find_number, show_cell
from recstudy.report.parts import Undrawable
from recstudy.report.writing import show_report

FILE = Path(__file__).with_name("outside_kinds.py")
THEIRS = [
    {"kind": "reliability_diagram", "name": "reliability"},
    {"kind": "confidence", "name": "confidence"},
]


def study(root, *parts, file=FILE, **changes):
    """Two runs with kept answers, and a report with a table of recstudy's own at its end."""
    missing_record = [{"module": file.stem, "file": str(file), "digest": ""}]
    plugins = user_files_of(file.parent, [file.stem]).record if file.exists() else missing_record
    results = write_study(root, report=[*parts, *dump_report([Table("last")])], plugins=plugins, **changes)
    for seed, right in ((0, 0.75), (1, 0.5)):
        write_answers(results, run_id(0, seed), np.log([[right, 1 - right], [1 - right, right]]), [0, 0])
    return results


@pytest.fixture(autouse=True)
def nothing_left():
    old_parts = dict(PARTS)
    yield
    assert dict(PARTS) == old_parts
    assert "outside_kinds" not in sys.modules


def test_outside_parts_are_drawn_like_built_in_parts(tmp_path):
    page = write_report(study(tmp_path / "r", *THEIRS), "made_up", "paper", trust=True)

    words, files = page.read_text(), {path.name for path in page.parent.glob("*/*")}
    assert {
        "reliability.html",
        "reliability.csv",
        "confidence.md",
        "confidence.tex",
        "confidence.csv",
    } <= files
    points = pd.read_csv(page.parent / "figures/reliability.csv")
    assert points["confidence"].tolist() == pytest.approx([0.75, 0.5], rel=1e-3)
    assert points["right"].tolist() == [0.5, 1.0]  # of equal answers the first counts
    assert re.search(r"<h2[^>]*>How sure the models are<", words)
    assert re.search(r"62\.5\d* \[", words)
    # the caption, which the kind does not write
    assert "6 of 12 runs done" in (page.parent / "tables/confidence.md").read_text()


def test_a_user_s_table_is_in_the_terminal_the_notebook_and_explained(tmp_path):
    results = study(tmp_path / "r", *THEIRS)
    loaded = recstudy.load(results.root, trust=True)

    assert "How sure the models are" in printed(
        partial(show_report, trust=True), results, "made_up", "paper", ()
    )
    assert loaded["confidence"].frame["mean"].iloc[0] == pytest.approx(62.5, abs=0.02)
    assert len(loaded["reliability"].data) == 1
    number = explain_cell([(results, "made_up", "paper")], "confidence:1:1", trust=True)
    output = printed(show_cell, number)
    assert all(words in output for words in (run_id(0, 0), run_id(0, 1), "n: 2"))


def test_part_without_its_module_is_reported_and_the_others_are_drawn(tmp_path, caplog):
    missing_file = tmp_path / "gone.py"
    results = study(tmp_path / "r", *THEIRS, file=missing_file)

    page = write_report(results, "made_up", "paper", trust=True).read_text()
    loaded = recstudy.load(results.root)

    assert "&#39;reliability&#39; cannot be drawn: no report part &#39;reliability_diagram&#39;" in page
    assert f"{missing_file} does not exist" in page
    assert "93.1 [92.8, 93.4]" in page
    assert "no report part 'confidence'" in caplog.text
    assert "93.1 [92.8, 93.4]" in printed(show_report, results, "made_up", "paper", ())
    assert "not drawable" in loaded._repr_html_()
    with pytest.raises(
        ConfigError, match="'reliability' cannot be drawn: no report part 'reliability_diagram'"
    ):
        loaded["reliability"]
    with pytest.raises(ConfigError, match="'confidence' cannot be drawn: no report part 'confidence'"):
        find_number(loaded.records, "confidence:1:1")


def test_a_broken_module_is_the_reason(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("import numpy\n\nnumpy.no_such_name\n")

    page = write_report(
        study(tmp_path / "r", *THEIRS, file=broken), "made_up", "paper", trust=True
    ).read_text()

    assert "broken cannot be imported: broken.py, line 3: AttributeError" in page


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"kind": "faulty", "name": "f"}, "'f' cannot be drawn: RuntimeError: no such column"),
        (
            {"kind": "faulty", "name": "f", "failing_step": "figure"},
            "'f' cannot be drawn: ValueError: Value of 'x' is not the name",
        ),
        (
            {"kind": "faulty", "name": "f", "failing_step": "return"},
            "f: its method `data` must return DataFrame, but gave list",
        ),
        (
            {"kind": "lopsided", "name": "f"},
            "f: its row 'short' has 1 cell, but the table has 2 columns",
        ),
        (
            {"kind": "faulty", "name": "f", "failing_step": "heading"},
            "'f' cannot be drawn: ZeroDivisionError: ",
        ),
    ],
)
def test_a_part_that_fails_costs_its_own_place_alone(tmp_path, caplog, part, words):
    results = study(tmp_path / "r", part)
    with pytest.raises(PartError, match="'f': "):
        write_report(results, "made_up", "paper", trust=True)

    page = (results.study("made_up", "paper") / "report/report.html").read_text()
    assert words in caplog.text
    # the log has the traceback
    assert all(record.exc_info for record in caplog.records if record.levelno == logging.ERROR)
    assert "93.1 [92.8, 93.4]" in page
    assert "and more" not in page


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"kind": "reliability", "name": "r"},
            "'r' cannot be drawn: no report part 'reliability': there are alignment, ",
        ),
        ({"name": "r"}, "'r' cannot be drawn: it has no kind"),
        (
            {"kind": "curve", "name": "c", "x": 3, "y": "nll"},
            "'c' cannot be drawn: 'x' must be a string, but got 3",
        ),
        (
            {"kind": "table", "name": "t", "across": True, "rows": "model"},
            "'t' cannot be drawn: table 't': across puts metrics",
        ),
    ],
)
def test_an_entry_that_cannot_be_read_says_why_and_is_kept(entry, message):
    (part,) = read_report([entry])

    assert isinstance(part, Undrawable)
    assert part.reason.startswith(message)
    assert dump_report([part]) == [entry]


def test_an_object_that_is_no_part_is_refused():
    with pytest.raises(ConfigError, match="a report is made of parts, but got 'table1'"):
        dump_report(["table1"])


def test_every_kind_of_recstudy_s_own_survives_a_plan():
    field_values = {"name": "model", "x": "model", "y": "model", "cell": "hrm_maze_hard"}
    parts = [
        kind(**{name: value for name, value in field_values.items() if _is_required(kind, name)})
        for kind in PARTS.values()
    ]

    assert read_report(dump_report(parts)) == parts


def _is_required(kind, name: str) -> bool:
    field = kind.__pydantic_fields__.get(name)
    return field is not None and field.is_required()
