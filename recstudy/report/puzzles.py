"""What networks thought of test puzzles, segment by segment: the file `thinking.npz` of a run, read with every check.

Shapes: N puzzles, R rows, C columns, S = R C cells, T segments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recstudy.lazy import np
from recstudy.records import Json
from recstudy.report.kept import read_archive
from recstudy.report.names import plural

if TYPE_CHECKING:
    import numpy.typing as npt
    from PIL.Image import Image

    Tokens = npt.NDArray[np.int64]

THINKING = "thinking.npz"
GIVEN, WRONG, CHANGED = 1, 2, 4  # the marks of a cell, as bits
COLOR = re.compile(r"#[0-9A-Fa-f]{6}")
INK, PAPER, RULE, WARNING = "#1C2126", "#FFFFFF", "#C4CCD4", "#9A4A00"
FILLS = {0: PAPER, GIVEN: "#D8DEE4", WRONG: "#FFE3C7"}
LETTERS = {0: "#0A5EA8", GIVEN: INK, WRONG: WARNING}
FINE = 3  # pixels of a drawing for a pixel of its picture


@dataclass(frozen=True)
class Thought:
    """The cells of one puzzle: the given ones at 0, then all after each segment.

    A cell that is not asked for shows what is given, and nothing where cells have colours.
    """

    symbols: list[str]  # of each token
    colours: list[str]  # of each token, in place of symbols; or empty
    box: list[int]  # rows and columns of a box of cells; [0, 0] without
    row: int  # in the test set
    cells: Tokens  # (1 + T, R, C)
    marks: Tokens  # (1 + T, R, C) of GIVEN, WRONG, CHANGED
    halt: list[float]  # T probabilities; empty for a network that never halts by itself

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
        """Return the columns of each segment."""
        return [
            {
                "row": self.row,
                "segment": segment,
                "wrong": self.count(segment, WRONG),
                "changed": self.count(segment, CHANGED),
                "halt": self.halt[segment - 1] if self.halt else None,
                "halts": self.halts == segment,
                "cells": " ".join(self.symbols[token] for token in self.cells[segment].ravel()),
            }
            for segment in range(1, self.segments + 1)
        ]

    @property
    def viewed(self) -> Json:
        """Return what the viewer of a page takes, with marks as one digit a cell."""
        return {
            "row": self.row,
            "rows": self.cells.shape[1],
            "columns": self.cells.shape[2],
            "cells": [cells.ravel().tolist() for cells in self.cells],
            "marks": ["".join(map(str, marks.ravel())) for marks in self.marks],
            "words": [self.words(segment) for segment in range(self.segments + 1)],
        }

    def words(self, segment: int) -> list[str]:
        """Say how many cells are wrong, and whether the network would halt here."""
        if segment == 0:
            return ["as given"]
        wrong = self.count(segment, WRONG)
        words = [f"{wrong} wrong" if wrong else "solved"]
        if self.halt:
            words.append(f"halting {self.halt[segment - 1]:.2f}")
        if self.halts is not None and segment >= self.halts:
            words.append("halts here" if segment == self.halts else f"halts at {self.halts}")
        return words

    def picture(self, segment: int, side: int) -> Image:
        """Return the grid after a segment, its longer side at most `side` pixels.

        Given cells are on gray in bold, right ones on white in blue, wrong ones on orange. Wrong ones are struck through and
        those that have changed since the segment before are outlined; over colours black on white, which is seen on all of them.
        """
        from PIL import Image, ImageDraw, ImageFont

        cells, colours = self.cells[segment], self.colours
        rows, columns = cells.shape
        cell = FINE * max(4, side // max(rows, columns))
        thin, font = max(1, cell // 30), ImageFont.load_default(0.6 * cell)
        strokes = [(PAPER, 7 * thin), (INK, 3 * thin)] if colours else [(INK, 2 * thin)]
        image = Image.new("RGB", (columns * cell, rows * cell))
        draw = ImageDraw.Draw(image)
        for (row, column), token in np.ndenumerate(cells):
            x, y, mark = column * cell, row * cell, int(self.marks[segment, row, column])
            kind = mark & (GIVEN | WRONG)
            draw.rectangle((x, y, x + cell, y + cell), colours[token] if colours else FILLS[kind], RULE, thin)
            near, far = 0.12 * cell, 0.88 * cell
            for color, width in strokes:
                if mark & WRONG:
                    draw.line((x + near, y + far, x + far, y + near), color, width)
                if mark & CHANGED:
                    draw.rectangle((x + near, y + near, x + far, y + far), None, color, width)
            if not colours:
                middle, bold = (x + cell / 2, y + cell / 2), FINE / 3 if mark & GIVEN else 0
                draw.text(middle, self.symbols[token], LETTERS[kind], font, "mm", stroke_width=bold)
        tall, wide = self.box if any(self.box) else (rows, columns)
        for y in range(0, image.height + 1, tall * cell):
            draw.line((0, y, image.width, y), INK, 4 * thin)
        for x in range(0, image.width + 1, wide * cell):
            draw.line((x, 0, x, image.height), INK, 4 * thin)
        return image.reduce(FINE)


def read_thoughts(path: Path, most: int) -> list[Thought]:
    """Read the first puzzles of a run.

    Raises:
        StorageError: The file is damaged. The message names it.
    """
    return read_archive(path, partial(_thoughts, most=most))


def _thoughts(archive: Mapping[str, Any], most: int) -> list[Thought]:
    """Return the first puzzles of an archive whose arrays fit together; else raise ValueError."""
    symbols, colours, box, (rows, columns) = (archive[name].tolist() for name in ("symbols", "colours", "boxes", "shape"))
    (tall, wide), halt = box, archive["halt"]
    count, segments = len(archive["rows"]), archive["cells"].shape[1]
    sides = {"cells": (count, segments, rows * columns), "given": (count, rows * columns), "answers": (count, rows * columns)}
    for name, side in sides.items():
        array = archive[name]
        if array.shape != side or not array.size or array.dtype != np.uint8:
            raise ValueError(f"{name} of {array.shape} {array.dtype} for {plural(count, 'puzzle')} of {rows}x{columns}")
        if array.max() >= len(symbols):
            raise ValueError(f"token {array.max()}, but {plural(len(symbols), 'symbol')}")
    if colours and (len(colours) != len(symbols) or not all(map(COLOR.fullmatch, colours))):
        raise ValueError("colours are not one #RRGGBB a token")
    if any(box) and (min(box) < 1 or rows % tall or columns % wide):
        raise ValueError(f"boxes of {tall, wide} in {rows}x{columns} cells")
    if halt.shape not in ((count, segments), (count, 0)) or not np.isfinite(halt).all():
        raise ValueError(f"halt of {halt.shape} for {plural(segments, 'segment')}")
    probabilities = 0.5 * (1 + np.tanh(halt.astype(float) / 2))  # the logistic function, which cannot overflow
    grids = [archive[name].astype(int).reshape(count, -1, rows, columns) for name in sides]
    puzzles = zip(archive["rows"].tolist(), probabilities.tolist(), *grids, strict=True)
    return [
        Thought(symbols, colours, box, row, *_marked(cells, given, answers, bool(colours)), halts)
        for row, halts, cells, given, answers in islice(puzzles, most)
    ]


def _marked(cells: Tokens, given: Tokens, answers: Tokens, has_colours: bool) -> tuple[Tokens, Tokens]:
    """Return the cells of a puzzle and their marks, without the padding below and on the right."""
    is_asked = answers > 0
    cells = np.where(is_asked, cells, 0 if has_colours else given)
    is_wrong = is_asked & (cells != answers)
    has_changed = np.concatenate([np.zeros_like(is_wrong[:1]), cells[1:] != cells[:-1]])
    marks = GIVEN * (~is_wrong & (cells == given)) + WRONG * is_wrong + CHANGED * has_changed
    cells, marks = np.concatenate([given, cells]), np.concatenate([GIVEN * (~is_asked | (given == answers)), marks])
    rows, columns = np.argwhere(((given > 0) | is_asked)[0]).max(0, initial=0) + 1
    return cells[:, :rows, :columns], marks[:, :rows, :columns]
