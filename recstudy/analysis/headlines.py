"""What one part of a report found in a few words, for its heading: empty where nothing can be told."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from recstudy.analysis.cells import TableData
from recstudy.analysis.stats import ALPHA
from recstudy.analysis.tables.claims import Judged
from recstudy.analysis.tables.differences import Difference
from recstudy.analysis.tables.effects import EffectsData
from recstudy.report import Curve
from recstudy.report.names import inline, metric, number, plain, plural

LEADERS = 2  # that a heading names
SIDES = ("better", "worse", "higher", "lower", "not significantly different")


def of_claims(judged: Sequence[Judged]) -> str:
    """`2 supported, 1 undecided`."""
    return _tally([one.verdict for one in judged], ("supported", "contradicted", "undecided", "not run"))


def of_differences(rows: Sequence[Difference]) -> str:
    """`5 worse, 4 not significantly different`."""
    return _tally([row.verdict.replace("no difference shown", SIDES[-1]) for row in rows], SIDES)


def of_effects(data: EffectsData) -> str:
    """`2 of 7 effects shown`."""
    tested = [one.adjusted for one in data.effects if one.adjusted is not None]
    return f"{sum(p < ALPHA for p in tested)} of {plural(len(tested), 'effect')} shown" if tested else ""


def of_table(table: TableData) -> str:
    """Who leads by its first measured metric that two variants have; of several places that are ranked apart, nothing."""
    columns = zip(*(row.cells for row in table.rows if row.cells), strict=False)
    labels = [row.label for row in table.rows if row.cells]
    for head, cells in zip(table.columns, columns, strict=False):
        name = cells[0].metric
        if metric(name).computed or head != metric(name).heading or not any(one.best or one.tied for one in cells):
            continue
        best = [label for label, one in zip(labels, cells, strict=True) if one.best]
        if not best:
            return f"no significant difference by {inline(name)}"
        return f"best by {inline(name)}: {' and '.join(best) if len(best) <= LEADERS else f'{len(best)} of {len(cells)}'}"
    return ""


def of_curve(data: pd.DataFrame, spec: Curve) -> str:
    """`1.0 % at 1, 93.9 % at 16`: the ends of the line that gets best, where their intervals are apart."""
    ours = data[~data["published"].astype(bool) & data["value"].notna() & data["low"].notna()]
    if spec.drop or metric(spec.y).better is None or ours.empty or not ours["x"].map(lambda x: isinstance(x, int | float)).all():
        return ""
    points = ours.to_dict("records")
    line = max(points, key=lambda point: metric(spec.y).sign * point["value"])["line"]
    own = [point for point in points if point["line"] == line]
    first, last = own[0], own[-1]
    if first["high"] >= last["low"] and last["high"] >= first["low"]:
        return ""
    return f"{_at(first, spec)}, {_at(last, spec)}" + (f" ({line})" if ours["line"].nunique() > 1 else "")


def _at(point: dict[Hashable, Any], spec: Curve) -> str:
    unit = metric(spec.y).unit
    return f"{number(spec.y, point['value'])}{f' {unit}' * bool(unit)} at {plain(point['x'])}"


def _tally(words: Sequence[str], order: Sequence[str]) -> str:
    counts = Counter(words)
    return ", ".join(f"{counts[word]:,} {word}" for word in order if counts[word])
