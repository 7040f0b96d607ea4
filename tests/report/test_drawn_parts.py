"""What figures are made of, by hand: axes, names and labels that fit, tiles of images, pieces of puzzles,
fronts and averages.
"""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recstudy.report.figures.learning_curves import moving_average, thin
from recstudy.report.look import without_common
from recstudy.report.trials import front


def test_names_leave_out_what_all_share():
    assert without_common(["TRM, width 2", "TRM, width 3", "TRM"]) == (
        {"TRM, width 2": "width 2", "TRM, width 3": "width 3", "TRM": "TRM"},
        "TRM",
    )
    assert without_common(["TRM"]) == ({"TRM": "TRM"}, "")


def test_the_front_by_hand():
    """More is better upwards, less to the right: (3, 3) is beaten by (4, 3), and of two alike both stay."""
    points = np.array([[4.0, 3.0], [3.0, 3.0], [2.0, 1.0], [2.0, 1.0], [5.0, 9.0], [1.0, 2.0]])

    assert front(points, ["max", "min"]).tolist() == [True, False, True, True, True, False]
    assert front(np.empty((0, 2)), ["max", "min"]).tolist() == []


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
    assert moving_average(pd.Series([1, 2, 6, 4, 5]), window).tolist() == pytest.approx(expected)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=200), st.integers(2, 50))
def test_a_thinned_trace_is_short_in_order_and_as_wide_as_before(losses, max_points):
    values = np.array(losses)
    thinned = thin(values, max_points)

    assert len(thinned) <= max_points
    assert (np.diff(thinned) > 0).all()
    assert (values[thinned].min(), values[thinned].max()) == (values.min(), values.max())
