import io
import re

import pytest
from made_up import TRIALS, finish, read, run_id, searched, trial_line, write_search, write_trial
from rich.console import Console

from recstudy.records import Result, append_line, write_json
from recstudy.records.reading import dumped
from recstudy.records.runs import Row
from recstudy.records.schema import Selected
from recstudy.report import Best, History, Slices, Table
from recstudy.report.findings import findings
from recstudy.report.kinds import draw_figure, make_table, render_part
from recstudy.report.status import show_status, status
from recstudy.report.summary import origins
from recstudy.report.summary import searched as searched_facts
from recstudy.report.trials import (
    ranked,
    trial_table,
)

ONE_OBJECTIVE = {"selection_top1_accuracy": "max"}
BEST = Best(metrics=("top1_accuracy", "params", "gflops"))


@pytest.fixture
def results(tmp_path):
    return write_search(tmp_path / "r")


@pytest.fixture
def records(results):
    return read(results)


def test_trials_become_the_variants_and_runs_of_the_study(records):
    assert [variant.levels["latent_steps"] for variant in records.variants] == [3, 1, 6, 2, 4, 5, 3, 6, 2]
    assert [row.status for row in records.rows[:9]] == [TRIALS[number][3] for number in range(9)]
    assert [run[:3] for run in records.plan.runs[9:]] == [
        (4, seed, run_id(4, seed)) for seed in (1, 2, 3)
    ] + [(6, 1, run_id(6, 1))]
    assert records.plan.search.confirmed == {4: (1, 2, 3), 6: (1,)}
    assert records.plan.axes["batch_size"] == "train.batch_size"
    assert records.chosen({"batch_size": 64, "latent_steps": 3}) == [6]


def test_other_keys_torn_lines_and_confirmations_of_nothing_are_left_out(results):
    log = results.study("made_up", "paper") / "trials-3f2a9c0d1e4b.jsonl"
    append_line(log, {"clock": {"session": "first", "h": 3.0, "gpuh": 0.0}})
    append_line(log, {"weather": "fine"})
    append_line(log, {"confirms": 99, "seed": 1, "id": "x"})
    append_line(log, {"confirms": 4, "seed": 0, "id": run_id(4, 0)})  # the search's own seed is not fresh
    log.write_bytes(log.read_bytes() + b'{"number": 9, "par')

    records = read(results)

    assert len(records.plan.search.trials) == 9
    assert records.plan.search.confirmed == {4: (1, 2, 3), 6: (1,)}


def test_a_setting_proposed_twice_is_one_run_and_two_trials(results):
    repeated_line = trial_line(
        4, {"model.latent_steps": 4, "train.batch_size": 16, "train.learning_rate": 2e-3}
    )
    write_trial(
        results,
        repeated_line | {"number": 9, "variant": repeated_line["variant"] | {"label": "later"}},
        "done",
        90.0,
        0.4,
    )
    records = read(results)

    assert len(records.rows) == 13
    assert draw_figure(records, History()).data.query("trial == 9")["value"].tolist() == [90.0, 0.4]
    assert [row.label[:2] for row in make_table(records, BEST).rows] == ["4:", "6:", "1:", "0:", "7:"]


def test_fields_that_end_alike_keep_their_paths(tmp_path):
    space = {
        "vitrm": {
            "model.width": {"low": 1, "high": 2, "log": False},
            "train.width": {"low": 1, "high": 2, "log": False},
        }
    }

    assert read(write_search(tmp_path / "r", {}, {"space": space})).plan.axes == {
        "model.width": "model.width",
        "train.width": "train.width",
    }


def test_the_objective_is_the_selected_score_or_a_column():
    selected = Selected(scores={"top1_accuracy": 81})
    row = Row(
        result=Result(
            status="done",
            metrics={"top1_accuracy": 79.0, "nll": None},
            selected=selected,
            cost={"gflops": 0.3},
        )
    )

    assert row.objective("selection_top1_accuracy") == 81.0
    assert [row.objective(name) for name in ("top1_accuracy", "gflops", "nll", "params")] == [
        79.0,
        0.3,
        None,
        None,
    ]


def test_status_counts_stopped_trials_apart(results):
    (row,) = status(results)

    assert (row.done, row.diverged, row.stopped, row.failed, row.planned) == (8, 1, 1, 1, 13)
    terminal = Console(width=120, file=io.StringIO())
    show_status(results, terminal)
    assert re.search(r"made_up\W+paper\W+8\W+1\W+1\W+1\W+13", terminal.file.getvalue())


def test_a_search_is_finished_where_every_trial_is_done_or_stopped(tmp_path):
    results, terminal = (
        write_search(tmp_path / "r", {0: TRIALS[0], 3: TRIALS[3]}),
        Console(file=io.StringIO()),
    )
    show_status(results, terminal)

    assert "Finish" not in terminal.file.getvalue()
    assert "Finish" not in str(make_table(read(results), Table("t")).caption)


def test_a_run_that_was_stopped_once_and_finished_later_is_done(results):
    """Another study, without a scheduler, ran it to its end."""
    finish(results, 3, 0, searched(70.0, 0.2))

    assert read(results).rows[3].status == "done"
    assert [(row.done, row.stopped) for row in status(results)] == [(9, 0)]


def test_the_front_comes_first_and_then_the_score(records):
    """Trial 1 reaches 70 at the least cost: it is on the front, so it stands before 0 (80) and 7 (75)."""
    table = trial_table(records, records.plan.search)

    assert ranked(table, records.plan.search.objectives)["trial"].tolist() == [4, 6, 1, 0, 7]
    assert ranked(table, ONE_OBJECTIVE)["trial"].tolist() == [4, 6, 0, 7, 1]
    assert ranked(table, {"gflops": "min"})["trial"].tolist() == [1, 0, 6, 4, 7]
    assert [row.label[0] for row in make_table(records, Best(most=2)).rows] == ["4", "6"]


def test_runs_of_earlier_definitions_are_counted(results):
    study, search_plan = results.study("made_up", "paper"), dumped(read(results).plan)
    write_json(study / "plan.json", search_plan | {"variants": [], "runs": []})
    write_json(study / "plan-abc.json", search_plan | {"definition": "abc", "variants": [], "runs": []})
    append_line(study / "trials-abc.jsonl", trial_line(0, {}) | {"id": "x"})
    results.run("x").path.mkdir()

    assert ("Definition", "3f2a9c0d1e4b; 1 run of earlier variants or settings in runs/") in origins(
        read(results)
    )


def test_a_search_names_its_best_trials_by_each_score_and_its_ties(tmp_path):
    """Trials 4 and 6 have equal scores in the search; over fresh seeds, trial 6 has 89 and trial 4 has 87."""
    trials = {4: TRIALS[4], 6: (*TRIALS[6][:4], 90.0, 0.3), 0: TRIALS[0]}
    results = write_search(tmp_path / "r", trials, {"objectives": ONE_OBJECTIVE})
    finish(results, 6, 1, searched(0.0, 0.3, 89.0))
    records = read(results)

    best, *_ = findings(records)

    assert best.text == (
        "in the search by top-1 accuracy, selection: trials 4 and 6 tie with 90.0; over fresh seeds by"
        " top-1 accuracy: trial 6 (3 latent steps, batch size 64, learning rate 0.001) with 89.0 [44.3, 100.0]"
        " (n=1 of 3)"
    )
    assert [render_part(records, part).finding.partition(" (")[0] for part in (History(), Slices())] == [
        "best 90.0 %: trials 4 and 6 tie"
    ] * 2
    assert dict(searched_facts(records, records.plan.search))["Best so far"].endswith(
        "90.0 % (trials 4 and 6 tie)"
    )


def test_the_table_shows_the_score_of_the_search_that_orders_it(tmp_path):
    """Also if the score is a metric that the table shows over fresh seeds."""
    records = read(write_search(tmp_path / "r", search={"objectives": {"top1_accuracy": "max"}}))

    table = make_table(records, Best(metrics=("top1_accuracy",)))

    assert table.columns == ["Top-1 accuracy (%), in the search", "Top-1 accuracy (%), fresh seeds"]
    assert [row.cells[0].value for row in table.rows] == [85.0, 80.0, 75.0, 70.0, 65.0]
