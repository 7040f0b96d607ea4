"""What one part of a report found in a few words, for its heading: empty where nothing can be told."""

from collections import Counter
from collections.abc import Hashable
from typing import Any

import pandas as pd

from recstudy.analysis.cells import TableData
from recstudy.analysis.questions import Asked, Family
from recstudy.evidence import Verdict
from recstudy.report import Curve
from recstudy.report.names import inline, metric, number, plain

LEADERS = 2  # that a heading names


def of_family(found: Family) -> str:
    """`2 supported, 1 undecided`; of differences `5 worse, 4 not significant`."""
    words = [_word(row) for row in found.rows]
    counts = Counter(words)
    return ", ".join(f"{counts[word]:,} {word}" for word in dict.fromkeys(words) if word)


def _word(row: Asked) -> str:
    if row.better is not None:
        return "better" if row.better else "worse"
    return {Verdict.NO_DIFFERENCE: "not significant", Verdict.NOT_COMPARABLE: ""}.get(row.verdict, str(row.verdict))


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
