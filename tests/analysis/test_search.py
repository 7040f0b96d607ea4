import csv
import json
import re

import numpy as np
import pytest
from made_up import (
    SPACE,
    TRIALS,
    as_result,
    run_id,
    search_specs,
    searched,
    trial_line,
    write_search,
    write_study,
    write_trial,
)
from rich.console import Console

from recstudy.analysis import Best, History, Importance, ParallelCoordinates, Pareto, Slices, Table
from recstudy.analysis.figures.settings import parallel_figure, scale, settings_data, slices_caption, slices_figure
from recstudy.analysis.figures.theme import PALETTE, SPECTRUM, log_ticks
from recstudy.analysis.frame import load_study
from recstudy.analysis.report import write_report
from recstudy.analysis.rows import Outcome
from recstudy.analysis.search import (
    best_data,
    front,
    history_caption,
    history_data,
    history_figure,
    importance_caption,
    importance_data,
    importance_figure,
    importance_notes,
    pareto_caption,
    pareto_data,
    pareto_figure,
    pareto_notes,
    ranked,
    running_best,
    trial_table,
)
from recstudy.analysis.status import show_status, status
from recstudy.analysis.summary import searched as search_facts
from recstudy.analysis.summary import summary
from recstudy.analysis.tables import entries
from recstudy.analysis.tables.render import cell_text, narrow
from recstudy.analysis.tables.shown import of_cells
from recstudy.analysis.tables.table import table_data
from recstudy.errors import ConfigError
from recstudy.records import Result, append_line, write_json
from recstudy.records.reading import dumped, record_of
from recstudy.records.schema import Selected
from recstudy.records.study_schema import Range

HOSTILE = '<script>alert("x")</script> & \\evil{} $a_b^c$ 100% | *b*'
ONE = {"selection_top1_accuracy": "max"}
BEST = Best(metrics=("top1_accuracy", "params", "gflops"))
FAMILIES = SPACE | {
    "hrm": {"model.high_cycles": {"low": 1, "high": 4, "log": False}, "train.batch_size": {"choices": [32, 256]}},
}
IMPORTANCE = {
    "trials": 24,
    "importance": {"selection_top1_accuracy": {"PED-ANOVA": {"model.latent_steps": 0.6, "train.batch_size": 0.4}}},
    "missing": {"fANOVA": "<b>no package</b>"},
}


def load(results):
    return load_study(results, "made_up", "paper")


@pytest.fixture
def results(tmp_path):
    return write_search(tmp_path / "r")


@pytest.fixture
def records(results):
    return load(results)


def two_families(root):
    """ViTRM and HRM; the two share a batch size, each with its own range."""
    results = write_search(root, {}, {"space": FAMILIES, "objectives": ONE})
    vitrm = {"family": "vitrm", "model.latent_steps": 2, "train.batch_size": 16, "train.learning_rate": 1e-3}
    write_trial(results, trial_line(0, vitrm), "done", 80.0, 0.1)
    write_trial(results, trial_line(1, {"family": "hrm", "model.high_cycles": 3, "train.batch_size": 256}), "done", 85.0, 0.1)
    return results


def test_trials_become_the_variants_and_runs_of_the_study(records):
    assert [variant.levels["latent_steps"] for variant in records.variants] == [3, 1, 6, 2, 4, 5, 3, 6, 2]
    assert [row.status for row in records.rows[:9]] == [TRIALS[number][3] for number in range(9)]
    assert list(records.plan.runs[9:]) == [(4, seed, run_id(4, seed)) for seed in (1, 2, 3)] + [(6, 1, run_id(6, 1))]
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

    records = load(results)

    assert len(records.plan.search.trials) == 9
    assert records.plan.search.confirmed == {4: (1, 2, 3), 6: (1,)}


def test_a_setting_proposed_twice_is_one_run_and_two_trials(results):
    again = trial_line(4, {"model.latent_steps": 4, "train.batch_size": 16, "train.learning_rate": 2e-3})
    write_trial(results, again | {"number": 9, "variant": again["variant"] | {"label": "later"}}, "done", 90.0, 0.4)
    records = load(results)

    assert len(records.rows) == 13
    assert history_data(records, History()).query("trial == 9")["value"].tolist() == [90.0, 0.4]
    assert [row.label[:2] for row in best_data(records, BEST).rows] == ["4:", "6:", "1:", "0:", "7:"]


def test_fields_that_end_alike_keep_their_paths(tmp_path):
    space = {"vitrm": {"model.width": {"low": 1, "high": 2, "log": False}, "train.width": {"low": 1, "high": 2, "log": False}}}

    assert load(write_search(tmp_path / "r", {}, {"space": space})).plan.axes == {
        "model.width": "model.width",
        "train.width": "train.width",
    }


def test_the_objective_is_the_selected_score_or_a_column():
    selected = Selected(scores={"top1_accuracy": 81})
    row = Outcome(
        result=Result(status="done", metrics={"top1_accuracy": 79.0, "nll": None}, selected=selected, cost={"gflops": 0.3})
    )

    assert row.objective("selection_top1_accuracy") == 81.0
    assert [row.objective(name) for name in ("top1_accuracy", "gflops", "nll", "params")] == [79.0, 0.3, None, None]


def test_status_counts_stopped_trials_apart(results):
    (row,) = status(results)

    assert (row.done, row.stopped, row.failed, row.planned) == (9, 1, 1, 13)
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        show_status(results, console)
    assert re.search(r"made_up\W+paper\W+9\W+1\W+1\W+13", console.export_text())


def test_a_search_is_finished_where_every_trial_is_done_or_stopped(tmp_path):
    results = write_search(tmp_path / "r", {0: TRIALS[0], 3: TRIALS[3]})
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        show_status(results, console)

    assert "Finish" not in console.export_text()
    assert "Finish" not in str(table_data(load(results), Table("t")).caption)


def test_a_run_that_was_stopped_once_and_finished_later_is_done(results):
    """Another study, without a scheduler, ran it to its end."""
    results.run(run_id(3, 0)).finish(as_result(searched(70.0, 0.2)))

    assert load(results).rows[3].status == "done"
    assert [(row.done, row.stopped) for row in status(results)] == [(10, 0)]


def test_a_stopped_run_is_neither_failed_nor_not_run(records):
    table = table_data(records, Table("t", metrics=("top1_accuracy",)))

    assert cell_text(table.rows[3].cells[0]) == "\N{EN DASH} 1 stopped early"
    assert "8 of 13 runs done, 1 diverged, 1 stopped, 1 failed" in str(table.caption)


def test_the_front_by_hand():
    """More is better upwards, less to the right: (3, 3) is beaten by (4, 3), and of two alike both stay."""
    points = np.array([[4.0, 3.0], [3.0, 3.0], [2.0, 1.0], [2.0, 1.0], [5.0, 9.0], [1.0, 2.0]])

    assert front(points, ["max", "min"]).tolist() == [True, False, True, True, True, False]
    assert front(np.empty((0, 2)), ["max", "min"]).tolist() == []


def test_the_running_best_skips_what_has_no_value():
    assert running_best([None, 2, 1, None, 3], "max").tolist()[1:] == [2, 2, 2, 3]
    assert running_best([4, 5, None, 3], "min").tolist() == [4, 4, 4, 3]
    assert np.isnan(running_best([None, 2], "max")[0])


def test_history_has_a_row_a_trial_and_objective(records):
    data = history_data(records, History())
    score = data[data["objective"] == "selection_top1_accuracy"]

    assert score["best"].tolist() == [80, 80, 80, 80, 90, 90, 90, 90, 90]
    assert score["reached"].dropna().tolist() == [60.5]
    assert score["value"].notna().tolist() == [TRIALS[number][3] == "done" for number in range(9)]
    assert data[data["objective"] == "gflops"]["best"].tolist() == pytest.approx([0.3] + 8 * [0.1])
    assert history_caption(data).endswith("At the bottom: trials without a value. Not drawn: 1 trial not finished yet.")


def test_history_draws_a_step_line_and_a_marker_a_state(records):
    figure = history_figure(history_data(records, History()))

    shown = [trace.name for trace in figure.data if trace.showlegend]
    assert shown == ["best so far", "finished", "stopped early", "diverged", "failed"]
    assert figure.data[0].line.shape == "hv"
    stopped, failed = figure.data[2], figure.data[4]
    assert list(stopped.y) == [60.5]
    assert failed.y[0] < 60.5  # at the bottom
    assert figure.layout.yaxis.range[0] < failed.y[0]
    assert (figure.layout.yaxis.title.text, figure.layout.yaxis2.title.text) == (
        "Top-1 accuracy, selection (%)",
        "Forward (GFLOP/image)",
    )


def test_fresh_seeds_leave_the_searchs_own_seed_out(records):
    """Trial 4: the search saw 90 (85 on the test set); its fresh seeds gave 88 and 86, and one is missing."""
    table = best_data(records, BEST)

    assert [cell_text(cell) for cell in table.rows[0].cells] == [
        "90.0 (n=1)",
        "87.0 [72.0, 96.8] (n=2 of 3)",
        "3,624,971",
        "0.4",
    ]
    assert table.rows[0].cells[1].run_ids == (run_id(4, 1), run_id(4, 2))
    assert cell_text(table.rows[1].cells[1]) == "87.0 [41.2, 100.0] (n=1 of 3)"
    assert cell_text(table.rows[2].cells[1]) == "\N{EN DASH} not run"
    assert table.notes[-1].startswith("Scores of fresh seeds leave out the seed that the search used")


def test_the_front_comes_first_and_then_the_score(records):
    """Trial 1 reaches 70 at the least cost: it is on the front, so it stands before 0 (80) and 7 (75)."""
    table = trial_table(records, records.plan.search)

    assert ranked(table, records.plan.search.objectives)["trial"].tolist() == [4, 6, 1, 0, 7]
    assert ranked(table, ONE)["trial"].tolist() == [4, 6, 0, 7, 1]
    assert ranked(table, {"gflops": "min"})["trial"].tolist() == [1, 0, 6, 4, 7]
    assert [row.label[0] for row in best_data(records, Best(most=2)).rows] == ["4", "6"]


def test_without_fresh_seeds_the_table_says_so(tmp_path):
    records = load(write_search(tmp_path / "r", {0: TRIALS[0]}, {"confirm": {"best": 0, "seeds": []}, "objectives": ONE}))

    table = best_data(records, BEST)

    assert table.notes == ("No fresh seeds are planned, so no score here is free of luck",)
    assert table.columns[0] == "Top-1 accuracy, selection (%), in the search"


def test_pareto_of_a_search(records):
    data = pareto_data(records, Pareto())

    assert dict(zip(data["trial"], data["front"], strict=True)) == {0: False, 1: True, 4: True, 6: True, 7: False}
    figure = pareto_figure(data, Pareto(), "selection_top1_accuracy")
    assert (list(figure.data[1].x), list(figure.data[1].text)) == ([0.1, 0.3, 0.4], ["1", "6", "4"])
    assert pareto_caption(records, Pareto(), data).startswith(
        "One point is a finished trial, at the search's one seed; 5 of 9 trials drawn. Better: up and to the left."
    )


def test_pareto_of_another_study_takes_means_and_needs_y(tmp_path):
    records = load(write_study(tmp_path / "r"))
    spec = Pareto(y="top1_accuracy")  # all cost the same

    data = pareto_data(records, spec)

    assert data["top1_accuracy"].tolist() == pytest.approx([93.1, 93.1, 94.1])
    assert data["n"].tolist() == [3, 2, 1]
    assert data["front"].tolist() == [False, False, True]
    with pytest.raises(ConfigError, match="'pareto' needs y: made_up is no search"):
        pareto_data(records, Pareto())
    absent = Pareto(y="top1_acuracy")
    assert pareto_notes(records, absent) == ("no run recorded a metric 'top1_acuracy'",)
    assert pareto_data(records, absent).empty


@pytest.mark.parametrize("spec", [History(), Importance(), ParallelCoordinates(), Slices()])
def test_a_study_that_is_no_search_is_refused(tmp_path, spec):
    records = load(write_study(tmp_path / "r"))

    with pytest.raises(ConfigError, match=f"'{spec.name}' shows a search, but made_up is a study of given variants. Take it out"):
        spec.drawn(records)
    with pytest.raises(ConfigError, match="'best' shows a search"):
        best_data(records, BEST)


def test_importance_says_what_it_rests_on_and_why_one_is_missing(results):
    write_json(results.study("made_up", "paper") / "importance-3f2a9c0d1e4b.json", IMPORTANCE)
    records = load(results)

    data = importance_data(records, Importance())

    assert data["importance"].tolist() == [0.6, 0.4]
    assert importance_caption(data).startswith("Rests on 24 finished trials. PED-ANOVA:")
    assert importance_notes(records, Importance()) == ("fANOVA is missing: <b>no package</b>",)
    figure = importance_figure(data)
    assert list(figure.layout.yaxis.ticktext) == ["batch size", "latent steps"]  # the first is the lowest


def test_importance_before_there_is_any(records):
    assert importance_data(records, Importance()).empty
    assert importance_notes(records, Importance()) == ("importance is computed once enough trials have finished",)


def test_parallel_lines_go_from_the_settings_to_the_score(records):
    search = records.plan.search
    figure = parallel_figure(settings_data(records, ParallelCoordinates()), search)

    best = figure.data[-1]  # drawn last: latent steps 4 of 1 to 6, batch size 16, learning rate 2e-3 of 1e-5 to 1e-2
    assert list(best.y) == pytest.approx([3 / 5, 0.0, (np.log10(2e-3) + 5) / 3, 1.0])
    assert best.line.color == SPECTRUM[-1] == PALETTE[1]
    assert best.hovertext[0] == "trial 4: 90.0 %, model.latent_steps = 4"
    assert list(figure.layout.xaxis.ticktext) == [
        "latent steps",
        "batch size",
        "learning rate",
        "Top-1<br>accuracy,<br>selection (%)",
    ]


def test_no_mark_of_a_trial_is_faded(records):
    """At 60 % of its opacity the palette's blue has a contrast of 2.5 to white."""
    search = records.plan.search
    parallel = parallel_figure(settings_data(records, ParallelCoordinates()), search)
    spec = Pareto(x="gflops", y="top1_accuracy")

    assert {trace.opacity for figure in (parallel, spec.drawn(records).figure) for trace in figure.data} == {None}


def test_where_less_is_better_the_least_is_orange(tmp_path):
    records = load(write_search(tmp_path / "r", search={"objectives": {"gflops": "min"}}))

    figure = parallel_figure(settings_data(records, ParallelCoordinates()), records.plan.search)

    assert figure.data[-1].hovertext[-1] == "trial 1: 0.1 GFLOP/image"
    assert (figure.data[0].line.color, figure.data[-1].line.color) == ("#0072B2", "#D55E00")


def test_families_have_a_panel_each_and_share_a_slice(tmp_path):
    records = load(two_families(tmp_path / "r"))
    search, data = records.plan.search, settings_data(records, Slices())

    parallel = parallel_figure(data, search)
    slices = slices_figure(data, search)

    assert (parallel.layout.yaxis.title.text, parallel.layout.yaxis2.title.text) == ("vitrm", "hrm")
    assert [len(trace.x) for trace in parallel.data] == [4, 3]
    titles = [slices.layout[f"xaxis{at or ''}"].title.text for at in ("", 2, 3, 4, 5)]
    assert titles == ["family", "latent steps", "batch size", "learning rate", "high cycles"]
    assert list(slices.layout.xaxis3.ticktext) == ["16", "32", "64", "256"]
    assert [trace.marker.symbol for trace in slices.data if trace.xaxis == "x3"] == ["circle", "square"]
    assert slices_caption(data, search).endswith("Symbols: vitrm circle, hrm square.")
    assert records.level(1, "latent_steps") is None


def test_slices_have_a_log_axis_where_the_range_is_log(records):
    figure = slices_figure(settings_data(records, Slices()), records.plan.search)

    assert list(figure.layout.xaxis3.ticktext) == ["1e-05", "0.0001", "0.001", "0.01"]
    assert list(figure.data[2].x) == pytest.approx(np.log10([1e-3, 1e-4, 2e-3, 1e-3, 5e-5]))
    assert list(figure.data[0].marker.color) == [0, 1, 4, 6, 7]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (16, 256, [16, 32, 64, 128, 256]),
        (1e-5, 1e-3, [1e-5, 1e-4, 1e-3]),
        (0.02, 0.3, [0.02, 0.05, 0.1, 0.2]),
        (3, 40, [5, 10, 20]),
        (0.6, 1.2, [0.6, 1.2]),
        (0.3, 0.3, [0.3]),
    ],
)
def test_ticks_of_a_log_axis(low, high, ticks):
    assert log_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("stated", "ticks"),
    [
        ({"low": 1, "high": 4, "log": False}, ["1", "2", "3", "4"]),
        ({"low": 0.0, "high": 0.2, "log": False}, ["0", "0.05", "0.1", "0.15", "0.2"]),
        ({"low": 3, "high": 100, "log": False}, ["20", "40", "60", "80", "100"]),
        ({"low": 2, "high": 2, "log": True}, ["2"]),
        ({"choices": [True, 1, None, "<i>"]}, ["true", "1", "none", "&lt;i&gt;"]),
    ],
)
def test_ticks_of_other_axes(stated, ticks):
    assert list(scale([record_of(Range, stated)], []).ticks.values()) == ticks


def test_the_header_says_how_far_the_search_is(results):
    write_json(results.study("made_up", "paper") / "plan.json", dumped(load(results).plan) | {"variants": [], "runs": []})
    write_json(results.study("made_up", "paper") / "plan-abc.json", dumped(load(results).plan) | {"definition": "abc"})
    append_line(results.study("made_up", "paper") / "trials-abc.jsonl", trial_line(0, {}))
    append_line(results.study("made_up", "paper") / "trials-abc.jsonl", {"confirms": 0, "seed": 1, "id": "x"})

    records = load(results)

    assert search_facts(records, records.plan.search) == [
        ("Search", "tpe, 24 runs, stops early by asha"),
        ("Trials", "9: 5 finished, 1 diverged, 1 stopped, 1 failed, 1 not run"),
        ("Best so far", "Top-1 accuracy, selection 90.0 % (trial 4)"),
    ]
    assert ("Definition", "3f2a9c0d1e4b; kept and not shown: abc (1 trial)") in summary(records)
    assert ("Runs", "8 of 13 done, 1 diverged, 1 stopped, 1 failed, 2 not run") in summary(records)


def figures_of(page):
    """The JSON of each figure, read as strictly as a browser does."""
    texts = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    return [json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON")) for text in texts]


@pytest.mark.parametrize(
    ("trials", "figures"),
    [
        ({}, 0),
        ({0: TRIALS[0]}, 4),
        ({5: TRIALS[5], 2: TRIALS[2]}, 1),
        ({8: TRIALS[8]}, 1),
        ({3: TRIALS[3]}, 1),
        (TRIALS, 4),
    ],
    ids=["none", "one", "all failed", "none finished", "all stopped", "nine"],
)
def test_every_part_survives_any_search(tmp_path, trials, figures):
    page = write_report(write_search(tmp_path / "r", trials), "made_up", "paper").read_text()

    assert len(figures_of(page)) == figures
    assert page.count("Nothing to draw yet.") == 5 - figures
    assert ("no trial has finished yet" in page) == (not any(trial[3] == "done" for trial in trials.values()))


def test_a_field_with_one_value_can_be_drawn(tmp_path):
    space = {
        "vitrm": SPACE["vitrm"]
        | {"train.batch_size": {"choices": [32]}, "model.latent_steps": {"low": 3, "high": 3, "log": False}}
    }
    results = write_search(tmp_path / "r", {0: TRIALS[0]}, {"space": space})

    assert len(figures_of(write_report(results, "made_up", "paper").read_text())) == 4


def test_two_families_in_a_whole_report(tmp_path):
    page = write_report(two_families(tmp_path / "r"), "made_up", "paper").read_text()

    assert len(figures_of(page)) == 4


def test_hostile_labels_are_text_everywhere(tmp_path):
    results = write_search(tmp_path / "r", {}, {"space": {HOSTILE: SPACE["vitrm"], "hrm": SPACE["vitrm"]}})
    params = {"family": HOSTILE, "model.latent_steps": 3, "train.batch_size": 16, "train.learning_rate": 1e-3}
    write_trial(results, trial_line(0, params, HOSTILE), "done", 80.0, 0.1)
    write_json(results.study("made_up", "paper") / "importance-3f2a9c0d1e4b.json", IMPORTANCE)
    records = load(results)
    table = best_data(records, BEST)

    page = write_report(results, "made_up", "paper").read_text()

    assert "<script>alert" not in page
    assert "<b>no package" not in page
    assert len(figures_of(page)) == 5
    assert "<script" not in of_cells(table).markdown
    assert r"\textbackslash{}evil" in of_cells(table).latex
    console = Console(width=300, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(entries.Terminal(narrow(table)))
    assert "*b*" in console.export_text()
    for spec in search_specs()[1:]:
        text = spec.drawn(records).figure.to_json()
        assert "<script" not in text.replace("\\u003c", "<")


def test_synthetic_trials_are_said_to_be_so(tmp_path):
    results = write_search(tmp_path / "r", {0: TRIALS[0]})
    made = searched(80.0, 0.3)
    results.run(run_id(0, 0)).finish(as_result(made | {"provenance": made["provenance"] | {"synthetic": True}}))
    page = write_report(results, "made_up", "paper")

    assert page.read_text().count('<p class="warning">synthetic data: generated by a program') == 1
    for name in ("history", "slices", "pareto"):
        (row, *_) = csv.DictReader((page.parent / "figures" / f"{name}.csv").read_text().splitlines())
        assert row["synthetic"] == "True"
