"""Makes `Maze`: a random tree of rooms with openings, and two rooms with one shortest path between them. Synthetic.

Cells are numbered row by row.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from recstudy.data.decoded import Decoded
from recstudy.data.images import Pixels
from recstudy.data.maze import GOAL, PATH, SPACE, START, WALL, Maze
from recstudy.errors import DataError

DRAWING = 1  # part of the cache's digest: raise it with every change of what is drawn
TRIES = 1000  # mazes in a row that are of no use


class Way(NamedTuple):
    """How a cell is reached from the start."""

    steps: int
    before: int  # the cell before it
    only: bool  # there is no other way as short


def make_set(config: Maze) -> Decoded:
    """Mazes and their paths of both splits.

    Raises:
        DataError: there are not as many mazes, or hardly.
    """
    random = np.random.default_rng([config.drawing_seed, config.side])
    found: dict[bytes, tuple[Pixels, Pixels]] = {}
    tries = 0
    while len(found) < config.puzzles + config.test_puzzles:
        tries += 1
        free = carved(config, random)
        walls = canonical(free, config.side)
        if walls not in found and (ends := path(free, config, random)):
            found[walls], tries = pictures(free, ends, config.side), 0
        if tries == TRIES:
            raise DataError(
                f"{config.title} has too few mazes: after {len(found):,}, {TRIES:,} in a row were known or had no single "
                "shortest path of least_steps. Lower puzzles, test_puzzles, least_steps or openings, or raise side."
            )
    given, answers = (np.stack(part) for part in zip(*found.values(), strict=True))
    images, cut = given.reshape(-1, *config.shape), config.puzzles
    return Decoded(images[:cut], answers[:cut], images[cut:], answers[cut:])


def carved(config: Maze, random: np.random.Generator) -> set[int]:
    """The cells that are no walls: walls go in a random order where they keep two parts apart, and some that do not (Kruskal)."""
    walls = between(config.side)
    open_anyway = (random.random(len(walls)) < config.openings).tolist()
    part = list(range(config.side**2))
    free = {room for first, _, second in walls for room in (first, second)}
    for at in random.permutation(len(walls)).tolist():
        first, wall, second = walls[at]
        one, other = _root(part, first), _root(part, second)
        if one != other or open_anyway[at]:
            part[one] = other
            free.add(wall)
    return free


def _root(part: list[int], cell: int) -> int:
    while part[cell] != cell:
        part[cell] = cell = part[part[cell]]
    return cell


@cache
def between(side: int) -> list[tuple[int, int, int]]:
    """Each two neighbouring rooms, with the wall between them in the middle."""
    cells = np.arange(side**2).reshape(side, side)
    pairs = [(lines[::2, :-1:2], lines[::2, 1::2], lines[::2, 2::2]) for lines in (cells, cells.T)]
    return [triple for three in pairs for triple in zip(*(part.flatten().tolist() for part in three), strict=True)]


def canonical(free: set[int], side: int) -> bytes:
    """The same for two mazes if and only if a symmetry makes their walls the same."""
    square = np.isin(np.arange(side**2), list(free)).reshape(side, side)
    return min(np.rot90(one, turns).tobytes() for one in (square, square.T) for turns in range(4))


def path(free: set[int], config: Maze, random: np.random.Generator) -> list[int]:
    """The one shortest path from a room drawn to another; empty where no room has one of `least_steps`."""
    rooms = 2 * random.integers((config.side + 1) // 2, size=2)
    ways = reached(free, config.side, int(rooms @ [config.side, 1]))
    goals = [cell for cell, way in ways.items() if way.only and way.steps >= config.least_steps and is_room(cell, config.side)]
    if not goals:
        return []
    cells = [goals[random.integers(len(goals))]]
    while ways[cells[-1]].steps:
        cells.append(ways[cells[-1]].before)
    return cells[::-1]


def is_room(cell: int, side: int) -> bool:
    row, column = divmod(cell, side)
    return row % 2 == column % 2 == 0


def reached(free: set[int], side: int, start: int) -> Mapping[int, Way]:
    """The shortest ways to all cells, nearest first."""
    ways, queue = {start: Way(0, start, True)}, [start]
    for here in queue:
        steps, _, only = ways[here]
        for cell in beside(side)[here]:
            if cell not in free:
                continue
            if cell not in ways:
                ways[cell] = Way(steps + 1, here, only)
                queue.append(cell)
            elif ways[cell].steps == steps + 1:
                ways[cell] = ways[cell]._replace(only=False)
    return ways


@cache
def beside(side: int) -> list[list[int]]:
    """The neighbours of each cell."""
    steps = ((-1, 0), (1, 0), (0, -1), (0, 1))
    places = [divmod(cell, side) for cell in range(side**2)]
    return [
        [(row + down) * side + column + right for down, right in steps if 0 <= row + down < side and 0 <= column + right < side]
        for row, column in places
    ]


def pictures(free: set[int], cells: Sequence[int], side: int) -> tuple[Pixels, Pixels]:
    """A maze and its answer, tokens (S,)."""
    given = np.full(side**2, WALL, np.uint8)
    given[list(free)] = SPACE
    given[cells[0]], given[cells[-1]] = START, GOAL
    answer = given.copy()
    answer[list(cells[1:-1])] = PATH
    return given, answer
