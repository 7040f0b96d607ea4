"""What figures are made of, by hand: axes, names and labels that fit, tiles of images, pieces of puzzles, fronts and averages."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recstudy.analysis.figures.captions import folded, known_words
from recstudy.analysis.figures.images import short_names
from recstudy.analysis.figures.layout import apart
from recstudy.analysis.figures.learning import moving_average, thin
from recstudy.analysis.figures.search import running_best
from recstudy.analysis.figures.theme import brief, clipped, log_ticks, powers_of_two, style, y_range
from recstudy.analysis.search import front


@pytest.mark.parametrize(
    ("levels", "log"),
    [([1, 2, 4, 8, 16], True), ([64, 128], False), ([1, 2, 3, 6], False), ([0, 1, 8], False), ([1, 2, 4], True)],
)
def test_powers_of_two_ask_for_a_log_axis(levels, log):
    assert powers_of_two(levels) is log


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


def test_no_interval_is_cut_off_by_the_y_axis():
    data = pd.DataFrame({"value": [90.0, 94.0, None], "low": [60.0, 93.0, None], "high": [120.0, 95.0, None]})

    assert y_range(data["value"], data["low"], data["high"]) == pytest.approx([60 - 3, 120 + 3])
    assert y_range(data["value"][2:]) is None
    assert y_range([100.0, 99.0])[1] < 100.2


def test_names_are_short_apart_and_different():
    assert len({tuple(style(index).values()) for index in range(210)}) == 210
    assert clipped("one two three", 7, 2) == "one two<br>three"
    assert clipped("one two three <four>", 7, 2) == "one two<br>three …"
    assert brief(["a=1, b=2", "a=1, b=3", "a=1"]) == (["b=2", "b=3", "a=1"], "a=1")
    assert brief(["a=1"]) == (["a=1"], "")
    assert brief(["model=TRM, b=2", "model=a, b, b=2"]) == (["TRM", "a, b"], "b=2")
    assert brief(["data=x, steps=1", "data=x, steps=2"]) == (["steps=1", "steps=2"], "data=x")
    assert apart([1.0, 0.9, 1.0], [0.5] * 3, 1.2) == pytest.approx([0.45, -0.05, 0.95])
    assert short_names(["cat", "aquarium_fish", "automobile", "strawberries"], 10) == {
        "cat": "cat", "aquarium_fish": "aquarium…", "automobile": "automobile", "strawberries": "strawberr…",
    }  # fmt: skip
    assert list(short_names(["Pleural_Thickening", "Pleural_Effusion"], 10).values()) == ["Pleur…ning", "Pleur…sion"]


# --------------------------------------------------------------------------------------------------------------- tiles


# ------------------------------------------------------------------------------------------------------------- numbers


def test_the_front_by_hand():
    """More is better upwards, less to the right: (3, 3) is beaten by (4, 3), and of two alike both stay."""
    points = np.array([[4.0, 3.0], [3.0, 3.0], [2.0, 1.0], [2.0, 1.0], [5.0, 9.0], [1.0, 2.0]])

    assert front(points, ["max", "min"]).tolist() == [True, False, True, True, True, False]
    assert front(np.empty((0, 2)), ["max", "min"]).tolist() == []


def test_the_running_best_skips_what_has_no_value():
    assert running_best([None, 2, 1, None, 3], "max").tolist()[1:] == [2, 2, 2, 3]
    assert running_best([4, 5, None, 3], "min").tolist() == [4, 4, 4, 3]
    assert np.isnan(running_best([None, 2], "max")[0])


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (1, [1, 2, 6, 4, 5]),
        (2, [1, 1.5, 4, 5, 4.5]),  # itself and the one before
        (3, [1.5, 3, 4, 5, 4.5]),  # one on either side; at the ends one is missing
        (99, [3.6] * 5),
    ],
)
def test_moving_average_by_hand(window, expected):
    assert moving_average([1, 2, 6, 4, 5], window).tolist() == pytest.approx(expected)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=200), st.integers(2, 50))
def test_a_thinned_trace_is_short_in_order_and_as_wide_as_before(losses, most):
    values = np.array(losses)
    kept = thin(values, most)

    assert len(kept) <= most
    assert (np.diff(kept) > 0).all()
    assert (values[kept].min(), values[kept].max()) == (values.min(), values.max())


def test_words_are_compared_without_case_and_punctuation():
    assert known_words(["CT: a Mass,", "mass-like"]) == {"ct": 1, "a": 1, "mass": 1, "like": 1}
    assert folded("Mass; massive", {"mass"}) == "<mark>Mass</mark>; massive"
