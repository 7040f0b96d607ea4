"""What networks thought of test puzzles, segment by segment, as runs kept it (`thinking.npz`, written by `tasks/solving.py`).

Shapes: n puzzles, R rows, C columns, S = R C cells, T segments, V tokens.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from recstudy.errors import StorageError
from recstudy.records import Json
from recstudy.report.figure_fields import Thinking
from recstudy.report.kept import finished, read_archive
from recstudy.report.names import plural
from recstudy.report.study_records import StudyRecords
from recstudy.report.variants import add_labels

THINKING = "thinking.npz"
MOST = 6  # variants: more do not fit on a page
GIVEN, WRONG, CHANGED = 1, 2, 4  # what is said of a cell, as bits
COLOUR = re.compile(r"#[0-9A-Fa-f]{6}")
COLUMNS = ["data", "row", "variant", "label", "seed", "segment", "wrong", "changed", "halt", "halts", "cells", "synthetic"]
Tokens = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PuzzleLook:
    """How a person sees a set's puzzles: a symbol for each token, or a colour; rows and columns of a box, (0, 0) without."""

    symbols: tuple[str, ...]
    colours: tuple[str, ...]
    boxes: tuple[int, int]


@dataclass(frozen=True)
class Thought:
    """What stood in the cells of one puzzle: at 0 what is given, then after each segment.

    A cell that is not asked for shows what is given, and nothing where cells have colours.
    """

    row: int  # in the test set
    cells: Tokens  # (1 + T, R, C)
    marks: Tokens  # (1 + T, R, C) of GIVEN, WRONG, CHANGED
    halt: tuple[float, ...]  # T probabilities; none of a network that never halts by itself
    halts: int | None  # the first segment after which it would

    @property
    def shape(self) -> tuple[int, int]:
        """R and C."""
        _, rows, columns = self.cells.shape
        return rows, columns

    def marked(self, segment: int, mark: int) -> int:
        """Count the cells with this mark."""
        return int((self.marks[segment] & mark > 0).sum())

    def words(self, segment: int) -> list[str]:
        """Say how it stands, and whether the network would halt here."""
        if segment == 0:
            return ["as given"]
        wrong = self.marked(segment, WRONG)
        said = [f"{wrong} wrong" if wrong else "solved", *([f"halting {self.halt[segment - 1]:.2f}"] if self.halt else [])]
        if self.halt and self.halts is not None and segment >= self.halts:
            said.append("halts here" if segment == self.halts else f"halts at {self.halts}")
        return said

    def told(self, segments: int) -> Json:
        """Give the page the puzzle, with marks as one digit a cell and the words of a run of so many segments."""
        return {
            "row": self.row,
            "rows": self.shape[0],
            "columns": self.shape[1],
            "cells": [cells.ravel().tolist() for cells in self.cells],
            "marks": ["".join(map(str, marks.ravel())) for marks in self.marks],
            "words": [self.words(segment) for segment in range(segments + 1)],
        }


@dataclass(frozen=True)
class Thinker:
    """One run's thoughts."""

    label: str
    seed: int
    look: PuzzleLook
    thoughts: list[Thought]

    @property
    def segments(self) -> int:
        """T."""
        return len(self.thoughts[0].cells) - 1

    @property
    def title(self) -> str:
        return f"{self.label}, seed {self.seed}"

    @property
    def told(self) -> Json:
        """Give the page the run."""
        looks = {"symbols": self.look.symbols, "colours": self.look.colours, "box": list(self.look.boxes)}
        return {"title": self.title, **looks, "puzzles": [thought.told(self.segments) for thought in self.thoughts]}


@dataclass(frozen=True)
class Thoughts:
    """One row of `frame` a puzzle, variant and segment. `notes` say which variants are left out and why."""

    frame: pd.DataFrame
    runs: list[Thinker]
    notes: tuple[str, ...]

    @property
    def segments(self) -> int:
        return max((run.segments for run in self.runs), default=0)


def thinking_data(records: StudyRecords, spec: Thinking, most: int = MOST) -> Thoughts:
    """Read the first `spec.most` test puzzles of the first finished seed of each of the `most` best variants."""
    found, notes = finished(records, spec.where, THINKING, most)
    runs: list[Thinker] = []
    rows: list[Json] = []
    for index, run in found.items():
        variant = records.variants[index]
        try:
            look, thoughts = read_thinking(records.results.run(run.id).path / THINKING, spec.most)
        except StorageError as damage:
            notes.append(f"{variant.label}: {damage}")
            continue
        runs.append(Thinker(variant.label, run.seed, look, thoughts))
        rows += [
            {
                "data": variant.data,
                "variant": index,
                "seed": run.seed,
                "row": thought.row,
                "segment": segment,
                "wrong": thought.marked(segment, WRONG),
                "changed": thought.marked(segment, CHANGED),
                "halt": thought.halt[segment - 1] if thought.halt else None,
                "halts": thought.halts == segment,
                "cells": " ".join(look.symbols[token] for token in cells.ravel()),
            }
            for thought in thoughts
            for segment, cells in enumerate(thought.cells[1:], 1)
        ]
    frame = add_labels(records, pd.DataFrame(rows))[COLUMNS] if rows else pd.DataFrame(columns=COLUMNS)
    return Thoughts(frame, runs, tuple(notes))


def read_thinking(path: Path, most: int) -> tuple[PuzzleLook, list[Thought]]:
    """Read how a run's puzzles look, and the first of them.

    Raises:
        StorageError: the file is damaged. The message names it.
    """

    def take(archive: Mapping[str, Any]) -> tuple[PuzzleLook, list[Thought]]:
        kept = dict(archive)
        look = PuzzleLook(*(tuple(kept[name].tolist()) for name in ("symbols", "colours", "boxes")))
        _check(kept, look)
        return look, [_thought(kept, look, at) for at in range(min(most, len(kept["rows"])))]

    return read_archive(path, take)


def _check(kept: Mapping[str, Any], look: PuzzleLook) -> None:
    """Refuse parts that do not go together (ValueError)."""
    count, cells, halt = len(kept["rows"]), kept["cells"], kept["halt"]
    rows, columns = map(int, kept["shape"])
    segments = cells.shape[1] if cells.ndim == 3 else 0
    sides = {"cells": (count, segments, rows * columns), **dict.fromkeys(("given", "answers"), (count, rows * columns))}
    for name, shape in sides.items():
        if kept[name].shape != shape or not count or not segments:
            raise ValueError(f"{name} of {kept[name].shape} for {plural(count, 'puzzle')} of {rows}x{columns}")
        if kept[name].dtype != np.uint8:
            raise ValueError(f"{name} of {kept[name].dtype}, but tokens are uint8")
    largest = max(int(kept[name].max()) for name in sides)
    if largest >= len(look.symbols):
        raise ValueError(f"token {largest}, but {plural(len(look.symbols), 'symbol')}")
    if look.colours and (len(look.colours) != len(look.symbols) or not all(map(COLOUR.fullmatch, look.colours))):
        raise ValueError("colours are not one #RRGGBB a token")
    if look.boxes != (0, 0) and any(box < 1 or side % box for side, box in zip((rows, columns), look.boxes, strict=True)):
        raise ValueError(f"boxes of {look.boxes} in {rows}x{columns} cells")
    if halt.shape not in ((count, segments), (count, 0)) or not np.isfinite(halt).all():
        raise ValueError(f"halt of {halt.shape} for {plural(segments, 'segment')}")


def _thought(kept: Mapping[str, Any], look: PuzzleLook, at: int) -> Thought:
    rows, columns = map(int, kept["shape"])
    given, answers = (kept[name][at].astype(np.int64).reshape(rows, columns) for name in ("given", "answers"))
    asked = answers > 0
    after = np.where(asked, kept["cells"][at].reshape(-1, rows, columns), 0 if look.colours else given).astype(np.int64)
    wrong = asked & (after != answers)
    changed = np.concatenate([np.zeros_like(wrong[:1]), after[1:] != after[:-1]])
    marks = GIVEN * (~wrong & (after == given)) + WRONG * wrong + CHANGED * changed
    first = GIVEN * (~asked | (given == answers))
    used = np.argwhere((given > 0) | asked).max(0, initial=0) + 1  # without the padding below and on the right
    cells, marks = (np.concatenate(both)[:, : used[0], : used[1]] for both in (([given], after), ([first], marks)))
    sure = kept["halt"][at].astype(float).tolist()
    halts = next((segment for segment, logit in enumerate(sure, 1) if logit > 0), None)
    probabilities = tuple(0.5 * (1 + math.tanh(logit / 2)) for logit in sure)  # the logistic function, which cannot overflow
    return Thought(int(kept["rows"][at]), cells, marks, probabilities, halts)
