"""Heat maps of two-way sweeps, drops from the best point, score against cost, and colours for all readers."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from made_up import TABLE1, VITRM, as_result, plan, result, run_id, specs, write_study

from recstudy.analysis import Curve, HeatMap, LearningCurves, Pareto
from recstudy.analysis.assets import CSS
from recstudy.analysis.contrasts import contrast
from recstudy.analysis.figures.curve import curve_data, curve_figure
from recstudy.analysis.figures.learning import learning_data, learning_figure
from recstudy.analysis.figures.theme import ALARM, DARK, PALETTE, SHADES, SOFT, SPECTRUM, blend
from recstudy.analysis.figures.two_way import heat_map_data, heat_map_figure, heat_map_notes
from recstudy.analysis.frame import load_study
from recstudy.analysis.spreads import spreads_of
from recstudy.errors import ConfigError
from recstudy.records import Results, append_line, write_json

HOSTILE = "<b>bold</b>"
SPEC = HeatMap("h", x="batch_size", y="model")


def sweep(root: Path, scores: dict[tuple[str, int], list[float]], leaky: tuple[str, ...] = ()):
    """A run a seed at every (model, batch size)."""
    variants = [
        {
            "label": f"model={model}, batch_size={batch}",
            "levels": {"model": model, "batch_size": batch},
            "changes": {"model": {**VITRM, "width": len(model)}, "train.batch_size": batch},
            "model": model,
            "data": "CIFAR-10",
            "leaks": model in leaky,
        }
        for model, batch in scores
    ]
    results = Results(root).create()
    write_json(results.study("made_up", "paper") / "plan.json", plan(variants=variants, report=[]))
    for at, values in enumerate(scores.values()):
        for seed, value in enumerate(values):
            results.run(run_id(at, seed)).finish(as_result(result(value)))
    return load_study(results, "made_up", "paper")


def test_a_heat_map_has_a_cell_for_every_two_levels(records):
    data = heat_map_data(records, SPEC)

    assert list(zip(data["x"], data["y"], data["n"], strict=True)) == [
        (64, "ViTRM", 3),
        (128, "ViTRM", 2),
        (64, "ViT-Small", 1),
        (128, "ViT-Small", 0),
    ]
    assert data["value"][:3].tolist() == pytest.approx([93.1, 93.1, 94.1])
    assert data["said"].tolist()[1] == "93.1 ±0.4 (n=2 of 3; 1 failed: code)"
    assert heat_map_notes(records, SPEC, data) == ("1 of 4 cells have no finished run",)


def test_a_heat_map_is_drawn_with_words(records):
    heat = heat_map_figure(heat_map_data(records, SPEC), SPEC).data[0]

    assert (heat.x, heat.y) == (("64", "128"), ("ViTRM", "ViT-Small"))
    assert heat.text[0][0] == "93.1<br>[92.8, 93.4]<br>n=3"
    assert heat.text[1] == ["94.1<br>[93.6, 94.6]<br>n=1", ""]
    assert heat.z[1][1] is None
    assert heat.hovertext[1][1].startswith("batch size 128, model ViT-Small: ")


def test_levels_are_in_order_and_what_was_not_planned_is_empty(tmp_path):
    records = sweep(tmp_path / "r", {("B", 128): [1.0], ("B", 64): [2.0], ("A", 64): [3.0]})
    figure = heat_map_figure(heat_map_data(records, SPEC), SPEC)

    assert (figure.data[0].x, figure.data[0].y) == (("64", "128"), ("B", "A"))
    assert figure.data[0].hovertext[1] == ["batch size 64, model A: 3.0 (n=1 of 3)", "not planned"]


def test_a_heat_map_leaves_out_what_leaks_and_says_what_it_pools(tmp_path):
    records = sweep(tmp_path / "r", {("A", 64): [3.0], ("B", 64): [2.0], ("told", 64): [100.0]}, leaky=("told",))
    spec = HeatMap("h", x="batch_size", y="data")
    data = heat_map_data(records, spec)

    assert data["value"].tolist() == [2.5]
    assert "each cell pools 2 variants" in heat_map_notes(records, spec, data)
    assert any("left out, because it is told" in note for note in heat_map_notes(records, spec, data))


def test_a_heat_map_of_an_unknown_axis_is_refused(records):
    with pytest.raises(ConfigError, match="the report names 'modle'"):
        heat_map_data(records, HeatMap("h", x="modle", y="batch_size"))


def test_a_heat_map_of_nothing_is_drawn(tmp_path):
    records = load_study(write_study(tmp_path / "r", seeds=[]), "made_up", "paper")

    assert "_" not in SPEC.drawn(records).figure.layout.title.text
    assert heat_map_figure(heat_map_data(records, SPEC).iloc[:0], SPEC)


def test_hostile_levels_are_text(tmp_path):
    figure = SPEC.drawn(sweep(tmp_path / "r", {(HOSTILE, 64): [1.0], ("A", 64): [1.0]})).figure

    assert HOSTILE not in str(figure.to_plotly_json())


def test_a_drop_is_the_difference_from_the_best_of_its_line(tmp_path):
    """A: best at 64, and two points less at 128; B the other way, by the spread that all four points share."""
    scores = {
        ("A", 64): [90.0, 91.0, 95.0],
        ("A", 128): [89.0, 89.0, 92.0],
        ("B", 64): [70.0, 70.5, 69.0],
        ("B", 128): [80.0, 81.0],
    }
    records = sweep(tmp_path / "r", scores)
    data = curve_data(records, Curve("c", x="batch_size", y="top1_accuracy", by="model", drop=True))

    assert data["value"].tolist() == pytest.approx([0, -2, -10.66666667, 0])
    assert data["best"].tolist() == [64, 64, 128, 128]
    spread = spreads_of(records, "top1_accuracy")[0]
    found = contrast([scores["A", 128], scores["A", 64]], (1, -1), [spread, spread])
    assert (data["low"][1], data["high"][1]) == pytest.approx((found.low, found.high))
    assert data["low"].isna().tolist() == [True, False, False, True]


def test_a_drop_of_what_is_better_lower_goes_up(tmp_path):
    records = sweep(tmp_path / "r", {("A", 64): [90.0], ("A", 128): [89.0]})
    losses = (0.5, 0.3)
    records = replace(records, rows=[replace(row, added={"nll": losses[row.variant]}) for row in records.rows])
    data = curve_data(records, Curve("c", x="batch_size", y="nll", drop=True))

    assert data["value"].tolist() == pytest.approx([0.2, 0])


def test_published_drops_and_the_words_of_the_figure(records):
    spec = Curve("c", x="batch_size", y="top1_accuracy", by="model", targets=TABLE1, drop=True)
    data = curve_data(records, spec)
    figure = curve_figure(data, spec)

    assert data[data["published"].astype(bool)]["value"].tolist() == pytest.approx([-0.5, 0, 0, -0.1])
    assert figure.layout.yaxis.title.text == "Top-1 accuracy (%), minus the best"
    assert "as a drop from each line's best" in spec.heading
    assert spec.drawn(records).caption.startswith("Each point minus the best one of its line")
    with pytest.raises(ConfigError, match="curve 'c': drop compares runs"):
        Curve("c", x="eval.depth", y="top1_accuracy", drop=True)


def test_a_study_without_runs_has_no_drops(tmp_path):
    records = load_study(write_study(tmp_path / "r", seeds=[]), "made_up", "paper")

    assert curve_data(records, Curve("c", x="batch_size", y="top1_accuracy", drop=True))["value"].isna().all()


@pytest.mark.parametrize("cost", ["params", "gflops", "train_pflop", "seconds", "images_per_second"])
def test_a_score_stands_against_any_cost_by_one_word(records, cost):
    drawn = Pareto("p", x=cost, y="top1_accuracy").drawn(records)

    assert isinstance(drawn.figure, go.Figure)
    assert len(drawn.data) == 3


def test_device_seconds_are_a_cost(tmp_path):
    results = write_study(tmp_path / "r", report=[])
    found = result(93.0)
    found["cost"]["device_seconds"] = 360.0
    results.run(run_id(0, 0)).finish(as_result(found))
    data = Pareto("p", x="device_seconds", y="top1_accuracy").drawn(load_study(results, "made_up", "paper")).data

    assert data["device_seconds"].tolist() == [360.0]


def test_the_steps_that_halting_used_are_a_learning_curve(results):
    for epoch, used in enumerate((4.0, 2.5, 1.5)):
        append_line(results.run(run_id(3, 2)).epochs, {"epoch": epoch, "supervision_steps_used": used})
    records, spec = load_study(results, "made_up", "paper"), LearningCurves(metrics=("supervision_steps_used",))
    data = learning_data(records, spec)

    assert data["mean"].tolist() == [4.0, 2.5, 1.5]
    assert learning_figure(data, spec).layout.yaxis.title.text == "Supervision steps used"


# Machado, Oliveira and Fernandes (2009), full dichromacy, on linear RGB.
BLIND = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])  # sRGB, D65


def linear(color: str) -> np.ndarray:
    """Red, green and blue as amounts of light."""
    values = np.array([int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(color: str, blindness: str | None = None) -> np.ndarray:
    """CIELAB of a colour as these eyes see it."""
    seen = np.clip(np.array(BLIND[blindness]) @ linear(color), 0, 1) if blindness else linear(color)
    ratio = TO_XYZ @ seen / TO_XYZ.sum(axis=1)
    x, y, z = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def nearest(colors, blindness: str | None) -> float:
    seen = [lab(color, blindness) for color in colors]
    return min(float(np.linalg.norm(one - other)) for at, one in enumerate(seen) for other in seen[:at])


@pytest.mark.parametrize("blindness", [None, *BLIND])
def test_colour_blind_readers_tell_the_palette_apart(blindness):
    """A CIELAB distance of 2.3 is just seen. Of six colours that are not made for this, two are 5 apart to the colour-blind."""
    assert nearest(PALETTE, blindness) > 15
    assert nearest(DARK, blindness) > 15
    assert nearest(("#1F77B4", "#FF7F0E", "#2CA02C", "#D62728", "#9467BD", "#8C564B"), "protan") < 5


def brightness_ratio(one: str, other: str) -> float:
    """By WCAG: of two lightnesses, from 1 to 21."""
    dark, light = sorted(float(TO_XYZ[1] @ linear(color)) for color in (one, other))
    return (light + 0.05) / (dark + 0.05)


def test_marks_and_small_letters_stand_out_from_light_and_dark_paper():
    light, dark = re.findall(r"--paper: (#\w+);", CSS)[:2]

    assert brightness_ratio("#000000", "#FFFFFF") == pytest.approx(21)
    assert [
        color for color in (*PALETTE, *SPECTRUM, *map(blend, (0, 0.25, 0.5, 0.75, 1))) if brightness_ratio(color, "#FFFFFF") < 3
    ] == []
    assert [color for color in (*DARK, *map(blend, (0, 0.25, 0.5, 0.75, 1))) if brightness_ratio(color, dark) < 3] == []
    assert [color for color in (ALARM, SOFT) if brightness_ratio(color, "#FFFFFF") < 4.5] == []
    assert (light, dark) == ("#fff", "#12161b")


@pytest.mark.parametrize("blindness", [None, *BLIND])
def test_shades_grow_darker_for_every_reader(blindness):
    lightness = [lab(color, blindness)[0] for _, color in SHADES]

    assert all(lighter - darker > 15 for lighter, darker in pairwise(lightness))


def test_every_curve_of_the_made_up_study_still_draws(records):
    assert curve_figure(curve_data(records, specs()[2]), specs()[2]).data
