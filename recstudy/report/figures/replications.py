"""What others got for a published number, and what one more retraining would find: random effects over the retrainings."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from recstudy.errors import ConfigError, choices, nearest
from recstudy.lazy import go, pd
from recstudy.papers import Target, published
from recstudy.papers.replications import CELLS, replications
from recstudy.report.figures.forest import Forest
from recstudy.report.parts import PARTS
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import place

if TYPE_CHECKING:
    from recstudy.evidence.replications import Combined

COLUMNS = ["kind", "who", "setting", "value", "low", "high", "apart", "source"]
HOW = (
    "Filled circles: independent retrainings, the values of the mean; hollow: not in it, and why. Bars: 95 % by test items and "
    "printed digits alone. Last rows: the mean with its 95 % interval, and where one more retraining would fall"
)
Z = 1.96
NAMES = {"kind": "mark", "value": "estimate", "setting": "verdict", "source": "about"}  # of the columns of a forest
NAMES |= {"low": "low_95", "high": "high_95"}


@PARTS.add("replications")
class Replications(Forest):
    """What others got for a published number, beside it and the study's own comparable runs: a forest with the random-effects
    mean over the independent retrainings, tau, and what one more would find.

    `cell`: of `recstudy.papers.replications.CELLS`, such as `trm_mlp_sudoku_extreme`.
    """

    name: str = "replications"
    cell: str = Field(kw_only=True)
    origin: ClassVar[float] = nan
    lines: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.cell not in CELLS:
            raise ConfigError(f"replications: no cell {self.cell!r}: there are {choices(CELLS)}.{nearest(self.cell, CELLS)}")

    @property
    def heading(self) -> str:
        return self.title or f"What others got: {CELLS[self.cell].title}"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return the rows of the cell with the study's finished runs that compare with the published number."""
        target = _published_target(self.cell)
        placement = place(records, [target], range(len(records.variants)), [target.metric])
        variants = [key for key, targets in placement.placed.items() if not any(placed.reasons for placed in targets)]
        runs = [(run, name) for index, name in variants for run in records.by_variant[index] if run.done]
        ours = [(f"{run.label}, seed {run.seed}", run.number(name)) for run, name in runs if run.value(name) is not None]
        return replication_rows(self.cell, ours)

    def finding(self, data: pd.DataFrame) -> str:
        return summarize(combine_cell(self.cell))

    def caption(self, data: pd.DataFrame) -> str:
        return f"{self.finding(data)}. {HOW}"

    def draw(self, data: pd.DataFrame) -> go.Figure:
        rows = data.dropna(subset="value").rename(columns=NAMES)
        names, details = (
            rows["who"].where(rows["who"] != "", rows["mark"]),
            rows["apart"].where(rows["apart"] != "", rows["verdict"]),
        )
        labels = (names + ": " + details).str.removesuffix(": ")
        return super().draw(rows.assign(label=labels, group="%", region_low=nan, region_high=nan))


def replication_rows(cell: str, ours: Sequence[tuple[str, float]] = ()) -> pd.DataFrame:
    """Return the published number, ours, the retrainings and the others, each by its value; last the mean and the prediction."""
    target, combined, none = _published_target(cell), combine_cell(cell), (nan, nan)
    rows = [("published", "the paper", target.model, target.value, *none, "", target.cited)]
    rows += [("ours", "here", label, value, *none, "", "here") for label, value in ours]
    for row in sorted(replications(cell), key=lambda row: (row.value is None, not row.counts, -(row.value or 0.0))):
        kind, half = ("retrained", Z * row.error) if row.counts else ("apart", nan)
        value = nan if row.value is None else row.value
        rows.append((kind, row.who, row.setting, value, *clip_percent(value - half, value + half), row.why_not, row.source))
    if combined:
        for kind, ends in (("mean", combined.interval), ("prediction", combined.predicted)):
            rows.append((kind, "", "", combined.mean, *clip_percent(*(ends or none)), "", ""))
    return pd.DataFrame(rows, columns=COLUMNS)


def combine_cell(cell: str) -> Combined | None:
    """Return random effects over a cell's retrainings; None where there is none."""
    from recstudy.evidence.replications import combine  # loads scipy

    counting = [row for row in replications(cell) if row.counts]
    return combine([row.value or 0.0 for row in counting], [row.error for row in counting]) if counting else None


def summarize(mean: Combined | None) -> str:
    """Return `Random effects over 7 independent retrainings ...: 83.3 % [79.4, 87.3], tau 4.3; one more would ...`."""
    if mean is None:
        return "No independent retraining is known"
    if mean.interval is None:
        return f"One independent retraining: {mean.mean:.1f} %"
    low, high = clip_percent(*mean.interval)
    more = "; one more would find {:.1f} to {:.1f}".format(*clip_percent(*mean.predicted)) if mean.predicted else ""
    return (
        f"Random effects over {mean.k} independent retrainings, without the published run and ours: {mean.mean:.1f} % "
        f"[{low:.1f}, {high:.1f}], tau {mean.tau:.1f}{more}"
    )


def clip_percent(low: float, high: float) -> tuple[float, float]:
    """Return both ends, no further than a share goes."""
    return max(low, 0.0), min(high, 100.0)


def _published_target(cell: str) -> Target:
    row = CELLS[cell].row
    (target,) = (target for target in published(row.partition("#")[0]) if target.row == row)
    return target
