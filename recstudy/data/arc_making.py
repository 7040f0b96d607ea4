"""Makes `ArcAgi`: every pair of grids on a canvas, under every augmentation of its task.

Grids are stored once, and laid out a chunk at a time into files that take no memory.

Shapes: T tasks, E pairs, N of them under augmentations, B of these at a time, S cells of a canvas (Y rows, X columns).
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from recstudy.data.arc_agi import ArcAgi
from recstudy.data.arc_tasks import COLOURS, Task, read_tasks
from recstudy.data.cache_folder import IMAGES
from recstudy.data.decoded import Decoded
from recstudy.data.images import Labels, Mask, Pixels
from recstudy.data.puzzles import numbers
from recstudy.errors import DataError
from recstudy.files import cache_folder, caching
from recstudy.metrics.arc import COLOUR, TURNS, Augmented

PAD, EOS = range(2)
CHUNK = 2048
TRIES = 5  # draws for each augmentation that is wanted, of which the same ones count once


class Rows(NamedTuple):
    """Which pairs a split has under which augmentations: all as they are, then all under the first of their task, and so on."""

    pairs: Labels  # (N,)
    tasks: Labels  # (N,)
    ids: Labels  # (N,) of the puzzle: a task under one augmentation; 0 is nobody's


class Pairs(NamedTuple):
    """All pairs of all tasks."""

    grids: Pixels  # (E, 2, Y, X) colours, in the corner
    sizes: Labels  # (E, 2, 2) rows and columns
    tasks: Labels  # (E,)
    places: Labels  # (E,) which of its task's pairs
    asked: Mask  # (E,) test pairs


def make_set(folder: Path, config: ArcAgi) -> Decoded:
    """Both splits.

    Raises:
        DataError: a file is damaged, or no task is small enough.
    """
    sets = {name: small_tasks(folder, name, config.side) for name in config.training_sets}
    tasks = [task for own in sets.values() for task in own]
    evaluated = np.array([name == config.test_set for name, own in sets.items() for _ in own])
    pairs = in_corner(tasks, config.side)
    drawn = [augmentations(task, config) for task in tasks]
    puzzles = [one for own in drawn for one in own]
    tested = pairs.asked & evaluated[pairs.tasks]
    train, test = (rows_of(pairs, chosen, [len(own) for own in drawn]) for chosen in (~tested, tested))
    later = pairs.asked[train.pairs], pairs.asked[test.pairs]
    images, labels = laid_out(pairs, train, puzzles, moved(pairs, train, puzzles, config))
    test_images, test_labels = laid_out(pairs, test, puzzles, np.zeros((len(test.ids), 2), np.int64))
    return Decoded(
        images,
        labels,
        test_images,
        test_labels,
        train_groups=train.tasks + len(tasks) * later[0],  # a task's test pairs are a group of their own
        test_groups=test.tasks + len(tasks) * later[1],
        train_puzzles=train.ids + len(puzzles) * later[0],
        test_puzzles=test.ids + len(puzzles) * later[1],
        train_ids=train.ids,
        test_ids=test.ids,
        train_held=later[0],
        identifiers=["<blank>", *(one.name for one in puzzles)],
        notes=(
            f"Of {len(tasks):,} tasks {evaluated.sum():,} are for evaluation: their demonstration pairs train, as in HRM's "
            "protocol, and their test pairs never do.",
            f"{tested.sum():,} test inputs are answered under every augmentation of their task, "
            f"{len(test.ids):,} times in all. pass@1 and pass@2 count tasks; exact accuracy counts answers.",
        ),
    )


def small_tasks(folder: Path, name: str, side: int) -> list[Task]:
    """Those of a set that fit the canvas."""
    tasks = [task for task in read_tasks(folder, name) if task.side <= side]
    if not tasks:
        raise DataError(
            f"{folder}/arc-agi_{name}_challenges.json has no task whose grids are at most {side}x{side}. Raise data.side."
        )
    return tasks


def augmentations(task: Task, config: ArcAgi) -> list[Augmented]:
    """The task as it is, then as many others as are asked for and were found, the same for whatever else is read.

    Two are the same where they turn alike and exchange the colours that the task has alike.
    """
    random = np.random.default_rng([config.drawing_seed, crc32(task.name.encode())])
    has = sorted({colour for grid in task.grids for colour in np.unique(grid).tolist()})
    found: dict[Any, Augmented] = {}
    for _ in range(TRIES * config.augmentations + 1):
        turn = int(random.integers(len(TURNS))) if found else 0
        colours = (0, *(1 + random.permutation(COLOURS - 1)).tolist()) if found else tuple(range(COLOURS))
        found.setdefault((turn, *(colours[own] for own in has)), Augmented(task.name, turn, colours))
        if len(found) > config.augmentations:
            break
    return list(found.values())


def in_corner(tasks: Sequence[Task], side: int) -> Pairs:
    """All pairs, task by task, shown before asked."""
    members = [(at, place, pair) for at, task in enumerate(tasks) for place, pair in enumerate((*task.shown, *task.asked))]
    grids = np.zeros((len(members), 2, side, side), np.uint8)
    for row, (_, _, pair) in enumerate(members):
        for which, grid in enumerate(pair):
            grids[row, which, : grid.shape[0], : grid.shape[1]] = grid
    sizes = np.array([[grid.shape for grid in pair] for _, _, pair in members])
    of, places = np.array([(at, place) for at, place, _ in members]).T
    return Pairs(grids, sizes, of, places, places >= np.array([len(task.shown) for task in tasks])[of])


def rows_of(pairs: Pairs, chosen: Mask, counts: Sequence[int]) -> Rows:
    """The chosen pairs (E,) under each of their task's augmentations, of which there are `counts` (T,)."""
    first = np.cumsum([1, *counts])
    every = np.flatnonzero(chosen)
    times = np.array(counts)[pairs.tasks[every]]
    turns = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    every = np.repeat(every, times)
    order = np.lexsort((every, turns))
    tasks = pairs.tasks[every[order]]
    return Rows(every[order], tasks, first[tasks] + turns[order])


def moved(pairs: Pairs, rows: Rows, puzzles: Sequence[Augmented], config: ArcAgi) -> Labels:
    """(N, 2) how far down and to the right each pair goes, as far as there is room; one of each puzzle stays in the corner."""
    seed, ids, places = config.drawing_seed, rows.ids, pairs.places[rows.pairs]
    across = np.array([False, *(TURNS[one.turn][0] for one in puzzles)], bool)[ids, None]
    largest = pairs.sizes.max(1)[rows.pairs]
    room = config.side + 1 - np.where(across, largest[:, ::-1], largest)
    stays = (numbers(seed, ids, np.zeros_like(ids), 1)[:, 0] * np.bincount(ids)[ids]).astype(np.int64)
    steps = (numbers(seed, ids, 1 + places, 2) * room).astype(np.int64)
    return np.where((places == stays)[:, None], 0, steps)


def laid_out(pairs: Pairs, rows: Rows, puzzles: Sequence[Augmented], steps: Labels) -> tuple[Pixels, Pixels]:
    """Inputs (N, 1, Y, X) and answers (N, S), as maps of files that nobody else sees.

    Args:
        pairs: all of them.
        rows: which stand here.
        puzzles: by id, from 1 on.
        steps: (N, 2) how far each goes from the corner.
    """
    folder, count, side = cache_folder(), len(rows.ids), pairs.grids.shape[-1]
    with caching(IMAGES, folder):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as given, TemporaryFile(dir=folder) as answers:
            for start in range(0, count, CHUNK):
                own = slice(start, start + CHUNK)
                some, under = rows.pairs[own], [puzzles[one - 1] for one in rows.ids[own].tolist()]
                for which, file in enumerate((given, answers)):
                    file.write(canvas(pairs.grids[some, which], pairs.sizes[some, which], under, steps[own]).tobytes())
            given.flush()
            answers.flush()
            shapes = (count, 1, side, side), (count, side**2)
            return np.memmap(given, np.uint8, "r", shape=shapes[0]), np.memmap(answers, np.uint8, "r", shape=shapes[1])


def canvas(grids: Pixels, sizes: Labels, puzzles: Sequence[Augmented], steps: Labels) -> Pixels:
    """Tokens (B, Y, X): grids (B, Y, X) of these sizes (B, 2) under augmentations, so many steps (B, 2) from the corner."""
    across, mirrored, reversed_ = np.array([TURNS[one.turn] for one in puzzles], bool).T[:, :, None]
    tokens = COLOUR + np.array([one.colours for one in puzzles], np.uint8)
    height, width = np.where(across, sizes[:, ::-1], sizes).T[:, :, None]
    y, x = np.arange(grids.shape[1]) - steps.T[:, :, None]  # (B, Y) and (B, X), counted from the grid's corner
    within_y, within_x = (y >= 0) & (y < height), (x >= 0) & (x < width)
    inside = within_y[:, :, None] & within_x[:, None]
    edge = (y == height)[:, :, None] & within_x[:, None] | within_y[:, :, None] & (x == width)[:, None]
    y, x = np.where(mirrored, height - 1 - y, y)[:, :, None], np.where(reversed_, width - 1 - x, x)[:, None]
    rows, columns = np.where(across[..., None], x, y), np.where(across[..., None], y, x)
    puzzle = np.arange(len(grids))[:, None, None]
    found = tokens[puzzle, grids[puzzle, np.where(inside, rows, 0), np.where(inside, columns, 0)]]
    return np.where(inside, found, np.where(edge, np.uint8(EOS), np.uint8(PAD)))
