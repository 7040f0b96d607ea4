"""Generated mazes. A maze has walls, a start and a goal, and the answer marks the shortest path.

A maze is a random tree of rooms with some extra openings. Start and goal are two rooms with exactly one
shortest path between them. Cells are numbered row by row.
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from recstudy.base.errors import DataError
from recstudy.recursive.config.parts import DATASETS
from recstudy.recursive.config.reader import (
    Array,
    Arrays,
    Labels,
    Mask,
    Pixels,
    Tensor,
    np,
    torch,
)
from recstudy.recursive.data.puzzles import GeneratedPuzzles, Puzzles

WALL, SPACE, START, GOAL, PATH = range(1, 6)
TRIES = 1000  # failed attempts in a row before generation stops with an error


class Mazes(Puzzles):
    """Base class of sets of square mazes: tokens (PAD, `#`, space, `S`, `G`, `o`), rules and symmetries.

    A path moves up, down, left or right. All cells of the answer are scored, including walls. The symmetries
    are the eight of a square.
    """

    classes: ClassVar = 6
    class_names: ClassVar = ("PAD", "wall", "space", "start", "goal", "path")
    symbols: ClassVar = (" ", "#", " ", "S", "G", "o")
    spelled: ClassVar = tuple("# SGo")
    colours: ClassVar = ("#FFFFFF", "#3A424B", "#FFFFFF", "#009E73", "#D55E00", "#56B4E9")
    draws: ClassVar = 1

    def symmetry(self, draws: Tensor) -> tuple[Tensor, Tensor]:
        cells = torch.arange(self.cells, device=draws.device).view(self.shape[1:])
        eight = torch.stack(
            [square.rot90(turns).flatten() for square in (cells, cells.mT) for turns in range(4)]
        )
        unchanged_tokens = torch.arange(self.classes, device=draws.device).expand(len(draws), -1)
        return eight[(8 * draws[:, 0]).long()], unchanged_tokens

    def check_answers(self, inputs: Array, answers: Array) -> Labels:
        # An answer is right if it keeps the maze, and its marked cells form a path from start to goal that is
        # as short as the shortest path, without further marked cells.
        keeps_walls = (np.where(answers == PATH, SPACE, answers) == inputs).all(1)
        mazes, marked = (cells.reshape(-1, *self.shape[1:]) for cells in (inputs, answers == PATH))
        start, goal = mazes == START, mazes == GOAL
        shortest, marked_steps = _steps(mazes > WALL, start, goal), _steps(marked | start | goal, start, goal)
        return np.asarray(
            keeps_walls & (marked_steps == shortest) & (marked.sum((1, 2)) == shortest - 1), np.int64
        )


def _steps(is_free: Mask, start: Mask, goal: Mask) -> Labels:
    """Return the number of steps from start to goal over free cells, 0 if there is no path.

    Args:
        is_free: (N, rows, columns).
        start: (N, rows, columns).
        goal: (N, rows, columns).

    Returns:
        (N,)
    """
    # Breadth-first search of all mazes at once: each pass adds the free neighbours of all reached cells.
    steps, reached, previous_count = np.zeros(len(is_free), np.int64), start, 0
    while previous_count < (count := int(reached.sum())):
        steps += ~(reached & goal).any((1, 2))
        around = np.pad(reached, ((0, 0), (1, 1), (1, 1)))
        spread = around[:, 2:, 1:-1] | around[:, :-2, 1:-1] | around[:, 1:-1, 2:] | around[:, 1:-1, :-2]
        reached, previous_count = reached | is_free & spread, count
    return np.where((reached & goal).any((1, 2)), steps, 0)


@DATASETS.add("maze")
class Maze(GeneratedPuzzles, Mazes):
    """Synthetic square mazes, each with exactly one shortest path.

    Rooms are at every other cell, so the side is odd. The edge is a wall. A random tree connects all rooms,
    and `openings` adds detours. No two mazes have the same walls, not even under a symmetry, so training,
    validation and test share no maze.
    """

    name: Literal["maze"] = "maze"
    side: int = Field(9, ge=5, le=61)
    """cells, odd: rooms and the walls between them"""
    openings: float = Field(0.2, ge=0, le=0.5)
    """share of open walls among those that do not connect the tree of rooms"""
    least_steps: int = Field(12, ge=2)
    """minimum length of the path from start to goal, in cells"""

    @model_validator(mode="after")
    def _paths_fit(self) -> Self:
        if not self.side % 2:
            raise ValueError(f"side must be odd, but is {self.side}")
        max_steps = 2 * (self.side - 1)  # from corner to corner without a detour
        if self.least_steps > max_steps:
            raise ValueError(
                f"least_steps must be at most {max_steps} on {self.side}x{self.side} cells, but is"
                f" {self.least_steps}"
            )
        return self

    def generate(self) -> Arrays:
        """Generate the mazes and paths of both splits.

        Raises:
            DataError: If too few different mazes are found.
        """
        random = np.random.default_rng([self.drawing_seed, self.side])
        mazes: dict[bytes, tuple[Pixels, Pixels]] = {}
        tries = 0
        while len(mazes) < self.puzzles + self.test_puzzles:
            tries += 1
            free_cells = carved(self, random)
            walls = canonical(free_cells, self.side)
            if walls not in mazes and (way := path(free_cells, self, random)):
                inputs = np.full(self.cells, WALL, np.uint8)
                inputs[list(free_cells)] = SPACE
                inputs[way[0]], inputs[way[-1]] = START, GOAL
                answer = inputs.copy()
                answer[way[1:-1]] = PATH
                mazes[walls], tries = (inputs, answer), 0
            if tries == TRIES:
                raise DataError(
                    f"{self.title} has too few mazes: after {len(mazes):,} mazes, {TRIES:,} in a row were"
                    " duplicates or had no single shortest path of at least least_steps. Lower puzzles,"
                    " test_puzzles, least_steps or openings, or raise side."
                )
        inputs, answers = (np.stack(part) for part in zip(*mazes.values(), strict=True))
        return Arrays.cut(self.puzzles, images=inputs.reshape(-1, *self.shape), labels=answers)


def carved(config: Maze, random: np.random.Generator) -> set[int]:
    """Generate the walls of a maze.

    Returns:
        The cells that are not walls.
    """
    # Kruskal's algorithm: walls in random order are removed if they separate two parts of the maze. A share
    # `openings` of the walls is removed in any case.
    from scipy.cluster.hierarchy import DisjointSet

    walls = between(config.side)
    open_anyway = (random.random(len(walls)) < config.openings).tolist()
    free_cells = {room for first, _, second in walls for room in (first, second)}
    parts = DisjointSet(free_cells)
    for index in random.permutation(len(walls)).tolist():
        first, wall, second = walls[index]
        if parts.merge(first, second) or open_anyway[index]:
            free_cells.add(wall)
    return free_cells


@cache
def between(side: int) -> list[list[int]]:
    """Return room, wall and room for each pair of neighbouring rooms."""
    cells = np.arange(side**2).reshape(side, side)
    triples: list[list[int]] = []
    for lines in (cells, cells.T):  # rows, then columns
        rooms, walls, next_rooms = lines[::2, :-1:2], lines[::2, 1::2], lines[::2, 2::2]
        triples += np.stack([rooms, walls, next_rooms], -1).reshape(-1, 3).tolist()
    return triples


def canonical(free_cells: set[int], side: int) -> bytes:
    """Return bytes that are equal for two mazes if and only if a symmetry makes their walls equal."""
    square = np.isin(np.arange(side**2), list(free_cells)).reshape(side, side)
    return min(
        np.rot90(orientation, turns).tobytes() for orientation in (square, square.T) for turns in range(4)
    )


def path(free_cells: set[int], config: Maze, random: np.random.Generator) -> list[int]:
    """Choose a random start and goal with a unique shortest path, and return that path.

    The path is empty if no room has a unique shortest path of at least `least_steps` from the start.
    """
    # Breadth-first search from the start, with the predecessor of each cell.
    side = config.side
    start = int(2 * random.integers((side + 1) // 2, size=2) @ [side, 1])
    steps, predecessors, queue = {start: 0}, {start: start}, [start]
    ambiguous: set[int] = set()  # cells with several shortest paths
    for current in queue:
        for cell in neighbours(side)[current]:
            if cell in free_cells and cell not in steps:
                steps[cell], predecessors[cell] = steps[current] + 1, current
                queue.append(cell)
                if current in ambiguous:
                    ambiguous.add(cell)
            elif cell in free_cells and steps[cell] == steps[current] + 1:
                ambiguous.add(cell)
    rooms = [cell for cell in queue if cell // side % 2 == cell % side % 2 == 0]
    goals = [cell for cell in rooms if cell not in ambiguous and steps[cell] >= config.least_steps]
    if not goals:
        return []
    way_back = [goals[random.integers(len(goals))]]
    while way_back[-1] != start:
        way_back.append(predecessors[way_back[-1]])
    return way_back[::-1]


@cache
def neighbours(side: int) -> list[list[int]]:
    """Return the neighbours of each cell: above, below, left and right."""
    padded = np.pad(np.arange(side**2).reshape(side, side), 1, constant_values=-1)
    sides = [padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]]
    neighbours_of_cells = np.stack(sides, -1).reshape(-1, 4)
    return [cells[cells >= 0].tolist() for cells in neighbours_of_cells]
