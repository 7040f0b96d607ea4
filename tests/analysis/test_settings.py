"""Columns of config fields before a table's numbers, as in Tables I and II of 000."""

import io

import pytest
from made_up import CAPTION_MODELS, run_id, write_caption_study
from rich.console import Console
from tex import compiled, needs_siunitx

from recstudy.analysis import Table
from recstudy.analysis.explain import find
from recstudy.analysis.frame import load_study
from recstudy.analysis.tables import entries
from recstudy.analysis.tables.render import narrow, settings_title, table_shown
from recstudy.analysis.tables.table import label_within, table_data
from recstudy.papers import published
from recstudy.records.reading import dumped

FIELDS = ("model.backbone", ("model.middle_cycles", "model.tuned"))
SPEC = {"metrics": ("rouge_l", "cider"), "settings": FIELDS, "targets": published("000_table2_imagetrm")}


@pytest.fixture
def records(tmp_path):
    results = write_caption_study(tmp_path / "r", report=[{"kind": "table", "name": "t", **SPEC, "targets": []}])
    return load_study(results, "made_up", "paper")


@pytest.fixture
def table(records):
    return table_data(records, Table("t", **SPEC))


def test_a_line_of_published_values_leaves_them_blank(table):
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(entries.Terminal(narrow(table)))
    lines = console.export_text().splitlines()

    at = next(at for at, line in enumerate(lines) if " TRM " in line)
    assert [cell.strip() for cell in lines[at + 1].strip("│").split("│")] == ["published", "", "", "0.199 [1]", "0.449 [2]"]


def test_explain_shows_the_fields_and_no_runs(records):
    told = find(records, "t:HRM, two loops:middle cycles/tuned").behind(records)

    assert (told.number, told.runs) == ("0/false", ())
    assert told.lines == ("A setting of the row, from its config:", "model.middle_cycles = 0", "model.tuned = false")
    assert find(records, "t:1:1").column == "ROUGE-L"  # settings are counted after the numbers


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        (("model.backbone",), "backbone"),
        (("model.high_cycles", "model.middle_cycles", "model.low_cycles"), "high/middle/low cycles"),
        (("model.cycles", "model.latent_steps"), "cycles/latent steps"),
        (("model.cycles", "train.cycles"), "cycles/cycles"),
        (("model.low_key_cycles", "model.high_key_cycles"), "low/high key cycles"),
    ],
)
def test_fields_that_end_alike_share_a_heading(fields, title):
    assert settings_title(fields) == title


def test_the_level_of_a_single_axis_is_the_label(tmp_path):
    """`model=TRM` under the head `model`; a label of its own stays, under `variant`."""
    variants = [dumped(one) for one in load_study(write_caption_study(tmp_path / "a"), "made_up", "paper").variants]
    named = [variant | {"label": f"model={variant['label']}"} for variant in variants]
    records = load_study(write_caption_study(tmp_path / "b", variants=named), "made_up", "paper")
    own = load_study(write_caption_study(tmp_path / "c", variants=[*named[:3], named[3] | {"label": "ours"}]), "made_up", "paper")

    table = table_data(records, Table("t", metrics=("cider",)))

    assert (table.corner, [row.label for row in table.rows]) == ("model", list(CAPTION_MODELS))
    assert (table_data(own, Table("t", metrics=("cider",))).corner, label_within(own, 3, "")) == ("variant", "ours")
    assert table_data(records, Table("t", metrics=("cider",), across=True)).columns == tuple(CAPTION_MODELS)
    assert table.rows[3].cells[0].run_ids == (run_id(3, 0), run_id(3, 1))


@needs_siunitx
def test_latex_compiles(tmp_path, table):
    assert compiled(table_shown(table).latex, tmp_path).exists()
