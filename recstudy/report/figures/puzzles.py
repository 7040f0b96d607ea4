"""What networks thought of test puzzles (`report/thinking.py`) as a viewer on a page, a strip of stills for paper, and a GIF.

Given cells stand on gray in bold, right ones on white in blue, wrong ones on orange, struck through; a cell that has changed
since the segment before is outlined. Lengths are in cells, until a piece is `placed`.
"""

import io
from collections.abc import Iterator, Sequence
from functools import partial
from textwrap import wrap
from typing import Literal, NamedTuple

import numpy as np
import plotly.graph_objects as go
from PIL import Image, ImageDraw, ImageFont
from plotly.io.json import to_json_plotly

from recstudy.records import Json
from recstudy.report.figure_fields import Thinking
from recstudy.report.figures.layout import Drawn
from recstudy.report.figures.theme import SCREEN, SMALL, Size, folded, letters, scatter, shown
from recstudy.report.markup import escape
from recstudy.report.shown import Shown
from recstudy.report.study_records import StudyRecords
from recstudy.report.thinking import (
    CHANGED,
    GIVEN,
    WRONG,
    PuzzleLook,
    Thinker,
    Thought,
    Thoughts,
    Tokens,
    thinking_data,
)

INK, PAPER, RULE, WARNING = "#1C2126", "#FFFFFF", "#C4CCD4", "#9A4A00"
FILLS = {0: PAPER, GIVEN: "#D8DEE4", WRONG: "#FFE3C7"}
LETTERS = {0: "#0A5EA8", GIVEN: INK, WRONG: WARNING}
THIN, THICK, MARK, HALO = 0.03, 0.09, 0.08, 0.2
LETTER = 0.6  # of a cell: the size of its letter
GAP, LINE, EDGE = 10, 16, 12  # pixels of the strip: between two grids, a line of words, around all
# Of the animation, in pixels: about how wide a grid is, the most of a cell, spaces, letters.
SIDE, CELL, SPACE, AROUND, WORDS, WORD, WORD_WIDTH = 168, 28, 18, 14, 18, 13, 7
FINE = 3  # pixels of its drawing for one of the picture
COLOURS = 64
NOTHING = '<p class="note">No finished run has kept what it thought of puzzles yet.</p>'
NO_SCRIPT = (
    '<noscript><p class="note">Stepping through puzzles needs JavaScript; the GIF and the CSV file do without.</p></noscript>'
)
STEPS = "The first finished seed of each variant. The arrow keys, Home and End step through the segments."
FIRST_MS, STEP_MS, LAST_MS = 1200, 450, 2500


class Piece(NamedTuple):
    """A filled box, an outlined one, a line between two places, or a letter in the middle of a box."""

    kind: Literal["box", "outline", "line", "letter"]
    colour: str
    ends: tuple[float, float, float, float]  # x and y of the upper left and of the lower right, or of a line's ends
    width: float = 0.0
    text: str = ""
    bold: bool = False


def pieces(look: PuzzleLook, cells: Tokens, marks: Tokens) -> Iterator[Piece]:
    """Give a grid (R, C), each piece over those before it. Marks over colours are black on white, which shows on all of them."""
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


def _lines(across: range, down: range, colour: str, width: float) -> Iterator[Piece]:
    for y in across:
        yield Piece("line", colour, (0, y, down[-1], y), width)
    for x in down:
        yield Piece("line", colour, (x, 0, x, across[-1]), width)


def placed(piece: Piece, left: float, top: float, scale: float) -> Piece:
    """Return the piece at its place in a picture, in whose pixels a cell has this size."""
    x0, y0, x1, y1 = (scale * end for end in piece.ends)
    return piece._replace(ends=(left + x0, top + y0, left + x1, top + y1), width=scale * piece.width)


def how_to_read(data: Thoughts) -> str:
    """Return what the marks mean that these puzzles have, and the words under them."""
    symbols = "Gray: given. Blue: right. Orange, struck through: wrong."
    said = [symbols if any(not run.look.colours for run in data.runs) else "Struck through: wrong."]
    said.append("Outlined: changed since the segment before.")
    if any(thought.halt for run in data.runs for thought in run.thoughts):
        said.append("Halting: the model's own probability that it is right; it would halt above 0.5.")
    return " ".join(said)


def strip(data: Thoughts, spec: Thinking) -> Drawn:
    """Return stills of the first puzzle of each variant, or of all puzzles of one variant."""
    return Drawn(partial(strip_figure, data), data.frame, spec.heading, data.notes, how_to_read(data))


def strip_figure(data: Thoughts, size: Size = SCREEN) -> go.Figure:
    """Draw a puzzle under the other, each as a row of grids under its title, with the words on each below it; all in pixels."""
    wide, under = size.width - 2 * EDGE, 0.0
    grids: list[list[Piece]] = []
    said: list[Json] = []
    count = len(stills(data.segments))
    side = (wide - GAP * (count - 1)) / count

    def say(x: float, y: float, words: str, anchor: str) -> None:
        place = {"x": x, "y": y, "xanchor": "left", "yanchor": anchor, "align": "left"}
        said.append({"text": words, "showarrow": False, "borderpad": 0, "font": {"size": SMALL}, **place})

    for run, thought in rows_of(data):
        title = folded(f"{shown(run.title)}, test puzzle {thought.row}", letters(wide, SMALL))
        scale, top = side / thought.shape[1], under + LINE * (title.count("<br>") + 2)
        say(0, top - 4, title, "bottom")
        bottom, most = top + scale * thought.shape[0], 0
        for at, segment in enumerate(stills(run.segments)):
            grid = pieces(run.look, thought.cells[segment], thought.marks[segment])
            grids.append([placed(piece, at * (side + GAP), top, scale) for piece in grid])
            words = [f"after {segment}"] * (segment > 0) + thought.words(segment)
            lines = "<br>".join(folded(word, letters(side, SMALL)) for word in words)
            say(at * (side + GAP), bottom, lines, "top")
            most = max(most, lines.count("<br>") + 1)
        under = bottom + LINE * most
    shapes = [shape for grid in grids for shape in _shapes(grid)]
    meta = {"panels": 0, "grid": {"whole": under, "bottom": EDGE}}
    figure = go.Figure(layout={"shapes": shapes, "annotations": said, "width": size.width, "meta": meta})
    letters_in = [piece for grid in grids for piece in grid if piece.kind == "letter"]
    x, y = ([(piece.ends[axis] + piece.ends[axis + 2]) / 2 for piece in letters_in] for axis in (0, 1))
    text = [f"<b>{shown(piece.text)}</b>" if piece.bold else shown(piece.text) for piece in letters_in]
    sizes = [LETTER * (piece.ends[2] - piece.ends[0]) for piece in letters_in]
    font = {"size": sizes, "color": [piece.colour for piece in letters_in]}
    figure.add_scatter(**scatter(x, y, mode="text", text=text, textfont=font))
    hidden = {"visible": False, "fixedrange": True}
    return figure.update_xaxes(range=[-1, wide + 1], **hidden).update_yaxes(range=[under, -1], **hidden)


def rows_of(data: Thoughts) -> list[tuple[Thinker, Thought]]:
    """Return what the strip shows, from top to bottom."""
    return [(run, thought) for run in data.runs for thought in (run.thoughts if len(data.runs) == 1 else run.thoughts[:1])]


def stills(segments: int) -> list[int]:
    """Return after how many segments the strip shows a grid: none, 1, 2, 4, ... and all."""
    doubled = [2**power for power in range(segments.bit_length()) if 2**power < segments]
    return [0, *doubled, segments]


def _shapes(grid: Sequence[Piece]) -> list[Json]:
    """Return a grid's boxes and lines: those that look alike are one path."""
    alike: dict[tuple[str, str, float], str] = {}
    for piece in grid:
        if piece.kind != "letter":
            x0, y0, x1, y1 = (f"{end:.2f}" for end in piece.ends)
            path = f"M{x0},{y0}L{x1},{y1}" if piece.kind == "line" else f"M{x0},{y0}L{x1},{y0}L{x1},{y1}L{x0},{y1}Z"
            look = (piece.kind, piece.colour, piece.width)
            alike[look] = alike.get(look, "") + path
    shapes: list[Json] = []
    for (kind, colour, width), path in alike.items():
        fill, line = (colour, 0.0) if kind == "box" else ("rgba(0,0,0,0)", width)
        shapes.append(
            {"type": "path", "path": path, "line": {"color": colour, "width": line}, "fillcolor": fill, "layer": "below"}
        )
    return shapes


def animation(data: Thoughts) -> bytes:
    """Animate all puzzles, a row a variant, from what is given to the last segment; a run of fewer segments stays at its last.

    All frames have the same colours, so that the file keeps of each no more than what has changed: less than half the bytes.
    """
    frames = [_frame(data, segment) for segment in range(data.segments + 1)]
    wide, high = frames[0].size
    film = Image.new("RGB", (wide, high * len(frames)))
    for number, frame in enumerate(frames):
        film.paste(frame, (0, number * high))
    film = film.quantize(COLOURS, dither=Image.Dither.NONE)
    frames = [film.crop((0, number * high, wide, (number + 1) * high)) for number in range(len(frames))]
    file, times = io.BytesIO(), [FIRST_MS, *[STEP_MS] * (len(frames) - 2), LAST_MS]
    frames[0].save(file, format="GIF", save_all=True, append_images=frames[1:], duration=times, loop=0)
    return file.getvalue()


def _frame(data: Thoughts, segment: int) -> Image.Image:
    wide = max(sum(max(_size(one)[0], SIDE) + SPACE for one in run.thoughts) - SPACE for run in data.runs)
    heights = [max(_size(one)[1] for one in run.thoughts) + WORDS * (5 if run.thoughts[0].halt else 3) for run in data.runs]
    notes = [line for note in data.notes for line in wrap(note, wide // WORD_WIDTH)]
    top = AROUND + WORDS * (1 + len(notes))
    picture = Image.new("RGB", (FINE * (wide + 2 * AROUND), FINE * (top + sum(heights) + AROUND)), PAPER)
    draw = ImageDraw.Draw(picture)

    def say(left: float, above: float, words: str, colour: str = INK, bold: bool = False) -> None:
        font = ImageFont.load_default(FINE * WORD)
        draw.text((FINE * left, FINE * above), words, colour, font, stroke_width=FINE / 3 if bold else 0)

    say(AROUND, AROUND - 4, f"segment {segment} of {data.segments}", bold=True)
    for line, note in enumerate(notes, 1):
        say(AROUND, AROUND - 4 + line * WORDS, note, WARNING)
    for run, height in zip(data.runs, heights, strict=True):
        say(AROUND, top + 4, run.title)
        now, left, above = min(segment, run.segments), AROUND, top + 8 + WORDS
        for thought in run.thoughts:
            across, down = _size(thought)
            for piece in pieces(run.look, thought.cells[now], thought.marks[now]):
                _draw(draw, placed(piece, FINE * left, FINE * above, FINE * across / thought.shape[1]))
            for line, words in enumerate(thought.words(now)):
                say(left, above + down + 4 + line * WORDS, words)
            left += max(across, SIDE) + SPACE
        top += height
    return picture.reduce(FINE)


def _draw(draw: ImageDraw.ImageDraw, piece: Piece) -> None:
    width = max(1, round(piece.width))
    match piece.kind:
        case "box":
            draw.rectangle(piece.ends, fill=piece.colour)
        case "outline":
            draw.rectangle(piece.ends, outline=piece.colour, width=width)
        case "line":
            draw.line(piece.ends, fill=piece.colour, width=width)
        case "letter":
            x0, y0, x1, y1 = piece.ends
            font, bold = ImageFont.load_default(LETTER * (x1 - x0)), FINE / 3 if piece.bold else 0
            draw.text(((x0 + x1) / 2, (y0 + y1) / 2), piece.text, piece.colour, font, "mm", stroke_width=bold)


def _size(thought: Thought) -> tuple[int, int]:
    """Return width and height of a grid."""
    rows, columns = thought.shape
    cell = max(4, min(CELL, SIDE // columns))
    return cell * columns, cell * rows


# --------------------------------------------------------------------------------------------------------- in a report


def thinking_shown(records: StudyRecords, part: Thinking) -> Shown:
    """Make puzzles after every segment: a viewer, and as files the animation and a strip of stills."""
    data = thinking_data(records, part)
    if not data.runs:
        return Shown(part.name, body=NOTHING, notes=data.notes)
    told = to_json_plotly({"segments": data.segments, "runs": [run.told for run in data.runs]})
    box = f'<div class="thinking" role="group" aria-label="{escape(part.heading)}"></div>'
    caption = f'<p class="caption">{escape(f"{how_to_read(data)} {STEPS}")}</p>'
    body = f'{box}<script type="application/json">{told}</script>\n{NO_SCRIPT}{caption}\n'
    return Shown(part.name, "", strip(data, part), body=body, notes=data.notes, files={"gif": partial(animation, data)})
