"""The figure that leads a page: the effect of the claims' factor, the claims, or a ranked plot of means."""

import re
from itertools import pairwise

import pandas as pd
import pytest
from own_study import run_study, silent
from plotly.graph_objects import Figure

from recstudy import Claim, Metric, RunContext, grid, load
from recstudy.report import Claims, Curve, Differences, Effects, LearningCurves, Means, Table
from recstudy.report.figures.curve import COLUMNS
from recstudy.report.figures.forest import FORMS, draw_rows
from recstudy.report.figures.lead import claimed_effect, figure_by, is_drawn, leading_parts
from recstudy.report.kinds import render_part
from recstudy.report.look import GREY, is_geometric, name_ends, on_paper, on_screen
from recstudy.report.parts import parts_of

DEEPER = Claim("4 layers beat 1", lower={"depth": 1}, higher={"depth": 4})


def optimize(run: RunContext) -> dict[str, float]:
    for step in range(3):
        run.report(step, loss=1 / (1 + step), accuracy=50 + step)
    settings = run.settings
    return {"accuracy": 70 + 4 * (settings["optimizer"] == "adam") + settings["depth"] + 0.1 * run.seed}


def optimizers(depths: list[int], names: tuple[str, ...] = ("sgd", "adam")) -> dict[str, object]:
    return {
        "program": optimize,
        "settings": {"optimizer": "sgd", "depth": 1},
        "metrics": {"accuracy": Metric("%", items=1000)},
        "variants": grid({"depth": depths, "optimizer": list(names)}),
    }


@pytest.mark.parametrize(
    ("fields", "lead"),
    [
        # the default report has a table and learning curves
        ({"claims": [DEEPER]}, Curve("by_depth", x="depth", y="accuracy")),
        ({"program": silent}, Curve("means", x="depth", y="accuracy")),
        ({"claims": [Claim("at least 80", of={"depth": 4}, at_least=80)]}, Claims),
        # a figure that the study states itself is not repeated
        (
            {
                "claims": [DEEPER],
                "report": [
                    LearningCurves(),
                    Curve("late", x="depth", y="latency"),
                    Curve("mine", x="depth", y="accuracy"),
                ],
            },
            Curve("mine", x="depth", y="accuracy"),
        ),
        (
            {
                **optimizers([1, 2]),
                "claims": [Claim("adam wins", lower={"optimizer": "sgd"}, higher={"optimizer": "adam"})],
            },
            Means("by_optimizer", metric="accuracy", axes=("optimizer",)),
        ),
        # the claim is about one depth
        (
            {
                **optimizers([1, 2]),
                "claims": [
                    Claim(
                        "adam wins at depth 2",
                        lower={"optimizer": "sgd", "depth": 2},
                        higher={"optimizer": "adam", "depth": 2},
                    )
                ],
            },
            Means("by_optimizer", metric="accuracy", axes=("optimizer",), where={"depth": 2}),
        ),
        (optimizers([1, 2]), Means("means", metric="accuracy", axes=("depth", "optimizer"))),
    ],
)
def test_the_leading_figure_answers_the_question(tmp_path, fields, lead):
    records = load(run_study(tmp_path / "r", **fields).root).records
    first = leading_parts(parts_of(records))[0]
    assert isinstance(first, lead) if isinstance(lead, type) else first == lead
    assert not any(isinstance(part, LearningCurves) for part in leading_parts(parts_of(records)))


@pytest.mark.parametrize(
    ("levels", "blocks", "kind"),
    [
        ({"n": [20, 100, 500]}, (), Curve),
        ({"n": [20, 100]}, (), Means),
        ({"n": [1, 2, 4], "optimizer": ["a", "b"]}, (), Curve),
        ({"n": [1, 2, 4], "data": ["X", "Y"]}, ("data",), Curve),
        ({"optimizer": ["a", "b"], "n": [1, 2, 4]}, (), Means),
        ({"method": ["a", "b"], "data": ["X", "Y"]}, ("data",), Means),
        ({"n": [1, 2, 4], "m": [1, 2], "k": [1, 2]}, (), Means),
        ({"n": [*range(12)], "m": [*range(12)]}, (), "HeatMap"),
    ],
)
def test_numbers_are_a_curve_large_grids_a_heat_map_and_other_factors_rows(levels, blocks, kind):
    variants = [{}]
    for axis, values in levels.items():
        variants = [{**variant, axis: value} for variant in variants for value in values]
    figure = figure_by("f", "accuracy", variants, blocks=blocks)

    assert type(figure).__name__ == (kind if isinstance(kind, str) else kind.__name__)
    assert not isinstance(figure, Means) or not {*figure.axes} & {*blocks}


def test_a_mean_over_other_factors_by_hand(tmp_path):
    """Accuracy is 70 + depth + 4 with adam + seed / 10, with the seeds 0 to 2: 71.6 with sgd."""
    records = load(run_study(tmp_path / "r", **optimizers([1, 2])).root).records
    data = Means(metric="accuracy", axes=("optimizer", "depth")).data(records)

    assert data["level"].tolist() == ["adam", "sgd", 1, 2]
    assert data["value"].tolist() == pytest.approx([75.6, 71.6, 73.1, 74.1])
    assert (data["settings"].tolist(), data["n"].tolist()) == ([2] * 4, [6] * 4)
    ranked = Means(metric="accuracy").data(records)
    assert ranked["value"].tolist() == pytest.approx([76.1, 75.1, 72.1, 71.1])


def test_the_dot_of_seeds_that_split_is_the_printed_mean(tmp_path):
    """A mean over seeds that learned and a seed that did not is the score of no run."""

    def train(run):
        return {"accuracy": (95.2, 94.8, 20.1)[run.seed], "latency": 1.0}

    variants = grid({"depth": [1]})
    records = load(run_study(tmp_path / "r", "split", train, variants=variants).root).records
    with records.study_modules():
        data = Means(metric="accuracy").data(records)

    assert (data["_dot"].tolist(), data["_is_split"].tolist()) == ([95.0], [True])
    assert data["value"].tolist() == pytest.approx([70.03], abs=0.01)  # by which variants are ranked


def test_differences_have_no_second_figure_of_the_same_means(tmp_path):
    records = load(run_study(tmp_path / "r", **optimizers([1, 2])).root).records
    effects = Effects(metric="accuracy", axes=("depth", "optimizer"), base={})
    means, curve = Means(metric="accuracy"), Curve("c", x="depth", y="accuracy", by="optimizer")

    assert render_part(records, effects).data is None  # the report got a figure of these means
    assert [is_drawn(effects, [figure]) for figure in (means, curve)] == [True, True]
    assert not is_drawn(effects, [Curve("c", x="depth", y="accuracy"), Means(metric="latency")])
    assert not is_drawn(Differences(metric="accuracy"), [curve])


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([20, 100, 500], True),
        ([1, 2, 4], True),
        ([1e-4, 1e-3, 1e-2], True),
        ([1, 2, 3, 6], False),
        ([1, 25, 50, 75, 100], False),
        ([0, 1, 10], False),
        ([*range(1, 13)], False),
        ([20, 500], False),
    ],
)
def test_geometric_levels_have_a_logarithmic_axis(levels, expected):
    assert is_geometric(levels) == expected


ROW = {"group": "difference (points)", "estimate": 1.0, "low_95": 0.5, "high_95": 1.5, "verdict": "supported"}
ROW |= {"region_low": 0.2, "region_high": float("inf"), "mark": "yes", "about": "", "_size": "+1.00"}
ROW |= {"_interval": "[+0.50, +1.50]", "_outcome": "supported"}
LONG = "with one supervision step, more latent steps improve accuracy on boards of a known depth"


@pytest.mark.parametrize(
    ("draw", "characters", "words"),
    [
        (lambda figure: on_paper(figure, 3.25), 19, "+1.00<br>supported"),
        (lambda figure: on_paper(figure, 5.5), 32, "+1.00 [+0.50, +1.50]<br>supported"),
        (on_screen, 32, "+1.00 [+0.50, +1.50]<br>supported"),
    ],
)
def test_labels_of_claims_are_in_the_margin_with_lines_for_the_width(draw, characters, words):
    rows = pd.DataFrame([{**ROW, "label": LONG}, {**ROW, "label": "short"}])
    layout = draw(draw_rows(rows, 0.0)).layout

    lines = layout.yaxis.ticktext[0].split("<br>")
    assert max(map(len, lines)) <= characters
    assert " ".join(lines) == LONG
    assert (layout.yaxis2.ticktext[0], layout.yaxis2.side) == (words, "right")
    assert [form["width"] for form in layout.meta["forms"]] == [*FORMS]


def test_many_variants_have_eight_names_the_claimed_ones_first(tmp_path):
    fields = {"variants": grid({"depth": [1, 2, 3, 4, 5, 6], "rate": [0.1, 0.2]}), "claims": [DEEPER]}
    records = load(run_study(tmp_path / "r", **fields).root).records
    with records.study_modules():  # which know the metrics of the program
        rendered = render_part(records, LearningCurves(metrics=("accuracy",)))
        figure, data = rendered.figure, rendered.data

    claimed_labels = {f"depth {depth}, rate {rate}" for depth in (1, 4, 5, 6) for rate in (0.1, 0.2)}
    assert set(data[data["_named"]]["label"]) == claimed_labels
    assert sum(trace.line.color == GREY for trace in figure.data) == 4
    assert len(figure.layout.yaxis2.ticktext) == 8
    assert "Grey: the others" in rendered.caption
    assert "_named" not in rendered.figure_csv


def test_names_at_the_ends_of_lines_do_not_overlap():
    figure = Figure().add_scatter(x=[0, 1], y=[0, 100])
    line_ends = {
        name: (value, "#000000") for name, value in zip("abcd", (0.0, 99.0, 99.5, 100.0), strict=True)
    }
    name_ends(figure, line_ends, 1, pd.Series([0.0, 100.0]))
    places = figure.layout.yaxis2.tickvals

    assert [text[-8:-7] for text in figure.layout.meta["forms"][0]["yaxis2"]["ticktext"]] == list("abcd")
    assert min(high - low for low, high in pairwise(places)) > 5
    assert places[0] >= 0


def test_names_that_a_phone_would_cut_alike_lose_their_first_word():
    figure = Figure().add_scatter(x=[0, 1], y=[0, 100])
    name_ends(
        figure,
        {"optimizer adam": (9.0, "#000000"), "optimizer sgd": (90.0, "#000000")},
        1,
        pd.Series([0.0, 100.0]),
    )
    phone, desk = (
        form["yaxis2"]["ticktext"]
        for form in (figure.layout.meta["forms"][0], figure.layout.meta["forms"][-1])
    )

    assert [re.sub("<.*?>", "", text) for text in phone] == ["adam", "sgd"]
    assert [re.sub("<.*?>", "", text) for text in desk] == ["optimizer adam", "optimizer sgd"]


def test_an_axis_of_flops_has_si_prefixes():
    """0.0007548 GFLOP is 754.8k FLOP, in the points as at the ticks."""
    rows = [{"line": "a", "x": x, "value": 90.0, "n": 1, "published": False} for x in (0.0007548, 0.002)]
    data = pd.DataFrame(rows, columns=[*COLUMNS]).assign(seeds="")
    figure = Curve("c", x="gflops", y="top1_accuracy").draw(data)

    points = [list(trace.x) for trace in figure.data if trace.mode == "lines+markers"]
    assert points == [pytest.approx([754_800, 2_000_000])]
    assert figure.layout.xaxis.tickformat == "~s"
    assert figure.layout.xaxis.title.text == "Forward (FLOP/image)"


def test_a_line_that_ends_at_zero_has_no_name_on_a_logarithmic_axis():
    figure = Figure().add_scatter(x=[0, 1], y=[1, 10]).update_yaxes(type="log")
    name_ends(figure, {"zero": (0.0, "#000000"), "ten": (10.0, "#000000")}, 1, pd.Series([1.0, 10.0]))

    assert len(figure.layout.yaxis2.tickvals) == 1


def test_the_factor_of_most_claims_is_the_effect():
    by_width = Claim("wider", lower={"width": 1, "depth": 2}, higher={"width": 2, "depth": 2})
    claims = Claims(claims=(by_width, DEEPER, Claim("deeper", lower={"depth": 1}, higher={"depth": 2})))

    assert claimed_effect([Table("t"), claims]).axis == "depth"
    assert claimed_effect([Claims(claims=(by_width,))])[::2] == ("width", {"depth": 2})
    assert claimed_effect([Table("t")]) is None
    tuned = Claim("wider", lower={"width": 1, "tuned": "depth"}, higher={"width": 2, "tuned": "depth"})
    assert claimed_effect([Claims(claims=(tuned,))]) is None
