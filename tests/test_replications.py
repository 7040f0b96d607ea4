import pytest

from recstudy.papers import published
from recstudy.papers.replications import CELLS, replications


def test_every_cell_is_that_of_a_published_row():
    tables = {cell.row.partition("#")[0] for cell in CELLS.values()}
    known = {target.row for table in tables for target in published(table)}

    assert {cell.row for cell in CELLS.values()} <= known
    assert {one.cell for one in replications()} <= {"", *CELLS}
    assert len(replications()) == 174


def test_only_independent_retrainings_enter_a_mean_one_row_a_run():
    counting = {one.id: one.value for one in replications("trm_mlp_sudoku_extreme") if one.counts}

    assert counting == {"r001": 84.8, "r005": 79.37, "r006": 75.57, "r025": 86.03, "r030": 86.65, "r035": 87.0, "r096": 84.0}
    why = {one.id: one.why_not for one in replications("trm_mlp_sudoku_extreme")}
    assert why["r002"] == "weights re-evaluated"
    assert why["r028"] == "trained without halting"


def test_the_error_of_a_row_is_of_its_items_and_its_digits():
    by_id = {one.id: one for one in replications()}

    assert by_id["r119"].error == pytest.approx((100 * 78.7 * 21.3 / 100 / 1000 + 0.01**2 / 12) ** 0.5, rel=1e-3)  # 1,000 mazes
    assert by_id["r149"].error == pytest.approx((55 * 45 / 422_786 + 1 / 12) ** 0.5)  # "about 55"
