"""The tasks of ARC-AGI, as Kaggle lays them out.

    arc-agi_SET_challenges.json    {TASK: {"train": [{"input": GRID, "output": GRID}, ...], "test": [{"input": GRID}, ...]}}
    arc-agi_SET_solutions.json     {TASK: [GRID, ...]}, the outputs of its test inputs

A grid is a list of rows of colours.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from recstudy.data.images import Pixels
from recstudy.errors import DataError

LARGEST, COLOURS = 30, 10
Pair = tuple[Pixels, Pixels]  # a grid and what the rule makes of it, (H, W) colours each


class Task(NamedTuple):
    """A rule, by pairs that show it and pairs that ask for it."""

    name: str
    shown: list[Pair]
    asked: list[Pair]

    @property
    def grids(self) -> list[Pixels]:
        return [grid for pair in (*self.shown, *self.asked) for grid in pair]

    @property
    def side(self) -> int:
        """The longest of all its grids' sides."""
        return max(side for grid in self.grids for side in grid.shape)


def read_tasks(folder: Path, name: str) -> list[Task]:
    """All tasks of a set, in the file's order.

    Raises:
        DataError: a file is damaged, a task has no solutions, or a grid is none.
    """
    files = [folder / f"arc-agi_{name}_{kind}.json" for kind in ("challenges", "solutions")]
    challenges, solutions = (_object(file) for file in files)
    return [_task(task, told, solutions.get(task), *files) for task, told in challenges.items()]


def _object(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read ({' '.join(str(error).split())}). Unpack or download it again.") from None
    if not isinstance(values, dict):
        raise DataError(f"{file} must hold tasks by their names. Unpack or download it again.")
    return values


def _task(name: str, told: Any, solutions: Any, challenges: Path, solved: Path) -> Task:
    try:
        shown, asked = [(pair["input"], pair["output"]) for pair in told["train"]], [pair["input"] for pair in told["test"]]
    except (KeyError, TypeError):
        raise DataError(f"{challenges}, task {name}: it must have pairs in `train` and inputs in `test`. Mend it.") from None
    if not isinstance(solutions, list) or len(solutions) != len(asked):
        found = len(solutions) if isinstance(solutions, list) else "none"
        raise DataError(f"{solved}, task {name}: there must be {len(asked)} solutions, but there are {found}. Add them.")
    if not shown or not asked:
        raise DataError(f"{challenges}, task {name}: it has no {'pairs' if not shown else 'test inputs'}. Mend it.")
    return Task(
        name,
        [_pair(given, answer, f"{challenges}, task {name}, pair {at}") for at, (given, answer) in enumerate(shown)],
        [
            (_grid(given, f"{challenges}, task {name}, test input {at}"), _grid(answer, f"{solved}, task {name}, solution {at}"))
            for at, (given, answer) in enumerate(zip(asked, solutions, strict=True))
        ],
    )


def _pair(given: Any, answer: Any, place: str) -> Pair:
    return _grid(given, f"{place}, input"), _grid(answer, f"{place}, output")


def _grid(rows: Any, place: str) -> Pixels:
    try:
        grid = np.array(rows)
    except ValueError:
        grid = np.empty(0)
    if grid.ndim != 2 or not grid.size or grid.dtype.kind != "i" or grid.min() < 0 or grid.max() >= COLOURS:
        raise DataError(f"{place}: a grid must be rows of equal length, of whole numbers from 0 to 9. Mend it.")
    if max(grid.shape) > LARGEST:
        size = "x".join(map(str, grid.shape))
        raise DataError(f"{place}: the grid is {size}, but at most {LARGEST}x{LARGEST} is known. Leave the task out.")
    return grid.astype(np.uint8)
