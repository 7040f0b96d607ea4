"""What README.md and docs/studies say about the studies."""

import json
from dataclasses import replace

import pytest
from refusals import refused
from shipped import TOOLS, load, module

from recstudy.base.errors import ConfigError
from recstudy.study.plan import make_plan

RECORDED = {
    "command": "python studies/sudoku_depth.py", "runs": "12 of 12", "minutes": 7.2, "date": "2026-11-23", "machine": "a machine",
    "commit": "0123456789", "uncommitted changes": False, "wall seconds": 300,
}  # fmt: skip


INDEX, STUDY = module(TOOLS / "study_pages.py"), load("sudoku_depth")
BUNDLES = sorted(INDEX.EVIDENCE.glob("*.zip"))


def judged(claim, verdict, text=""):
    return {text or claim.text: {"contrast": claim.contrast, "verdict": verdict}}


def test_a_claim_has_its_verdict_in_each_preset_or_says_that_there_is_none():
    (first, second), (paper_claim,) = STUDY.claims["quick"][:2], STUDY.claims["paper"][:1]
    tables = {"sudoku_depth.quick": {**RECORDED, "claims": judged(first, "supported")}}

    lines = INDEX.claims(replace(STUDY, claims={"quick": [first, second], "paper": [paper_claim]}), tables)

    assert lines[3:] == [
        "| claim | preset | verdict |",
        "| --- | --- | --- |",
        f"| {INDEX.writers.md(first.text)} | quick | supported |",
        f"| {INDEX.writers.md(second.text)} | quick | not judged |",
        f"| {INDEX.writers.md(paper_claim.text)} | paper | not run |",
        "",
        "Not judged: the claim was added, or its margin changed, after these results were recorded.",
    ]
    assert INDEX.claims(replace(STUDY, claims={"quick": [first]}), tables) == lines[:6]


def test_results_say_that_they_are_of_an_earlier_revision():
    """By the ids of their runs: today's study would run others."""
    current_ids = INDEX.ids(make_plan(STUDY, "quick").runs)
    first = next(iter(current_ids))

    def page_texts(ids, **changes):
        tables = {
            "sudoku_depth.quick": {
                **RECORDED,
                "verdicts": {"trm Table 1": {"differs": 2}},
                "ids": ids,
                "changes": changes,
                "tables": {},
            }
        }
        return INDEX.page(STUDY, tables), "\n".join(INDEX.reproduced([STUDY], tables))

    changed = page_texts({**current_ids, first: ["0123456789abcdef0123"]})

    shorter = INDEX.ids(make_plan(STUDY, "quick", {"train.epochs": 1}).runs)

    ids_of_more_seeds = INDEX.ids(make_plan(STUDY, "quick", seeds=STUDY.seeds["quick"] + 2).runs)

    today = (
        page_texts(current_ids),
        page_texts({}),
        page_texts(ids_of_more_seeds),
        page_texts(shorter, **{"train.epochs": 1}),
    )
    assert all("earlier revision" not in text for texts in today for text in texts)
    assert (
        "**Earlier revision**: the code or settings of 1 of 4 variants (supervision\\_steps=1, cycles=1) have changed since."
        in changed[0]
    )
    assert "12 of 12 runs (2026-11-23, earlier revision): 2 differs" in changed[1]
    assert (
        "the code or settings of all variants have"
        in page_texts({label: ["0123456789abcdef0123"] for label in current_ids})[0]
    )


def test_wall_time_counts_seconds_with_any_running_run():
    spans = [
        ("2026-11-24T10:00:00+00:00", "2026-11-24T10:02:00+00:00"),
        ("2026-11-24T10:01:00+00:00", "2026-11-24T10:03:30+00:00"),
    ]

    later_span = ("2026-11-24T15:00:00+00:00", "2026-11-24T15:00:40+00:00")  # another command's

    assert INDEX.wall_seconds(spans) == 210
    assert INDEX.wall_seconds([later_span, *spans]) == 250


COVERED = {"item": "Table 1", "study": "sudoku_depth", "status": "exact"}


@refused(globals(), "changes", "the table of what is covered")
def test_the_table_of_what_is_covered_refuses_a_name_that_its_study_does_not_have(changes, message):
    with pytest.raises(ConfigError, match=f"^coverage.yaml, 'Table 1': {message}$"):
        INDEX.coverage([STUDY], {"trm": [COVERED | changes]})


def test_the_table_of_what_is_covered_counts_by_paper_and_names_the_presets():
    items = [COVERED | {"part": "segments"}, {"item": "Table 2", "status": "missing", "why": "not published"}]

    page = INDEX.coverage([STUDY], {"trm": items})

    assert "| TRM | 2 | 1 | 0 | 1 |" in page
    assert (
        f"| Table 1 | exact | [Sudoku depth](sudoku_depth.md) | part `segments` (quick, standard, paper, fast) | {INDEX.DASH} |"
        in page
    )
    assert f"| Table 2 | missing | {INDEX.DASH} | {INDEX.DASH} | not published |" in page


ACCURACIES = {
    "item": "Accuracies",
    "study": "hrm_small_images",
    "part": "accuracies",
    "status": "exact",
    "values": {"metric": "top1_accuracy"},
}


@refused(globals(), "changes", "an exact item")
def test_an_exact_item_has_published_values_that_can_be_judged(changes, message):
    study = load("hrm_small_images")
    item = {name: value for name, value in (ACCURACIES | changes).items() if value is not None}

    assert "| `004_abstract_accuracies` | 3 | 0 |" in INDEX.coverage([study], {"004": [ACCURACIES]})
    with pytest.raises(ConfigError, match=message):
        INDEX.coverage([study], {"004": [item]})


def test_cosines_of_published_pairs_are_drawn_without_a_verdict():
    """They are those of images here; no metric is compared with them."""
    page = INDEX.coverage([load("fuselip_alignment")], {})

    assert "| `000_alignment_cosines` | 4 | 0 | 4: drawn beside ours, without a verdict |" in page


@pytest.mark.parametrize("file", BUNDLES, ids=lambda file: file.stem)
def test_committed_tables_are_those_of_the_bundle(file, tmp_path, monkeypatch):
    committed = json.loads((INDEX.TABLES / f"{file.stem}.json").read_bytes())
    monkeypatch.setattr(INDEX, "TABLES", tmp_path)

    INDEX.take_bundle(file)

    assert json.loads((tmp_path / f"{file.stem}.json").read_bytes()) == committed
