"""Parallel coordinates of a study's runs, to be brushed: a range on an axis is a filter of the list under it.

The script (brush_script.py) draws them and puts what is brushed into the address, where the list finds it as any other filter.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from plotly.io.json import to_json_plotly

from recstudy.analysis.figures.theme import blend
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import escape
from recstudy.analysis.rows import Row
from recstudy.board.columns import Column, columns_of, first_metric, levels, place
from recstudy.records import Json
from recstudy.report.names import metric, plain

AXES, MOST = 7, 1000  # settings, and lines
FEW, TICKS = 12, 6  # values that stand in even steps, and words on an axis that has more
WIDE = 100  # from such a ratio on an axis is logarithmic
HOW = (
    "One line per scored run; orange is better. Drag along an axis, or move the marks at its ends by the "
    "arrow keys, and the list below has the runs within; a click on the axis, or Delete, takes all of them again."
)


def scored(records: StudyRecords) -> list[Row]:
    name = first_metric(records)
    return [row for row in records.rows if row.value(name) is not None]


def brush_html(records: StudyRecords) -> str:
    """A box that the script fills, and how to use it."""
    name, rows = first_metric(records), scored(records)
    columns = columns_of(records, set())
    settings = [columns[axis] for axis in records.plan.axes if axis in columns] or list(columns.values())
    chosen = [one for one in settings if one.kind == "setting" and len(levels(one, rows)) > 1][:AXES]
    sign = metric(name).sign
    best = sorted(rows, key=lambda row: sign * row.number(name))[-MOST:]  # the best is drawn last
    axes = [*chosen, columns[name]]
    known = [levels(one, best) for one in chosen] + [sorted({row.number(name) for row in best})]
    data = {
        "axes": [_axis(one, values) for one, values in zip(axes, known, strict=True)],
        "lines": _lines(best, axes, known, sign),
    }
    cut = f" Drawn are the {MOST:,} best of {len(rows):,}." if len(rows) > MOST else ""
    box = '<div class="brush" role="group" aria-label="Settings and score of the runs"></div>'
    shown = f'<script type="application/json">{to_json_plotly(data)}</script>'
    return f'{box}{shown}<p class="caption">{escape(HOW + cut)}</p>'


def _axis(column: Column, values: Sequence[Any]) -> Json:
    """Its values in order, as filters and in words, and where on it they stand, from 0 to 1."""
    heights = _heights(values, column.kind == "setting")
    step = 1 if len(values) <= FEW else max(1, len(values) // TICKS)
    return {
        "name": column.name,
        "title": column.title if column.kind == "setting" else metric(column.name).title,
        "numbers": all(_is_number(value) for value in values),
        "values": [repr(value) if _is_number(value) else plain(value) for value in values],
        "words": [column.words(value) for value in values],
        "heights": [round(height, 4) for height in heights],
        "ticks": [*range(0, len(values), step)],
    }


def _heights(values: Sequence[Any], setting: bool) -> list[float]:
    """In even steps where few values of a setting, or words, are all that there are."""
    last = len(values) - 1
    if last == 0:
        return [0.5]
    if (setting and last < FEW) or not all(_is_number(value) for value in values):
        return [at / last for at in range(last + 1)]
    low, high = values[0], values[-1]
    if low > 0 and high / low >= WIDE:
        return [math.log(value / low) / math.log(high / low) for value in values]
    return [(value - low) / (high - low) for value in values]


def _lines(rows: Sequence[Row], axes: Sequence[Column], known: Sequence[Sequence[Any]], sign: int) -> list[Json]:
    """Of each run, which value it has on each axis (-1: none), its colour and its words."""
    at = [{repr(value): place for place, value in enumerate(values)} for values in known]
    scores = [float(axes[-1].value(row)) for row in rows]
    low, high = min(scores), max(scores)
    share = [(score - low) / (high - low) if high > low else 0.5 for score in scores]
    return [
        {
            "at": [_at(one.value(row), of) for one, of in zip(axes, at, strict=True)],
            "color": blend(part if sign > 0 else 1 - part),
            "words": f"{row.label}, seed {row.seed}: {axes[-1].words(score)}",
        }
        for row, score, part in zip(rows, scores, share, strict=True)
    ]


def _at(value: Any, places: Mapping[str, int]) -> int:
    return -1 if value is None else places.get(repr(value), -1)


def _is_number(value: Any) -> bool:
    return place(value)[0] == 0
