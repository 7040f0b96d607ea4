"""Names of lines where they end, in place of a legend where the page is wide enough: `style.SCRIPT` chooses."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import plotly.graph_objects as go

from recstudy.analysis.figures.theme import SCREEN, SMALL, WIDE, shown

MOST = 6  # names beside a panel, and colours
LETTERS = 34  # of a name that is not cut
GAP = 17  # pixels between two names


class End(NamedTuple):
    """Of a line: its name, where it ends upwards, and its colour."""

    name: str
    y: float
    color: str


def name_ends(
    figure: go.Figure, ends: Sequence[End], log: bool = False, panel: int = 1, span: tuple[float, float] | None = None
) -> None:
    """Add the names, hidden, as far apart as letters are high; none of one line, or of too many or too long ones.

    `span` is how far the panel's axis reaches, where it has no range of its own.
    """
    if not 1 < len(ends) <= MOST or max(len(end.name) for end in ends) > LETTERS:
        return
    axis = f"y{panel if panel > 1 else ''}"
    low, high = figure.layout[axis.replace("y", "yaxis")].range or _span(span or [end.y for end in ends], log)
    room = (high - low) * GAP / SCREEN.panel
    places = apart([math.log10(end.y) if log else end.y for end in ends], room, high)
    for end, y in zip(ends, places, strict=True):
        figure.add_annotation(
            name="end",
            text=f'<span style="color:{end.color}">\N{BLACK CIRCLE}</span> {shown(end.name)}',  # letters stay dark
            font={"size": SMALL},
            x=1,
            xref="paper",
            xanchor="left",
            xshift=4,
            y=y,
            yref=axis,
            showarrow=False,
            visible=False,
        )
    wide = round(WIDE * SMALL * max(len(end.name) for end in ends)) + 26
    figure.update_layout(meta={**figure.layout.meta, "ends": wide}, showlegend=figure.layout.showlegend is not False)


def brief(labels: Iterable[str]) -> list[str]:
    """Labels such as `steps=1, width=64` without what all of them have."""
    known = [label.split(", ") for label in labels]
    alike = set.intersection(*map(set, known)) if len(known) > 1 else set()
    return [", ".join(part for part in own if part not in alike) or ", ".join(own) for own in known]


def apart(places: Sequence[float], room: float, high: float) -> list[float]:
    """The places moved up until no two are nearer than `room`, then down below `high`; their order stays."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for before, at in pairwise(order):
        moved[at] = max(moved[at], moved[before] + room)
    top = high
    for at in reversed(order):
        moved[at] = min(moved[at], top)
        top = moved[at] - room
    return moved


def _span(values: Sequence[float], log: bool) -> tuple[float, float]:
    places = [math.log10(value) if log else value for value in values]
    return min(places), max(places) or 1.0
