"""Puzzles drawn segment by segment as an animated GIF."""

import io
from textwrap import wrap

from PIL import Image, ImageDraw, ImageFont

from recstudy.analysis.figures.grids import INK, LETTER, PAPER, WARNING, Piece, pieces, placed
from recstudy.analysis.thinking import Thinker, Thought, Thoughts

SIDE, CELL = 168, 28  # pixels: about how wide a grid is, and the most of a cell
GAP, EDGE, LINE, LETTERS, LETTER_WIDTH = 18, 14, 18, 13, 7
FINE = 3  # pixels of the drawing for one of the picture
COLOURS = 64
FIRST_MS, STEP_MS, LAST_MS = 1200, 450, 2500


def animation(data: Thoughts) -> bytes:
    """All puzzles, a row a variant, from what is given to the last segment, where a run of fewer segments has been before."""
    frames = _in_few_colours([_frame(data, segment) for segment in range(data.segments + 1)])
    file, times = io.BytesIO(), [FIRST_MS, *[STEP_MS] * (len(frames) - 2), LAST_MS]
    frames[0].save(file, format="GIF", save_all=True, append_images=frames[1:], duration=times, loop=0)
    return file.getvalue()


def _in_few_colours(frames: list[Image.Image]) -> list[Image.Image]:
    """The same colours in all of them, so that the file keeps of each no more than what has changed: less than half the bytes."""
    wide, high = frames[0].size
    film = Image.new("RGB", (wide, high * len(frames)))
    for number, frame in enumerate(frames):
        film.paste(frame, (0, number * high))
    film = film.quantize(COLOURS, dither=Image.Dither.NONE)
    return [film.crop((0, number * high, wide, (number + 1) * high)) for number in range(len(frames))]


def _frame(data: Thoughts, segment: int) -> Image.Image:
    wide, heights = max(map(_width, data.runs)), [_height(run) for run in data.runs]
    notes = [line for note in data.notes for line in wrap(note, wide // LETTER_WIDTH)]
    top = EDGE + LINE * (1 + len(notes))
    picture = Image.new("RGB", (FINE * (wide + 2 * EDGE), FINE * (top + sum(heights) + EDGE)), PAPER)
    draw = ImageDraw.Draw(picture)
    _say(draw, EDGE, EDGE - 4, f"segment {segment} of {data.segments}", bold=True)
    for line, note in enumerate(notes, 1):
        _say(draw, EDGE, EDGE - 4 + line * LINE, note, WARNING)
    for run, height in zip(data.runs, heights, strict=True):
        _draw_run(draw, run, top, min(segment, run.segments))
        top += height
    return picture.reduce(FINE)


def _draw_run(draw: ImageDraw.ImageDraw, run: Thinker, top: int, segment: int) -> None:
    _say(draw, EDGE, top + 4, run.title)
    left, top = EDGE, top + 4 + LINE + 4
    for thought in run.thoughts:
        wide, high = _size(thought)
        for piece in pieces(run.look, thought.cells[segment], thought.marks[segment]):
            _draw(draw, placed(piece, FINE * left, FINE * top, FINE * wide / thought.shape[1]))
        for line, words in enumerate(thought.words(segment)):
            _say(draw, left, top + high + 4 + line * LINE, words)
        left += max(wide, SIDE) + GAP


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


def _say(draw: ImageDraw.ImageDraw, left: float, top: float, words: str, colour: str = INK, bold: bool = False) -> None:
    font = ImageFont.load_default(FINE * LETTERS)
    draw.text((FINE * left, FINE * top), words, colour, font, stroke_width=FINE / 3 if bold else 0)


def _size(thought: Thought) -> tuple[int, int]:
    """Width and height of a grid."""
    rows, columns = thought.shape
    cell = max(4, min(CELL, SIDE // columns))
    return cell * columns, cell * rows


def _width(run: Thinker) -> int:
    return sum(max(_size(thought)[0], SIDE) + GAP for thought in run.thoughts) - GAP


def _height(run: Thinker) -> int:
    return max(_size(thought)[1] for thought in run.thoughts) + LINE * (5 if run.thoughts[0].halt else 3)
