"""What others got for the cells of published tables: `replications.csv`, a row a number as its source prints
it.

The columns `who`, `cell`, `role`, `apart` and `items` are ours, and say how a row counts. Into a cell's mean
go the independent retrainings of what its paper describes, one row a run, at the paper's number of segments;
a retraining that is something else says what in `apart`. Re-evaluated and fine-tuned weights are no new draw
of a training, and a row in another paper's table may be copied: these are shown and not averaged.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import sqrt

RETRAINED = "independent retraining"


@dataclass(frozen=True)
class ReplicatedCell:
    """A published number that others have measured too.

    Args:
        title: what it is of.
        row: the id of the published row, by which a study's own runs of it are found.
        items: of the whole test set, which a row that states none is taken to have used.
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
    """A row: a number in percent, None where its source prints none, with `who` measured it and what its
    source says of it.

    `primary`: whether the measuring source itself was read.
    """

    id: str
    who: str
    cell: str
    model: str
    task: str
    setting: str
    metric: str
    value: float | None
    decimals: int
    role: str
    apart: str
    items: int
    source: str
    primary: bool
    note: str

    @property
    def counts(self) -> bool:
        """Whether it goes into its cell's mean."""
        return self.role == RETRAINED and not self.apart and self.value is not None

    @property
    def why_not(self) -> str:
        """Why it does not; empty where it does."""
        return "" if self.counts else self.apart or self.role

    @property
    def error(self) -> float:
        """The standard error of one run's number: binomial over its test items, and the rounding of the
        digits printed (a step of 10^-d has a variance of 10^-2d/12).

        No source of a retraining states a spread over seeds: what seeds, code and hardware add is left to
        tau.
        """
        share = (self.value or 0.0) / 100
        return sqrt(1e4 * share * (1 - share) / self.items + 10.0 ** (-2 * self.decimals) / 12)


@cache
def replications(cell: str = "") -> tuple[Replication, ...]:
    """Return the rows of a cell, or all of them, in the file's order."""
    text = files("recstudy").joinpath("papers/replications.csv").read_text(encoding="utf-8")
    return tuple(_typed(row) for row in csv.DictReader(text.splitlines()) if cell in ("", row["cell"]))


def _typed(row: dict[str, str]) -> Replication:
    kept = ("id", "who", "cell", "model", "task", "setting", "metric", "role", "apart", "source", "note")
    whole = CELLS[row["cell"]].items if row["cell"] else 0
    return Replication(
        **{name: row[name] for name in kept},
        value=float(row["value"]) if row["value"] else None,
        decimals=len(row["value"].partition(".")[2]),
        items=int(row["items"] or whole),
        primary=row["primary"] == "yes",
    )
