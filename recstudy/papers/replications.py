"""Read `replications.csv`: numbers that others measured for cells of published tables.

The columns `who`, `cell`, `role`, `apart` and `items` are added by recstudy and decide how a row counts. The
mean of a cell includes independent retrainings of the paper's method, one row for each run, with the paper's
number of supervision steps. If a retraining differs, `apart` tells how. Other rows are shown but not
averaged: weights that were evaluated again or fine-tuned are not a new training, and a row in another paper's
table may be a copy.
"""

from dataclasses import dataclass
from functools import cache
from math import sqrt

from recstudy.papers.target import published_csv

RETRAINED = "independent retraining"


@dataclass(frozen=True)
class ReplicatedCell:
    """A published number that others have measured too.

    Args:
        title: Method and data set.
        row: Id of the published row, which finds a study's own runs of it.
        items: Size of the whole test set. A replication without a number of items is assumed to use all.
    """

    title: str
    row: str
    items: int


CELLS = {
    "trm_mlp_sudoku_extreme": ReplicatedCell(
        "TRM-MLP on Sudoku-Extreme", "trm_table1_sudoku_ablation#5", 422_786
    ),
    "trm_att_sudoku_extreme": ReplicatedCell(
        "TRM-Att on Sudoku-Extreme", "trm_table1_sudoku_ablation#25", 422_786
    ),
    "hrm_sudoku_extreme": ReplicatedCell("HRM on Sudoku-Extreme", "trm_table1_sudoku_ablation#1", 422_786),
    "trm_att_maze_hard": ReplicatedCell("TRM-Att on Maze-Hard", "trm_table4_puzzles#6", 1000),
    "hrm_maze_hard": ReplicatedCell("HRM on Maze-Hard", "trm_table4_puzzles#4", 1000),
    "trm_att_arc_agi_1": ReplicatedCell("TRM-Att on ARC-AGI-1", "trm_table5_arc#5", 400),
    "trm_att_arc_agi_2": ReplicatedCell("TRM-Att on ARC-AGI-2", "trm_table5_arc#6", 120),
}


@dataclass(frozen=True)
class Replication:
    """A row of `replications.csv`.

    Args:
        value: The number in percent; None if its source prints none.
        decimals: Digits that the source prints after the decimal point.
        apart: How the training differs from the paper's; empty if it does not.
        items: Number of test items.
    """

    id: str
    who: str
    cell: str
    model: str
    setting: str
    value: float | None
    decimals: int
    role: str
    apart: str
    items: int
    source: str

    @property
    def counts(self) -> bool:
        """Whether the mean of the cell includes this row."""
        return self.role == RETRAINED and not self.apart and self.value is not None

    @property
    def why_not(self) -> str:
        """Why the mean of the cell excludes this row; empty if it includes it."""
        return "" if self.counts else self.apart or self.role

    @property
    def error(self) -> float:
        """Standard error of the number in percentage points, from its test items and its rounding."""
        share = (self.value or 0.0) / 100
        # No source of a retraining states a standard deviation over seeds. The differences due to seeds, code
        # and hardware are therefore in tau, the standard deviation between the replications.
        sampling_variance = 1e4 * share * (1 - share) / self.items  # binomial, in percentage points
        rounding_variance = 10.0 ** (-2 * self.decimals) / 12  # uniform within a step of 10^-decimals
        return sqrt(sampling_variance + rounding_variance)


@cache
def replications(cell: str = "") -> tuple[Replication, ...]:
    """Return the rows of a cell, or all of them, in the file's order."""
    return tuple(_typed(row) for row in published_csv("replications") if cell in ("", row["cell"]))


def _typed(row: dict[str, str]) -> Replication:
    text_columns = ("id", "who", "cell", "model", "setting", "role", "apart", "source")
    test_items = CELLS[row["cell"]].items if row["cell"] else 0
    return Replication(
        **{name: row[name] for name in text_columns},
        value=float(row["value"]) if row["value"] else None,
        decimals=len(row["value"].partition(".")[2]),
        items=int(row["items"] or test_items),
    )
