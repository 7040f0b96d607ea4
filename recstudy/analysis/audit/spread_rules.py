"""What a reviewer asks of a study's seeds: whether they can tell its variants apart."""

from collections.abc import Iterator, Sequence
from math import sqrt
from statistics import median
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from recstudy.analysis.audit.findings import Finding, command, tasks, where
from recstudy.analysis.cells import Cell, cell_of
from recstudy.analysis.frame import StudyRecords
from recstudy.evidence import LEVEL, MOST_SEEDS
from recstudy.metrics import METRICS
from recstudy.report.names import metric, number

CHEAP = 10  # seeds a variant, up to which the command for them is given


class Blurred(NamedTuple):
    """A score by which variants cannot be told apart: how wide the median interval is, how far apart the means are, and
    after how many seeds an interval would be no wider than that."""

    name: str
    width: float
    apart: float
    n: str
    enough: int | None


def resolution(records: StudyRecords) -> Iterator[Finding]:
    """Intervals that are wider than the means are apart, and that the seeds which are planned will not make narrow enough."""
    planned = len(records.plan.seeds)
    for group in tasks(records):
        blurred = [one for name in _scores(records) if (one := _blurred(records, group, name))]
        found = [one for one in blurred if one.enough is None or one.enough > planned]
        if found:
            yield _finding(records, group, found)


def _finding(records: StudyRecords, group: Sequence[int], found: Sequence[Blurred]) -> Finding:
    first, enough = found[0], found[0].enough
    wide, apart = number(first.name, first.width), number(first.name, first.apart)
    more = f", and {len(found) - 1} more" if found[1:] else ""
    seeds = f"About {enough:,} seeds a variant" if enough else f"More than {MOST_SEEDS:,} seeds a variant"
    return Finding(
        f"Intervals wider than the means are apart on {records.variants[group[0]].data}: "
        f"the median interval of {metric(first.name).title} is {wide} wide ({first.n}), all means within {apart}{more}",
        "Another draw of the seeds may well put the rows in another order.",
        f"{seeds}, by the spread of these, would make them as narrow as that; else the text says that no difference is shown.",
        where(records, group),
        command(records, "--seeds", str(enough)) if enough and enough <= CHEAP else "",
    )


def _scores(records: StudyRecords) -> list[str]:
    """What the report shows of the test split that can be better or worse."""
    names = dict.fromkeys(name for part in records.parts for name in part.shows)
    return [name for name in names if name in METRICS and METRICS[name].tasks and METRICS[name].better]


def _blurred(records: StudyRecords, group: Sequence[int], name: str) -> Blurred | None:
    cells = [cell_of(records, [index], name, records.by_variant[index]) for index in group]
    widths = [cell.high - cell.low for cell in cells if cell.high is not None and cell.low is not None]
    means = [cell.value for cell in cells if cell.value is not None]
    if len(widths) < 2 or median(widths) <= (apart := max(means) - min(means)):
        return None
    least, most = min(cell.n for cell in cells if cell.n), max(cell.n for cell in cells)
    n = f"n={most}" if least == most else f"n={least} to {most}"
    return Blurred(name, median(widths), apart, n, _enough(cells, apart))


def _enough(cells: Sequence[Cell], apart: float) -> int | None:
    """Seeds of every variant after which an interval by their pooled spread is no wider than that; None for too many."""
    groups = [np.array(cell.values) for cell in cells if cell.n > 1]
    if not groups:
        return None
    df = sum(len(values) - 1 for values in groups)
    sd = sqrt(sum(((values - values.mean()) ** 2).sum() for values in groups) / df)
    n = np.arange(2, MOST_SEEDS + 1)
    enough = n[2 * stdtrit(len(groups) * (n - 1), (1 + LEVEL) / 2) * sd / np.sqrt(n) <= apart]
    return int(enough[0]) if len(enough) else None
