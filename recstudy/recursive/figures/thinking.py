"""The report part `Thinking`: the answers of networks to test puzzles after each segment.

It makes a viewer for the page, a strip of stills for a paper and an animated GIF. `read_thoughts` checks the
file `thinking.npz` of a run, which may come from elsewhere.

Shapes: N puzzles, R rows, C columns, S = R C cells, T segments.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from recstudy.base.lazy import go, np, pd, special
from recstudy.base.opened import arrays
from recstudy.records import Json
from recstudy.recursive.config.parts import Count
from recstudy.recursive.figures.examples import read_runs
from recstudy.recursive.figures.tiles import Tiles, tile_figure
from recstudy.report.caveats import warnings
from recstudy.report.figures.chosen import run_columns
from recstudy.report.figures.curve import Curve
from recstudy.report.page import render
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.shown import RenderedPart
from recstudy.report.study_records import StudyRecords

if TYPE_CHECKING:
    from PIL.Image import Image


THINKING = "thinking.npz"
GIVEN_MARK, WRONG_MARK, CHANGED_MARK = 1, 2, 4  # bits, so that a cell can be wrong and changed
COLOR = re.compile(r"#[0-9A-Fa-f]{6}")
INK, PAPER, RULE, WARNING = "#1C2126", "#FFFFFF", "#C4CCD4", "#9A4A00"
FILLS = {0: PAPER, GIVEN_MARK: "#D8DEE4", WRONG_MARK: "#FFE3C7"}
LETTERS = {0: "#0A5EA8", GIVEN_MARK: INK, WRONG_MARK: WARNING}
FINE = 3  # a picture is drawn at 3 times its size and reduced, which smooths its lines


@dataclass(frozen=True)
class Thought:
    """The cells of one puzzle: the given ones at index 0, then all cells after each segment.

    A cell without a question shows its given token, or nothing if cells have colours.
    """

    symbols: list[str]  # the symbol of each token
    colours: list[str]  # the colour of each token, which replaces its symbol; or empty
    box: list[int]  # rows and columns of a box of cells; [0, 0] without boxes
    row: int  # the puzzle's row in the test set
    cells: np.ndarray  # (1 + T, R, C) tokens
    marks: np.ndarray  # (1 + T, R, C) sums of GIVEN_MARK, WRONG_MARK, CHANGED_MARK
    halt: list[float]  # T halting probabilities; empty for a network that cannot halt early

    @property
    def segments(self) -> int:
        return len(self.cells) - 1

    @property
    def halts(self) -> int | None:
        """Return the first segment after which the network would halt."""
        return next((segment for segment, probability in enumerate(self.halt, 1) if probability > 0.5), None)

    def count(self, segment: int, mark: int) -> int:
        """Count the cells with a mark."""
        return int((self.marks[segment] & mark > 0).sum())

    @property
    def numbers(self) -> list[Json]:
        """Return a CSV row for each segment."""
        return [
            {
                "row": self.row,
                "segment": segment,
                "wrong": self.count(segment, WRONG_MARK),
                "changed": self.count(segment, CHANGED_MARK),
                "halt": self.halt[segment - 1] if self.halt else None,
                "halts": self.halts == segment,
                "cells": " ".join(self.symbols[token] for token in self.cells[segment].ravel()),
            }
            for segment in range(1, self.segments + 1)
        ]

    @property
    def viewed(self) -> Json:
        """Return the puzzle as JSON for `viewer.js`, with marks as one digit per cell."""
        return {
            "row": self.row,
            "rows": self.cells.shape[1],
            "columns": self.cells.shape[2],
            "cells": [cells.ravel().tolist() for cells in self.cells],
            "marks": ["".join(map(str, marks.ravel())) for marks in self.marks],
            "words": [self.words(segment) for segment in range(self.segments + 1)],
        }

    def words(self, segment: int) -> list[str]:
        """Return the lines under a grid: the number of wrong cells, and whether the network would halt."""
        if segment == 0:
            return ["as given"]
        wrong = self.count(segment, WRONG_MARK)
        words = [f"{wrong} wrong" if wrong else "solved"]
        if self.halt:
            words.append(f"halting {self.halt[segment - 1]:.2f}")
        if self.halts is not None and segment >= self.halts:
            words.append("halts here" if segment == self.halts else f"halts at {self.halts}")
        return words

    def picture(self, segment: int, side: int) -> Image:
        """Return the grid after a segment.

        Given cells have a gray background, right cells blue letters, and wrong cells an orange background.
        Wrong cells are struck through, and cells that changed since the previous segment are outlined.

        Args:
            segment: The segment; 0 shows the puzzle.
            side: Maximum length of the longer side in pixels.
        """
        from PIL import Image, ImageDraw, ImageFont

        cells = self.cells[segment]
        rows, columns = cells.shape
        cell = FINE * max(4, side // max(rows, columns))
        thin, font = max(1, cell // 30), ImageFont.load_default(0.6 * cell)
        image = Image.new("RGB", (columns * cell, rows * cell))
        draw = ImageDraw.Draw(image)
        for (row, column), token in np.ndenumerate(cells):
            x, y, mark = column * cell, row * cell, int(self.marks[segment, row, column])
            kind = mark & (GIVEN_MARK | WRONG_MARK)
            fill = self.colours[token] if self.colours else FILLS[kind]
            draw.rectangle((x, y, x + cell, y + cell), fill, RULE, thin)
            left, top, right, bottom = x + 0.12 * cell, y + 0.12 * cell, x + 0.88 * cell, y + 0.88 * cell
            # black strokes on broader white ones are visible on every colour
            strokes = ((PAPER, 7 * thin), (INK, 3 * thin)) if self.colours else ((INK, 2 * thin),)
            for color, width in strokes:
                if mark & WRONG_MARK:
                    draw.line((left, bottom, right, top), color, width)
                if mark & CHANGED_MARK:
                    draw.rectangle((left, top, right, bottom), None, color, width)
            if not self.colours:
                draw.text((x + cell / 2, y + cell / 2), self.symbols[token], LETTERS[kind], font, "mm")
        tall, wide = self.box if any(self.box) else (rows, columns)
        for row in range(0, rows + 1, tall):
            draw.line((0, row * cell, image.width, row * cell), INK, 4 * thin)
        for column in range(0, columns + 1, wide):
            draw.line((column * cell, 0, column * cell, image.height), INK, 4 * thin)
        return image.reduce(FINE)


def read_thoughts(path: Path, count: int) -> list[Thought]:
    """Read the first puzzles of a run.

    Args:
        path: The file `thinking.npz`.
        count: Maximum number of puzzles.

    Raises:
        ValueError: The arrays of the file do not fit together.
    """
    archive = arrays(path)
    symbols, colours, box, shape, rows = (
        archive[name].tolist() for name in ("symbols", "colours", "boxes", "shape", "rows")
    )
    grids = [
        archive[name].reshape(len(rows), -1, *shape).astype(int) for name in ("cells", "given", "answers")
    ]
    halt, segments = archive["halt"].astype(float), grids[0].shape[1]
    boxes_fit = box == [0, 0] or all(
        side > 0 and length % side == 0 for length, side in zip(shape, box, strict=True)
    )
    # a colour becomes a style of the page, so that only #RRGGBB is allowed
    is_valid = (
        segments > 0
        and all(0 <= grid.min() <= grid.max() < len(symbols) for grid in grids)
        and len(colours) in (0, len(symbols))
        and all(map(COLOR.fullmatch, colours))
        and boxes_fit
        and halt.shape in ((len(rows), segments), (len(rows), 0))
        and np.isfinite(halt).all()
    )
    if not is_valid:
        raise ValueError("arrays do not fit together")
    puzzles = zip(rows, special.expit(halt).tolist(), *grids, strict=True)
    return [
        Thought(symbols, colours, box, row, *_marked(cells, clues, answers, bool(colours)), halt)
        for row, halt, cells, clues, answers in islice(puzzles, count)
    ]


def _marked(
    cells: np.ndarray, clues: np.ndarray, answers: np.ndarray, has_colours: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells of a puzzle and their marks, without the padding below and on the right.

    Args:
        cells: (T, S) tokens after each segment.
        clues: (1, S) given tokens.
        answers: (1, S) right tokens; 0 in a cell without a question.
        has_colours: Whether cells show colours.
    """
    is_asked = answers > 0
    cells = np.where(is_asked, cells, 0 if has_colours else clues)
    is_wrong = is_asked & (cells != answers)
    has_changed = np.concatenate([np.zeros_like(is_wrong[:1]), cells[1:] != cells[:-1]])
    marks = GIVEN_MARK * (~is_wrong & (cells == clues)) + WRONG_MARK * is_wrong + CHANGED_MARK * has_changed
    cells = np.concatenate([clues, cells])
    marks = np.concatenate([GIVEN_MARK * (~is_asked | (clues == answers)), marks])
    rows, columns = np.argwhere(((clues > 0) | is_asked)[0]).max(0, initial=0) + 1
    return cells[:, :rows, :columns], marks[:, :rows, :columns]


COLUMNS = [
    "data",
    "row",
    "variant",
    "label",
    "seed",
    "segment",
    "wrong",
    "changed",
    "halt",
    "halts",
    "cells",
    "synthetic",
    "_thought",
]
# pixels in the animation: side of a puzzle, space around puzzles, height of a line, and size of its letters
SLOT, EDGE, LINE, LETTER = 168, 16, 18, 13
HALTING = "Halting: the probability that the model assigns to its answer; it would halt above 0.5."
STILL = 360  # pixels of a puzzle in the strip
ROW = SLOT + 6 * LINE  # pixels of a row of puzzles, with its words
COLORS = 64
TIMES = 1200, 450, 2500  # milliseconds of the first frame, of each middle frame and of the last frame


@PARTS.add("thinking")
class Thinking(OfVariants):
    """Test puzzles with the network's answer after each segment, for one seed of each variant.

    The page has a viewer that steps through the segments. The files are an animated GIF of all puzzles and a
    strip of stills for a paper, which shows only the first puzzle if there are several variants.

    Args:
        name: The name of the part and of its files.
        most: Maximum number of puzzles of a variant; a run keeps 12.
    """

    run_file = THINKING
    name: str = "thinking"
    most: Count = 4
    default_title = "Answers to test puzzles after each segment"

    def render(self, records: StudyRecords) -> RenderedPart:
        """Return the viewer with its files: the strip, the animation, and a CSV of puzzles and segments."""
        read = partial(read_thoughts, count=self.most)
        contents, notes = read_runs(records, self.where, THINKING, read)
        rows = [
            {**run_columns(records, run), **numbers, "_thought": thought}
            for run, thoughts in contents
            for thought in thoughts
            for numbers in thought.numbers
        ]
        data, notes = pd.DataFrame(rows, columns=COLUMNS), [*warnings(records), *notes]
        figure = ThinkingStrip(self.name, title=self.heading).shown(data, notes)
        runs = {f"{run.label}, seed {run.seed}": thoughts for run, thoughts in contents}
        body = render(
            "thinking.html.jinja",
            "recstudy.recursive.figures",
            heading=self.heading,
            caption=figure.caption,
            runs=runs,
        )
        files = {"gif": partial(animation, runs, notes)} if runs else {}
        return replace(
            figure if runs else RenderedPart(self.name), body=body, notes=tuple(notes), files=files
        )


class ThinkingStrip(FigurePart):
    """Stills of the first puzzle of each variant, or of all puzzles of one variant."""

    def caption(self, data: pd.DataFrame) -> str:
        has_symbols = any(not thought.colours for thought in data["_thought"])
        marks = "Struck through: wrong."
        if has_symbols:
            marks = "Gray: given. Blue: right. Orange, struck through: wrong."
        words = f"{marks} Outlined: changed since the segment before."
        return f"{words} {HALTING}" if data["halt"].notna().any() else words

    def draw(self, data: pd.DataFrame) -> go.Figure:
        panels = []
        panel_column = "variant" if data["variant"].nunique() > 1 else "row"
        for puzzle in data.drop_duplicates(panel_column).to_dict("records"):
            thought = puzzle["_thought"]
            title = f"{puzzle['label']}, seed {puzzle['seed']}, test puzzle {puzzle['row']}"
            last = thought.segments
            # the stills show segments 0, 1, 2, 4, ... and the last
            segments = sorted({0, *(2**power for power in range(last.bit_length())), last})
            images = [thought.picture(segment, STILL) for segment in segments]
            words = [
                "<br>".join([f"after {segment}"] * (segment > 0) + thought.words(segment))
                for segment in segments
            ]
            columns = len(segments) if len(segments) <= 4 else 3
            panels.append(Tiles(title, images, words, words, columns))
        return tile_figure(panels)


def animation(runs: Mapping[str, Sequence[Thought]], notes: Sequence[str]) -> bytes:
    """Return a GIF of all puzzles with a row per run.

    A run with fewer segments stays at its last one.

    Args:
        runs: The puzzles of each run by its title.
        notes: Lines above the puzzles.
    """
    from PIL import Image, ImageDraw, ImageFont

    segments = max(thought.segments for thoughts in runs.values() for thought in thoughts)
    width = EDGE + max(map(len, runs.values())) * (SLOT + EDGE)
    head = [line for note in notes for line in wrap(note, width // 7)]
    height = EDGE + LINE * (1 + len(head)) + ROW * len(runs)
    film = Image.new("RGB", (width, height * (segments + 1)), PAPER)  # the frames under each other
    write = partial(ImageDraw.Draw(film).multiline_text, fill=INK, font=ImageFont.load_default(LETTER))
    for segment in range(segments + 1):
        bottom = (segment + 1) * height
        write((EDGE, bottom - height + EDGE), "\n".join([f"segment {segment} of {segments}", *head]))
        for row, (title, thoughts) in enumerate(runs.items()):
            top = bottom - ROW * (len(runs) - row)
            write((EDGE, top + LINE / 2), title)
            for column, thought in enumerate(thoughts):
                left, shown_segment = EDGE + column * (SLOT + EDGE), min(segment, thought.segments)
                grid = thought.picture(shown_segment, SLOT)
                film.paste(grid, (left, top + 2 * LINE))
                write((left, top + 2 * LINE + grid.height), "\n".join(thought.words(shown_segment)))
    # with one palette for all frames, the file stores only changed pixels: less than half the bytes
    film = film.quantize(COLORS, dither=Image.Dither.NONE)
    frames = [film.crop((0, top, width, top + height)) for top in range(0, film.height, height)]
    first, middle, last = TIMES
    file, times = io.BytesIO(), [first, *[middle] * (segments - 1), last]
    frames[0].save(file, format="GIF", save_all=True, append_images=frames[1:], duration=times, loop=0)
    return file.getvalue()


@PARTS.add("residuals")
class Residuals(Curve):
    """The relative change of a recursive model's states in each segment, with a line per variant.

    The residual of segment t is |z_t - z_(t-1)| / |z_t|, averaged over the first test puzzles. Only models of
    puzzles record it.
    """

    run_file = THINKING
    name: str = "residuals"
    x: str = "eval.depth"
    y: str = "residual"
    by: str | None = "variant"
    log: bool = True
    default_title = "Relative change of the states in each segment"
