import shutil
from dataclasses import replace
from itertools import pairwise

import pandas as pd
import plotly.graph_objects as go
import pytest
from made_up import TABLE1, as_result, base, plan, result, run_id, specs, variants, write_chest, write_study

from recstudy.analysis import Budgets, Curve, Effort, LearningCurves, Residuals
from recstudy.analysis.cells import cell
from recstudy.analysis.figures.curve import curve_data, curve_figure, curve_notes, draw_effort
from recstudy.analysis.figures.layout import apart, dress
from recstudy.analysis.figures.learning import cut_note, learning_data, learning_figure, learning_notes, shown_variants
from recstudy.analysis.figures.theme import Size, brief, clipped, on_paper, powers_of_two, style, y_range
from recstudy.analysis.frame import load_study
from recstudy.analysis.targets import Placement
from recstudy.errors import ConfigError
from recstudy.metrics import METRICS
from recstudy.records import Results, append_line, write_json

SPEC = specs()[2]


def test_curve_data_has_ours_and_the_published_points(records):
    data = curve_data(records, SPEC)

    ours = data[~data["published"].astype(bool)]
    assert list(zip(ours["line"], ours["x"], ours["n"], strict=True)) == [
        ("ViTRM", 64, 3),
        ("ViTRM", 128, 2),
        ("ViT-Small", 64, 1),
        ("ViT-Small", 128, 0),
    ]
    assert list(ours["value"][:3]) == pytest.approx([93.1, 93.1, 94.1])
    published = data[data["published"].astype(bool)]
    assert list(published["value"]) == [92.6, 93.1, 94.0, 93.9]
    assert list(published["verdict"])[:2] == ["consistent", "undecided"]
    assert curve_notes(records, SPEC, data) == (
        "1 of 4 points not run yet",
        "2 of 4 published points not comparable",
    )


def test_curve_figure_draws_a_dot_a_seed_a_band_from_three_seeds_on_and_published_values_with_their_margin(records):
    figure = curve_figure(curve_data(records, SPEC), SPEC)

    names = [trace.name for trace in figure.data if trace.name]
    assert names == ["ViTRM", "ViTRM, published", "ViT-Small", "ViT-Small, published"]
    band, dots, line, published = figure.data[:4]
    assert band.fill == "toself"
    assert list(band.x) == [64, 64]  # of the 128s one has failed
    assert list(zip(dots.x, dots.y, strict=True)) == [(64, 93.0), (64, 93.1), (64, 93.2), (128, 92.9), (128, 93.3)]
    assert list(line.x) == [64, 128]
    assert published.error_y.array[0] == pytest.approx(TABLE1[0].margin)
    assert published.marker.symbol == "circle-open"
    assert published.hovertext[0].startswith("published: 92.6, ViTRM Table 1 (002_table1_cifar10#2): consistent")
    assert figure.layout.yaxis.title.text == "Top-1 accuracy (%)"
    assert figure.layout.xaxis.title.text == "batch size"


def test_a_cost_may_be_the_x_axis(records):
    data = curve_data(records, Curve("c", x="gflops", y="top1_accuracy", by="model"))

    assert list(data["x"].dropna().unique()) == [0.34512]


def test_test_time_depth_is_an_axis_of_its_own(records):
    """ViTRM at batch 64: 91.0, 91.1, 91.2 after one supervision step, 93.0, 93.1, 93.2 after two."""
    data = curve_data(records, Curve("depth", x="eval.depth", y="top1_accuracy", by="model", where={"batch_size": 64}))
    vitrm = data[data["line"] == "ViTRM"]

    assert vitrm["x"].tolist() == [1, 2]
    assert vitrm["value"].tolist() == pytest.approx([91.1, 93.1])
    assert vitrm["n"].tolist() == [3, 3]


def write_grids(results):
    """Two variants of two seeds: exact and cell accuracy and the residual after 1 and 2 segments."""
    for variant, seed in ((0, 0), (0, 1), (1, 0), (1, 1)):
        exact = 40.0 + 10 * variant + seed
        depths = {"exact_accuracy": {"1": 1.0, "2": exact}, "cell_accuracy": {"1": 30.0, "2": 90.0 + seed}}
        depths["residual"] = {"1": 1.0 + seed / 10, "2": (0.01 + 0.04 * seed) / (1 + variant)}
        results.run(run_id(variant, seed)).finish(as_result(result(None) | {"depths": depths}))


@pytest.mark.parametrize(("metric", "second"), [("exact_accuracy", [40.5, 50.5]), ("cell_accuracy", [90.5, 90.5])])
def test_both_scores_of_puzzles_stand_over_depth(results, metric, second):
    write_grids(results)
    spec = Curve("depth", x="eval.depth", y=metric, by="variant", where={"model": "ViTRM"})

    data = curve_data(load_study(results, "made_up", "paper"), spec)

    assert data["x"].tolist() == [1, 2, 1, 2]
    assert data["value"].tolist()[1::2] == second
    assert curve_figure(data, spec).layout.xaxis.title.text == "supervision steps at test"


def test_a_point_of_a_curve_is_a_tables_cell(results):
    """Also of the metric after so many supervision steps of the same weights: one fit for all that is shown of a metric."""
    write_grids(results)
    records = load_study(results, "made_up", "paper")
    batch = Curve("c", x="batch_size", y="top1_accuracy", by="model")
    depth = Curve("d", x="eval.depth", y="exact_accuracy", by="variant", where={"model": "ViTRM"})

    for spec, shown in ((batch, ["top1_accuracy"] * 4), (depth, ["exact_accuracy@1", "exact_accuracy@2"] * 2)):
        points = curve_data(records, spec).query("not published").to_dict("records")
        for point, name in zip(points, shown, strict=True):
            levels = {"model": point["line"], "batch_size": point["x"]}
            variants = (
                records.chosen(levels)
                if spec is batch
                else [index for index, one in enumerate(records.variants) if one.label == point["line"]]
            )
            found = cell(records, variants, name, Placement({}, ()))
            known = [point[end] if pd.notna(point[end]) else None for end in ("value", "low", "high")]
            assert (known, point["n"]) == ([found.value, found.low, found.high], found.n)


def test_residuals_are_a_line_a_variant_in_powers_of_ten(results):
    """The interval of 0.01 and 0.05, 0.03 ± 0.25, reaches zero: it ends at half of the lowest point."""
    write_grids(results)
    spec = Residuals(where={"model": "ViTRM"})

    data = curve_data(load_study(results, "made_up", "paper"), spec)
    figure = curve_figure(data, spec)

    assert data["line"].unique().tolist() == ["ViTRM, batch_size=64", "ViTRM, batch_size=128"]
    assert data["value"].tolist() == pytest.approx([1.05, 0.03, 1.05, 0.015])
    assert data["low"].min() < 0
    assert [trace.fill for trace in figure.data] == [None] * 4  # two seeds have dots, and no band
    band, dots, line, *_ = curve_figure(data.assign(n=3), spec).data
    assert figure.layout.yaxis.type == "log"
    assert min(band.y) == 0.015
    assert list(dots.y) == pytest.approx([1.0, 1.1, 0.01, 0.05])
    assert list(line.y) == pytest.approx([1.05, 0.03])
    assert spec.heading == "How far the states still move, segment by segment"


def test_every_way_to_think_more_is_a_line_over_its_flops_and_rows_of_a_table(tmp_path):
    """A segment costs 0.25 GFLOP: two of evaluation 0.5. Trajectories of 4 segments; the two seeds halt after 1 and 2."""
    own = {"trajectories": 2, "copies": 1, "segments": 4}
    results = write_study(tmp_path, base=base(evaluation_steps=2, evaluation_depths=4, at_test=own), seeds=[0, 1])
    for seed in (0, 1):
        more = {"noisy_exact_accuracy.1": 30.0 + seed, "noisy_exact_accuracy.2": 50.0 + seed, "voted_exact_accuracy.1": 60.0}
        halted = {"halted_exact_accuracy": 20.0, "halted_steps": 1.0 + seed, "exact_accuracy": 40.0 + seed}
        depths = {"exact_accuracy": {"1": 10.0, "2": 40.0 + seed, "3": 41.0, "4": 42.0}}
        found = {"metrics": more | halted, "cost": {"gflops": 0.5}, "depths": depths}
        results.run(run_id(0, seed)).finish(as_result(result(None) | found))
    records, one = load_study(results, "made_up", "paper"), {"model": "ViTRM", "batch_size": 64}

    drawn, table = draw_effort(records, Effort(where=one)), Budgets(where=one).cells(records)

    lines = {line: list(zip(of["x"], of["value"], strict=True)) for line, of in drawn.data.groupby("line", sort=False)}
    assert lines == {
        "segments": [(0.25, 10.0), (0.5, 40.5), (1.0, 42.0)],
        "surest of noisy trajectories": [(1.0, 30.5), (2.0, 50.5)],
        "vote of copies": [(1.0, 60.0)],
        "halting by itself": [(0.375, 20.0)],
    }
    assert drawn.figure.layout.xaxis.type == "log"
    assert [(row.label, *(one.value for one in row.cells)) for row in table.rows][3:] == [
        ("surest of noisy trajectories, 1", 1.0, 30.5),
        ("surest of noisy trajectories, 2", 2.0, 50.5),
        ("vote of copies, 1", 1.0, 60.0),
        ("halting by itself", 0.375, 20.0),
    ]


def test_ways_to_think_more_are_planned_before_any_run(tmp_path):
    results = write_study(tmp_path, base=base(evaluation_steps=1, evaluation_depths=2), seeds=[5])

    table = Budgets(where={"model": "ViTRM", "batch_size": 64}).cells(load_study(results, "made_up", "paper"))

    assert [(row.label, row.cells[1].n) for row in table.rows] == [
        ("segments, 1", 0),
        ("segments, 2", 0),
        ("halting by itself", 0),
    ]


def test_no_drops_in_powers_of_ten():
    with pytest.raises(ConfigError, match="'c': drops are zero or less, which log cannot show"):
        Curve("c", x="batch_size", y="top1_accuracy", drop=True, log=True)


def test_the_curve_over_depth_is_of_its_own_metric(tmp_path):
    records = load_study(write_chest(tmp_path / "r"), "made_up", "paper")

    auroc = curve_data(records, Curve("depth", x="eval.depth", y="auroc", by="model"))
    top1 = curve_data(records, Curve("depth", x="eval.depth", y="top1_accuracy", by="model"))

    assert (auroc["x"].tolist(), auroc["value"].tolist()) == ([1, 1], [80.0, 84.0])
    assert top1.empty


def test_the_parts_of_the_test_images_are_an_axis(tmp_path):
    """A point for each class that the metric is of, or for each level, which is a number."""
    records = load_study(write_chest(tmp_path / "r"), "made_up", "paper")

    data = curve_data(records, Curve("findings", x="eval.part", y="auroc", by="model"))

    assert data["x"].unique().tolist() == ["Effusion", "Pleural Thickening"]


def test_words_on_x_are_categories(records):
    spec = Curve("c", x="model", y="top1_accuracy")

    figure = curve_figure(curve_data(records, spec), spec)

    assert figure.layout.xaxis.type == "category"
    assert list(figure.data[-1].x) == ["ViTRM", "ViT-Small"]
    assert curve_notes(records, spec, curve_data(records, spec)) == (
        "points pool up to 2 variants; intervals go by the spread of seeds within them",
    )


@pytest.mark.parametrize(
    ("levels", "log"),
    [([1, 2, 4, 8, 16], True), ([64, 128], False), ([1, 2, 3, 6], False), ([0, 1, 8], False), ([1, 2, 4], True)],
)
def test_powers_of_two_ask_for_a_log_axis(levels, log):
    assert powers_of_two(levels) is log


@pytest.mark.parametrize(("most", "labelled"), [(24, True), (25, False)])
def test_levels_are_labelled_while_there_is_room(records, most, labelled):
    row = curve_data(records, SPEC).query("not published").iloc[:1]
    data = pd.concat([row.assign(x=level) for level in range(1, most + 1)])

    axis = curve_figure(data, SPEC).layout.xaxis

    assert (axis.tickmode == "array") is labelled


def test_no_interval_is_cut_off_by_the_y_axis():
    data = pd.DataFrame({"value": [90.0, 94.0, None], "low": [60.0, 93.0, None], "high": [120.0, 95.0, None]})

    assert y_range(data["value"], data["low"], data["high"]) == pytest.approx([60 - 3, 120 + 3])
    assert y_range(data["value"][2:]) is None


def test_curves_say_where_a_damaged_log_has_lost_epochs(results):
    made = result(93.0)
    results.run(run_id(0, 1)).finish(as_result(made | {"provenance": made["provenance"] | {"lost_epochs": 2}}))
    records = load_study(results, "made_up", "paper")

    notes = learning_notes(records, LearningCurves(), learning_data(records, LearningCurves()))

    assert notes == ("damaged logs, so that epochs are missing: ViTRM, batch_size=64, seed 1 (2 epochs)",)


def test_two_hundred_lines_look_different():
    assert len({tuple(style(index).values()) for index in range(210)}) == 210


def test_learning_data_is_mean_and_range_over_seeds(records):
    data = learning_data(records, LearningCurves())

    last = data[(data["variant"] == 0) & (data["metric"] == "selection_top1_accuracy") & (data["epoch"] == 5)].iloc[0]
    assert (last["mean"], last["low"], last["high"], last["n"]) == pytest.approx((90.1, 89.0, 91.2, 3))
    assert set(data["metric"]) == {"train_loss", "selection_top1_accuracy"}


def test_learning_curves_have_a_moving_average(records):
    """Training losses are 2.3 / 1, 2, 3, 4, 5: around the second epoch of three, the mean of the first three."""
    spec = LearningCurves(metrics=("train_loss",), window=3)
    data = learning_data(records, spec)
    first = data[data["variant"] == 0]
    figure = learning_figure(data, spec)

    assert first["average"].tolist()[:2] == pytest.approx([2.3 * (1 + 1 / 2) / 2, 2.3 * (1 + 1 / 2 + 1 / 3) / 3])
    lines = [trace for trace in figure.data if trace.mode == "lines" and trace.fill is None and trace.legendgroup == "0"]
    assert [(list(line.y), bool(line.name)) for line in lines] == [
        (first["mean"].tolist(), False),
        (first["average"].tolist(), True),
    ]
    assert "Dark: moving average, centred, over 3 epochs" in spec.drawn(records).caption
    assert learning_data(records, LearningCurves())["average"].equals(learning_data(records, LearningCurves())["mean"])


def test_learning_figure_has_a_panel_a_metric_and_one_legend_entry_a_variant(records):
    spec = LearningCurves()
    figure = learning_figure(learning_data(records, spec), spec)

    assert [trace.name for trace in figure.data if trace.name and trace.showlegend is not False] == [
        "ViTRM, batch_size=64",
        "ViTRM, batch_size=128",
        "ViT-Small, batch_size=64",
    ]
    assert figure.layout.yaxis2.title.text == "Top-1 accuracy, selection (%)"


def test_too_many_variants_are_cut_and_said(records):
    data = learning_data(records, LearningCurves(), most=2)

    assert set(data["variant"]) == {0, 2}  # of the two that share 93.1, the first
    assert learning_notes(records, LearningCurves(), data, most=2) == ("the 2 best of 4 variants by top-1 accuracy",)


def chest_with_epochs(path, metric="selection_auroc"):
    results = write_chest(path)
    for variant, seed in ((0, 0), (1, 0)):
        append_line(results.run(run_id(variant, seed)).epochs, {"epoch": 0, "train_loss": 0.7, metric: 75.0 + variant})
    return load_study(results, "made_up", "paper")


def test_a_metric_that_no_line_has_gets_no_panel(tmp_path):
    records = chest_with_epochs(tmp_path / "r")
    spec = LearningCurves(metrics=("train_loss", "selection_top1_accuracy", "selection_auroc", "selection_aurco"))
    data = learning_data(records, spec)

    figure = learning_figure(data, spec)

    assert (figure.layout.yaxis.title.text, figure.layout.yaxis2.title.text) == ("Training loss (nats)", "AUROC, selection (%)")
    assert "yaxis3" not in figure.layout
    assert learning_notes(records, spec, data) == ("no run recorded a metric 'selection_aurco'",)


def test_variants_are_ranked_by_auroc_where_there_is_no_accuracy(tmp_path):
    records = chest_with_epochs(tmp_path / "r")
    data = learning_data(records, LearningCurves(), most=1)

    assert set(data["variant"]) == {1}
    assert learning_notes(records, LearningCurves(), data, most=1) == ("the 1 best of 2 variants by AUROC",)


def test_a_metric_may_rank_variants_by_how_little_it_is(tmp_path, monkeypatch):
    records = chest_with_epochs(tmp_path / "r")
    monkeypatch.setitem(METRICS, "auroc", replace(METRICS["auroc"], better="lower"))
    assert shown_variants(records, 1) == [0]

    monkeypatch.setitem(METRICS, "auroc", replace(METRICS["auroc"], ranks=False))
    monkeypatch.setitem(METRICS, "average_precision", replace(METRICS["average_precision"], ranks=True))
    assert cut_note(records, 2, 1) == ("the 1 best of 2 variants by average precision",)


def test_long_notes_are_wrapped_and_the_caption_is_gray():
    figure = dress(go.Figure(), "T", ["word " * 40], caption="how to read it")

    assert figure.layout.title.text.count("<br>") == 3
    assert figure.layout.title.text.endswith('<span style="font-size:12px;color:#57606A">how to read it</span>')
    assert figure.layout.margin.t == 30 + 20 * 4


def test_figures_of_a_study_without_runs(tmp_path):
    records = load_study(write_study(tmp_path / "r", seeds=[]), "made_up", "paper")

    assert curve_figure(curve_data(records, SPEC), SPEC)
    assert learning_figure(learning_data(records, LearningCurves()), LearningCurves())


def test_plotly_labels_show_hostile_names_as_text(tmp_path):
    named = variants()
    for variant in named:
        variant["levels"]["model"] = variant["label"] = "<b>bold</b><a href='http://x'>"
    records = load_study(write_study(tmp_path / "r", variants=named, base=base()), "made_up", "paper")
    spec = Curve("c", x="batch_size", y="top1_accuracy", by="model", title="<i>t</i>")

    figure = spec.drawn(records).figure

    texts = [
        figure.layout.title.text.partition("<br>")[0],
        *(trace.name for trace in figure.data if trace.name),
        *figure.data[-1].hovertext,
    ]
    assert all("&lt;" in text and "<" not in text for text in texts)


def treated(root, *scores: tuple[float, ...]):
    """Two treatments of one model, whose seeds score so after one and two supervision steps."""
    made = [{"label": f"copy {at}", "levels": {"copy": at}, "changes": {"seed": at}, "model": "TRM"} for at in range(2)]
    chosen = [one | {"data": "CIFAR-10"} for one in made]
    results = Results(root).create()
    write_json(results.study("made_up", "paper") / "plan.json", plan(variants=chosen, axes={"copy": "seed"}, report=[]))
    for variant, values in enumerate(scores):
        for seed, value in enumerate(values):
            depths = {"top1_accuracy": {"1": value, "2": value}}
            results.run(run_id(variant, seed)).finish(as_result(result(value) | {"depths": depths}))
    return load_study(results, "made_up", "paper")


DEPTHS = Curve("c", x="eval.depth", y="top1_accuracy", by="model")


def test_two_treatments_are_not_two_seeds(tmp_path):
    """The mean of 60 and 90 % is known as well as each: to what their seeds differ by, not to how far they are from each other."""
    one_seed, two = treated(tmp_path / "one", (60.0,), (90.0,)), treated(tmp_path / "two", (60.0, 60.4), (90.0, 90.4))

    alone, known = curve_data(one_seed, DEPTHS), curve_data(two, DEPTHS)

    assert alone["value"].tolist() == [75.0, 75.0]
    assert alone["low"].isna().all()
    assert ((known["value"] - known["low"]).between(0, 2) & (known["high"] - known["value"]).between(0, 2)).all()
    assert "points pool up to 2 variants" in curve_notes(two, DEPTHS, known)[0]


def test_a_run_under_two_labels_is_one_seed(tmp_path):
    records = treated(tmp_path / "r", (60.0,))
    same = replace(records, rows=[*records.rows, *(replace(row, variant=1) for row in records.by_variant[0])])

    assert cell(same, [0, 1], "top1_accuracy", Placement({}, ())).n == 1


def test_a_value_published_in_two_places_is_one_point(records):
    twice = replace(SPEC, targets=(*SPEC.targets, *(one.model_copy(update={"source": "elsewhere"}) for one in SPEC.targets)))

    data = curve_data(records, twice)

    published = data[data["published"].astype(bool)]
    assert published["value"].tolist() == [92.6, 93.1, 94.0, 93.9]
    assert published["source"].iloc[0].endswith("; elsewhere")
    assert "2 of 4 published points not comparable" in curve_notes(records, twice, data)


def test_a_variant_looks_the_same_in_all_figures_where_others_have_not_finished(tmp_path):
    """The first variant has no run, so that neither curve has its line."""
    results = write_study(tmp_path / "r")
    for seed in range(3):
        shutil.rmtree(results.run(run_id(0, seed)).path)
    records = load_study(results, "made_up", "paper")
    by = {"by": "variant", "y": "top1_accuracy"}
    parts = [
        LearningCurves(),
        Curve("depth", x="eval.depth", **by),
        Curve("batch", x="batch_size", **by, where={"batch_size": 128}),
    ]

    looks = [
        {
            (line.line.color, line.line.dash)
            for line in part.drawn(records).figure.data
            if line.name in ("ViTRM, batch_size=128", "ViTRM")
        }
        for part in parts
    ]

    assert looks == [{(style(1)["color"], style(1)["dash"])}] * 3


def test_an_axis_stays_within_the_metric(records):
    assert y_range([100.0, 99.0])[1] < 100.2
    figure = dress(learning_figure(learning_data(records, LearningCurves()), LearningCurves()), "T")
    shares = figure.layout.yaxis2
    assert (shares.autorangeoptions.clipmin, shares.autorangeoptions.clipmax) == (0, 100)
    assert figure.layout.template.layout.yaxis.exponentformat == "e"  # no 2µ


def many(records, count):
    """The curve's first line, so many times, each half a point above the last."""
    first = curve_data(records, SPEC).query("line == 'ViTRM'")
    return pd.concat([first.assign(line=f"line {at}", value=first["value"] + at / 2) for at in range(count)])


def test_lines_are_named_where_they_end_and_no_two_names_touch(records):
    figure = curve_figure(many(records, 4).query("not published"), SPEC)

    ends = [one for one in figure.layout.annotations if one.name == "end"]
    gap = 17 / 300 * (figure.layout.yaxis.range[1] - figure.layout.yaxis.range[0])
    assert [one.text.rpartition("> ")[2] for one in ends] == ["line 0", "line 1", "line 2", "line 3"]
    assert all(later.y - one.y > gap * 0.999 for one, later in pairwise(ends))
    assert figure.layout.meta["ends"] > 40
    assert [one.name for one in curve_figure(many(records, 1), SPEC).layout.annotations] == ["end"]
    assert apart([1.0, 0.9, 1.0], [0.5] * 3, 1.2) == pytest.approx([0.45, -0.05, 0.95])


def test_more_lines_than_one_panel_holds_have_a_panel_each(records):
    figure = curve_figure(many(records, 7), SPEC)

    assert not curve_figure(many(records, 6), SPEC).layout.meta.get("grid")
    assert figure.layout.meta["panels"] == 7
    assert [figure.layout[f"xaxis{at}"].title.text for at in ("", 2, 7)] == ["line 0", "line 1", "line 6"]
    assert {trace.xaxis for trace in figure.data} == {"x", *(f"x{at}" for at in range(2, 8))}
    assert not figure.layout.showlegend
    assert not curve_figure(many(records, 31), SPEC).layout.meta


def learned(records, count):
    """The first variant's learning curves so many times, each a point above the last."""
    first = learning_data(records, LearningCurves()).query("variant == 0")
    named = [{"variant": at, "label": f"steps={at}, width=64", "mean": first["mean"] + at} for at in range(count)]
    return pd.concat([first.assign(**one, average=one["mean"]) for one in named])


def test_more_variants_than_colours_have_a_panel_each_with_the_axes_of_their_metric(records):
    spec, data = LearningCurves(), learned(records, 7)
    figure = learning_figure(data, spec)
    last = [trace for trace in figure.data if trace.xaxis == "x7"]

    assert not learning_figure(learned(records, 6), spec).layout.meta.get("grid")
    assert not learning_figure(data, spec, size=on_paper(7)).layout.meta.get("grid")
    assert (figure.layout.meta["panels"], figure.layout.meta["grid"]["groups"]) == (14, 2)
    assert [figure.layout[f"xaxis{at}"].title.text for at in ("", 7, 8)] == ["steps=0", "steps=6", "steps=0"]
    assert [figure.layout[f"yaxis{at}"].matches for at in ("", 2, 7, 8, 9)] == [None, "y", "y", None, "y8"]
    assert [one.text.partition("<br>")[0] for one in figure.layout.annotations] == [
        "<b>Training loss (nats)</b> by epoch",
        "<b>Top-1 accuracy, selection (%)</b> by epoch",
    ]
    assert [(trace.fill, trace.name) for trace in last] == [("toself", None), ("toself", None), (None, "steps=6")]
    gray = data[(data["metric"] == "train_loss") & (data["epoch"] == 1)]["mean"]
    assert (last[0].y[-1], last[0].y[0]) == (gray.min(), gray.max())


def test_learning_curves_are_named_where_they_end_by_what_differs(records):
    figure = learning_figure(learned(records, 4), LearningCurves())

    ends = [(one.text.rpartition("> ")[2], one.yref) for one in figure.layout.annotations if one.name == "end"]
    assert ends == [(f"steps={at}", axis) for axis in ("y", "y2") for at in range(4)]
    assert dress(figure, "T").layout.showlegend is False
    narrow = dress(learning_figure(learned(records, 4), LearningCurves()), "T", size=Size(160, printed=False))
    assert narrow.layout.showlegend  # where there is no room for names
    assert {one.visible for one in narrow.layout.annotations} == {False}


def test_any_number_of_learning_curves_has_logarithmic_axes(records):
    for count, axes in ((3, ("yaxis",)), (7, ("yaxis", "yaxis7"))):
        layout = learning_figure(learned(records, count), LearningCurves(), log={"train_loss"}).layout
        assert {layout[axis].type for axis in axes} == {"log"}
        assert layout[f"yaxis{count + 1 if count > 6 else 2}"].type is None


def test_a_name_is_cut_where_it_is_too_long_and_says_so():
    assert clipped("one two three", 7, 2) == "one two<br>three"
    assert clipped("one two three <four>", 7, 2) == "one two<br>three …"
    assert brief(["a=1, b=2", "a=1, b=3", "a=1"]) == (["b=2", "b=3", "a=1"], "a=1")
    assert brief(["a=1"]) == (["a=1"], "")
    assert brief(["model=TRM, b=2", "model=a, b, b=2"]) == (["TRM", "a, b"], "b=2")
    assert brief(["data=x, steps=1", "data=x, steps=2"]) == (["steps=1", "steps=2"], "data=x")


def test_an_axis_has_room_for_every_seed(records):
    data = curve_data(records, SPEC).query("not published").iloc[:1].assign(seeds="80.0 99.0")

    low, high = curve_figure(data, SPEC).layout.yaxis.range

    assert low < 80 < 99 < high
