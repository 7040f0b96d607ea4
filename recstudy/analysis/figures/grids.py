"""Puzzles drawn for paper: what a grid is made of, cell by cell, and a strip of stills.

Given cells stand on gray in bold, right ones on white in blue, wrong ones on orange, struck through; a cell that has changed
since the segment before is outlined. Lengths are in cells.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import plotly.graph_objects as go

from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.theme import SCREEN, SMALL, Size, dress, folded, letters, shown
from recstudy.analysis.thinking import CHANGED, GIVEN, WRONG, Look, Thinker, Thought, Thoughts, Tokens
from recstudy.records import Json
from recstudy.report import Thinking

INK, PAPER, RULE, WARNING = "#1C2126", "#FFFFFF", "#C4CCD4", "#9A4A00"
FILLS = {0: PAPER, GIVEN: "#D8DEE4", WRONG: "#FFE3C7"}
LETTERS = {0: "#0A5EA8", GIVEN: INK, WRONG: WARNING}
THIN, THICK, MARK, HALO = 0.03, 0.09, 0.08, 0.2
LETTER = 0.6  # of a cell: the size of its letter
# Pixels of the strip: between two grids, a line of words, around all.
GAP, LINE, EDGE = 10, 16, 12


class Piece(NamedTuple):
    """A filled box, an outlined one, a line between two places, or a letter in the middle of a box."""

    kind: Literal["box", "outline", "line", "letter"]
    colour: str
    ends: tuple[float, float, float, float]  # x and y of the upper left and of the lower right, or of a line's ends
    width: float = 0.0
    text: str = ""
    bold: bool = False


def pieces(look: Look, cells: Tokens, marks: Tokens) -> Iterator[Piece]:
    """A grid (R, C), each piece over those before it. Marks over colours are black on white, which shows on all of them."""
    rows, columns = cells.shape
    for y, x in np.ndindex(rows, columns):
        fill = look.colours[cells[y, x]] if look.colours else FILLS[int(marks[y, x]) & (GIVEN | WRONG)]
        yield Piece("box", fill, (x, y, x + 1, y + 1))
    yield from _lines(range(rows + 1), range(columns + 1), RULE, THIN)
    for colour, width in ((PAPER, HALO), (INK, MARK)) if look.colours else ((LETTERS[WRONG], THIN),):
        for y, x in np.argwhere(marks & WRONG):
            yield Piece("line", colour, (x + 0.14, y + 0.86, x + 0.86, y + 0.14), width)
    for colour, width in ((PAPER, HALO), (INK, MARK)) if look.colours else ((INK, MARK),):
        for y, x in np.argwhere(marks & CHANGED):
            yield Piece("outline", colour, (x + 0.1, y + 0.1, x + 0.9, y + 0.9), width)
    tall, wide = look.boxes if any(look.boxes) else (rows, columns)
    yield from _lines(range(0, rows + 1, tall), range(0, columns + 1, wide), INK, THICK)
    for y, x in () if look.colours else np.ndindex(rows, columns):
        how = int(marks[y, x]) & (GIVEN | WRONG)
        yield Piece("letter", LETTERS[how], (x, y, x + 1, y + 1), text=look.symbols[cells[y, x]], bold=how == GIVEN)


def strip(data: Thoughts, spec: Thinking) -> Drawn:
    """Stills of the first puzzle of each variant, or of all puzzles of one variant."""
    return Drawn(partial(strip_figure, data, spec), data.frame, spec.heading, data.notes, how_to_read(data))


def how_to_read(data: Thoughts) -> str:
    """What the marks mean that these puzzles have, and the words under them."""
    symbols = "Gray: given. Blue: right. Orange, struck through: wrong."
    said = [symbols if any(not run.look.colours for run in data.runs) else "Struck through: wrong."]
    said.append("Outlined: changed since the segment before.")
    if any(thought.halt for run in data.runs for thought in run.thoughts):
        said.append("Halting: the model's own probability that it is right; it would halt above 0.5.")
    return " ".join(said)


def strip_figure(data: Thoughts, spec: Thinking, size: Size = SCREEN) -> go.Figure:
    figure = dress(go.Figure(), spec.heading, data.notes, caption=how_to_read(data), size=size)
    count, wide, under = len(stills(data.segments)), size.width - 2 * EDGE, 0.0
    rows: list[Row] = []
    for run, thought in rows_of(data):
        rows.append(_row(run, thought, under, wide, (wide - GAP * (count - 1)) / count))
        under = rows[-1].under
    _add_letters(figure, [piece for row in rows for grid in row.grids for piece in grid if piece.kind == "letter"])
    top, hidden = figure.layout.margin.t, {"visible": False, "fixedrange": True}
    figure.update_xaxes(range=[-1, wide + 1], **hidden).update_yaxes(range=[under, -1], **hidden)
    margin = {"l": EDGE, "r": EDGE, "t": top, "b": EDGE, "pad": 0}
    return figure.update_layout(
        shapes=[shape for row in rows for grid in row.grids for shape in _shapes(grid)],  # at once: Plotly copies those it has
        annotations=[words for row in rows for words in row.said],
        width=size.width,
        height=under + top + EDGE,
        margin=margin,
    )


class Row(NamedTuple):
    """One puzzle's stills, the words over and under them, and where they end; in pixels."""

    grids: list[list[Piece]]
    said: list[Json]
    under: float


def _row(run: Thinker, thought: Thought, over: float, wide: float, side: float) -> Row:
    """Stills of this side from `over` on, under a title that is as wide as all of them."""
    title = folded(f"{shown(run.title)}, test puzzle {thought.row}", letters(wide, SMALL))
    scale, top = side / thought.shape[1], over + LINE * (title.count("<br>") + 2)
    row = Row([], [_words(0, top - 4, title, "bottom")], under=top + scale * thought.shape[0])
    most = 0
    for at, segment in enumerate(stills(run.segments)):
        grid = pieces(run.look, thought.cells[segment], thought.marks[segment])
        row.grids.append([placed(piece, at * (side + GAP), top, scale) for piece in grid])
        words = [f"after {segment}"] * (segment > 0) + thought.words(segment)
        lines = "<br>".join(folded(word, letters(side, SMALL)) for word in words)
        row.said.append(_words(at * (side + GAP), row.under, lines, "top"))
        most = max(most, lines.count("<br>") + 1)
    return row._replace(under=row.under + LINE * most)


def rows_of(data: Thoughts) -> list[tuple[Thinker, Thought]]:
    """What the strip shows, from top to bottom."""
    return [(run, thought) for run in data.runs for thought in (run.thoughts if len(data.runs) == 1 else run.thoughts[:1])]


def stills(segments: int) -> list[int]:
    """After how many segments the strip shows a grid: none, 1, 2, 4, ... and all."""
    doubled = [2**power for power in range(segments.bit_length()) if 2**power < segments]
    return [0, *doubled, segments]


def placed(piece: Piece, left: float, top: float, scale: float) -> Piece:
    """The piece at its place in a picture, in whose pixels a cell has this size."""
    x0, y0, x1, y1 = (scale * end for end in piece.ends)
    return piece._replace(ends=(left + x0, top + y0, left + x1, top + y1), width=scale * piece.width)


def _lines(across: range, down: range, colour: str, width: float) -> Iterator[Piece]:
    for y in across:
        yield Piece("line", colour, (0, y, down[-1], y), width)
    for x in down:
        yield Piece("line", colour, (x, 0, x, across[-1]), width)


def _words(x: float, y: float, words: str, side: str) -> Json:
    place = {"x": x, "y": y, "xanchor": "left", "yanchor": side, "align": "left"}
    return {"text": words, "showarrow": False, "borderpad": 0, "font": {"size": SMALL}, **place}


def _shapes(grid: Sequence[Piece]) -> list[Json]:
    """A grid's boxes and lines: those that look alike are one path."""
    alike: dict[tuple[str, str, float], list[Piece]] = {}
    for piece in grid:
        if piece.kind != "letter":
            alike.setdefault((piece.kind, piece.colour, piece.width), []).append(piece)
    return [
        {
            "type": "path",
            "path": "".join(map(_path, own)),
            "line": {"color": colour, "width": 0 if kind == "box" else width},
            "fillcolor": colour if kind == "box" else "rgba(0,0,0,0)",
            "layer": "below",
        }
        for (kind, colour, width), own in alike.items()
    ]


def _path(piece: Piece) -> str:
    x0, y0, x1, y1 = (f"{end:.2f}" for end in piece.ends)
    return f"M{x0},{y0}L{x1},{y1}" if piece.kind == "line" else f"M{x0},{y0}L{x1},{y0}L{x1},{y1}L{x0},{y1}Z"


def _add_letters(figure: go.Figure, letters: Sequence[Piece]) -> None:
    middles = [((x0 + x1) / 2, (y0 + y1) / 2, LETTER * (x1 - x0)) for x0, y0, x1, y1 in (piece.ends for piece in letters)]
    figure.add_scatter(
        x=[x for x, _, _ in middles],
        y=[y for _, y, _ in middles],
        mode="text",
        text=[f"<b>{shown(piece.text)}</b>" if piece.bold else shown(piece.text) for piece in letters],
        textfont={"size": [size for _, _, size in middles], "color": [piece.colour for piece in letters]},
        hoverinfo="skip",
        showlegend=False,
    )
