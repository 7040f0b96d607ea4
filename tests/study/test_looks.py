"""How often a study was looked at, of how many seeds at most: stated by the study, and kept in its folder."""

import os
import shutil
from dataclasses import replace

import pytest
import tiny

from recstudy import grid
from recstudy.base.errors import StorageError
from recstudy.evidence.seeds import Looks
from recstudy.records import Results
from recstudy.records.plans import record_look
from recstudy.records.reading import append_record
from recstudy.records.study_schema import Look
from recstudy.report.study_records import load_study
from recstudy.study.plan import make_plan
from recstudy.study.record import record_plan, resumed
from recstudy.study.study import Study
from recstudy.study.testing import finish_runs, write_study

STUDY = replace(tiny.study, seeds={"quick": 3, "long": 1}, max_seeds={"quick": 10})


def finish(results: Results, seeds: range, study: Study = STUDY) -> None:
    runs = [run for run in make_plan(study, seeds=seeds.stop).runs if run.seed in seeds]
    finish_runs(results, runs, lambda run: 90.0 + run.seed)


@pytest.fixture
def results(tmp_path) -> Results:
    """Three seeds are planned, and finished."""
    return write_study(tmp_path / "results", STUDY, lambda run: 90.0 + run.seed)


def test_a_study_states_its_most_seeds_by_preset_and_the_command_line_another():
    assert [make_plan(STUDY, preset).max_seeds for preset in ("quick", "long")] == [10, 0]
    assert make_plan(STUDY, seeds=9, max_seeds=12).max_seeds == 12


def looks_taken(results: Results) -> tuple[int, ...]:
    """The looks at all variants that were recorded, without the present one."""
    records = load_study(results, "tiny", "quick")
    return records.looks.at(range(len(records.variants))).seed_counts


def test_each_report_is_a_look_that_later_plans_keep(results, typed):
    folder = results.study("tiny", "quick")
    for _ in range(2):
        typed("report", folder)
    assert looks_taken(results) == (3,)

    record_plan(make_plan(STUDY, seeds=5), results)
    record_look(results, "tiny", "quick")  # with the fourth seed under way
    finish(results, range(3, 5))
    # of which the second is the present one
    assert load_study(results, "tiny", "quick").looks.at_study() == Looks((3, 5), 10)
    assert looks_taken(results) == (3,)

    with results.holding("tiny", "quick"):
        record_look(results, "tiny", "quick")
    record_plan(make_plan(STUDY, seeds=5), results)
    assert looks_taken(results) == (3, 5)


def test_seeds_that_were_read_stay_when_a_level_is_added(results):
    """A new level had three seeds, and so had all others: the page forgot the look at eight."""
    record_plan(make_plan(STUDY, seeds=8), results)
    finish(results, range(3, 8))
    record_look(results, "tiny", "quick")
    larger = replace(
        STUDY, variants=grid({"model.latent_steps": [1, 2, 3, 4], "train.supervision_steps": [1, 2]})
    )

    record_plan(make_plan(larger), results)

    plan = resumed(make_plan(larger, seeds=2), results)
    assert plan.seeds_each == [8] * 8
    finish_runs(results, plan.runs, lambda run: 90.0 + run.seed)
    assert load_study(results, "tiny", "quick").looks.at_study() == Looks((8,), 10)
    assert load_study(results, "tiny", "quick").looks.at(range(6)) == Looks((8,), 10)


def test_a_seed_that_was_read_stays_without_its_folder(results):
    record_plan(make_plan(STUDY, seeds=5), results)
    finish(results, range(3, 5))
    record_look(results, "tiny", "quick")
    shutil.rmtree(results.root / "runs")

    assert resumed(make_plan(STUDY), results).seeds_each == [5] * 6


def test_seeds_of_other_settings_do_not_stay(results):
    record_plan(make_plan(STUDY, seeds=5), results)
    finish(results, range(3, 5))

    assert resumed(make_plan(STUDY, changes={"train.epochs": 9}), results).seeds_each == [3] * 6


def test_a_study_without_a_whole_seed_was_not_looked_at(tmp_path):
    results = Results(tmp_path / "results").create()
    record_plan(make_plan(STUDY), results)

    record_look(results, "tiny", "quick")

    assert looks_taken(results) == load_study(results, "tiny", "quick").looks.at_study().seed_counts == ()


def test_a_folder_that_cannot_be_written_can_be_looked_at(results, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)

    record_look(results, "tiny", "quick")

    assert looks_taken(results) == ()


def test_looks_of_older_records_count_seeds(results):
    """Records before 2026-11-28 have numbers of whole seeds by definition, and no runs."""
    definition = make_plan(STUDY).definition
    append_record(
        results.study("tiny", "quick") / f"looks-{definition}.jsonl",
        Look(date="2026-11-01T00:00:00+00:00", seeds=2),
    )

    assert looks_taken(results) == (2,)


def test_a_damaged_log_of_looks_is_named_by_who_needs_it(results):
    """The board records looks on each page; a line that cannot be read is reported by the report, and is no
    crash.
    """
    (results.root / "studies" / "looks.jsonl").write_text("{broken}\n{}\n")

    record_look(results, "tiny", "quick")
    with pytest.raises(StorageError, match=r"looks\.jsonl"):
        looks_taken(results)
