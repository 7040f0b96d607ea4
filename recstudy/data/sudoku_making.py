"""Makes `Sudoku`: full grids of chosen classes, whose cells are emptied in a random order while one solution remains. Synthetic.

The solver holds a set of cells as the bits of one integer (bit c is cell c, row by row), and counts the candidates of all cells
at once: a cell that two digits may take is in `twice`.

Shapes: N grids, M of them in order, S cells of a grid. Digits are counted from 0 here.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import permutations, product

import numpy as np

from recstudy.data.decoded import Decoded
from recstudy.data.images import Labels, Pixels
from recstudy.data.sudoku import BLANK, BOXES, DIGITS, Sudoku

DRAWING = 1  # part of the cache's digest: raise it with every change of what is drawn
TESTED = 0.2  # share of the classes that test, where there are few
Bits = int


def make_set(config: Sudoku) -> Decoded:
    """Puzzles and their solutions of both splits, which share no class."""
    random = np.random.default_rng([config.drawing_seed, config.side])
    grids, groups = (distinct if config.side == 9 else of_classes)(config, random)
    kept = np.array([thinned(grid, config, random) for grid in grids.tolist()])
    answers = (grids + DIGITS).astype(np.uint8)
    given = np.where(kept, answers, np.uint8(BLANK)).reshape(-1, *config.shape)
    cut = config.puzzles
    train_groups, test_groups = (groups[:cut], groups[cut:]) if config.side == 6 else (None, None)
    return Decoded(given[:cut], answers[:cut], given[cut:], answers[cut:], train_groups, test_groups)


def of_classes(config: Sudoku, random: np.random.Generator) -> tuple[Pixels, Labels]:
    """Grids (N, S), those that train first, and their classes: each grid of a split's classes is as likely as another.

    A class has as many grids in order as its share of all grids, and one of them turned at random is any of its own.
    """
    ordered, classes = in_classes(config.side)
    tests = random.permutation(classes.max() + 1) < max(1, round(TESTED * (classes.max() + 1)))
    parts = (~tests, config.puzzles), (tests, config.test_puzzles)
    rows = np.concatenate([random.choice(np.flatnonzero(own[classes]), count) for own, count in parts])
    return shuffled(ordered[rows], config, random), classes[rows]


def shuffled(grids: Pixels, config: Sudoku, random: np.random.Generator) -> Pixels:
    """Each grid (N, S) under a symmetry of its own."""
    import torch

    tokens = torch.from_numpy(grids + DIGITS)
    _, turned = config.turned(tokens, tokens, torch.from_numpy(random.random((len(grids), config.draws))))
    return np.asarray(turned.numpy() - DIGITS, np.uint8)


def distinct(config: Sudoku, random: np.random.Generator) -> tuple[Pixels, Labels]:
    """Grids (N, S), no two of one class, and their numbers."""
    found: dict[bytes, list[int]] = {}
    count = config.puzzles + config.test_puzzles
    blank = boards([-1] * config.cells, config.side)
    while missing := count - len(found):
        grids = np.array([digits(next(solutions(blank, config.side, random))) for _ in range(missing)], np.uint8)
        found |= {form.tobytes(): grid for form, grid in zip(canonical(grids), grids.tolist(), strict=True)}
    return np.array(list(found.values()), np.uint8), np.arange(count)


@cache
def in_classes(side: int) -> tuple[Pixels, Labels]:
    """All grids (M, S) that are in order, where there are two stacks, and the class of each."""
    tall, wide = BOXES[side]
    start = [*range(side), *range(wide, side)]  # the first row and the first box
    blank = [-1] * (side * side - len(start))
    found = np.array([digits(one) for one in solutions(boards([*start, *blank], side), side)], np.uint8)
    ordered = found[(in_order(found.reshape(-1, side, side), tall, wide) == found).all(1)]
    _, classes = np.unique(canonical(ordered), axis=0, return_inverse=True)
    return ordered, classes.reshape(-1).astype(np.int64)


def canonical(grids: Pixels) -> Pixels:
    """(N, S), the same for two grids if and only if they are of one class: the least that putting them in order can give.

    It begins with any band and order of its rows, any stack and order of its columns, and in square boxes rows may be columns.
    """
    side = round(grids.shape[1] ** 0.5)
    tall, wide = BOXES[side]
    rows_first = grids.reshape(-1, side, side)
    least = np.full_like(grids, side)
    for squares in [rows_first, rows_first.swapaxes(1, 2)][: 1 + (tall == wide)]:
        for rows, columns in product(_begins(side, tall), _begins(side, wide)):
            form = in_order(squares[:, rows][:, :, columns], tall, wide)
            at = np.arange(len(grids)), (form != least).argmax(1)
            least = np.where((form[at] < least[at])[:, None], form, least)
    return least


def _begins(side: int, size: int) -> list[list[int]]:
    """Every order of the lines of every block, the other blocks behind."""
    firsts = [own for start in range(0, side, size) for own in permutations(range(start, start + size))]
    return [[*own, *sorted({*range(side)} - {*own})] for own in firsts]


def in_order(squares: Pixels, tall: int, wide: int) -> Pixels:
    """(N, S) of (N, side, side): the first box reads 0, 1, ..., and the first column and row sort all other bands and stacks."""
    count, side = squares.shape[:2]
    names = squares[:, :tall, :wide].reshape(count, side).argsort(1).astype(np.uint8)
    named = np.take_along_axis(names, squares.reshape(count, -1), 1).reshape(squares.shape)
    rows, columns = _sorted(named[:, :, 0], tall), _sorted(named[:, 0], wide)
    return np.asarray(named[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None]].reshape(count, -1))


def _sorted(line: Pixels, size: int) -> Labels:
    """(N, side): blocks by their least digit, and lines within them by their own."""
    least = line.reshape(len(line), -1, size).min(2).repeat(size, 1).astype(np.int64)
    return np.asarray((line.shape[1] * least + line).argsort(1))


def thinned(grid: Sequence[int], config: Sudoku, random: np.random.Generator) -> list[bool]:
    """Which cells of a full grid stay given, for this solution alone."""
    free, kept = boards(grid, config.side), [True] * len(grid)
    for cell in random.permutation(len(grid)).tolist():
        if sum(kept) == config.givens:
            break
        emptied = [cells | 1 << cell for cells in free]
        other = emptied.copy()
        other[grid[cell]] ^= 1 << cell
        if next(solutions(other, config.side), None) is None:
            free, kept[cell] = emptied, False
    return kept


def boards(grid: Sequence[int], side: int) -> list[Bits]:
    """For each digit the cells that have it, and those that have none (-1)."""
    return [sum(1 << cell for cell, digit in enumerate(grid) if digit in (own, -1)) for own in range(side)]


def digits(solved: Sequence[Bits]) -> list[int]:
    """The digit of each cell."""
    by_cell = {cell: digit for digit, cells in enumerate(solved) for cell in bits(cells)}
    return [by_cell[1 << cell] for cell in range(len(by_cell))]


def bits(cells: Bits) -> Iterator[Bits]:
    """Each cell alone."""
    while cells:
        yield cells & -cells
        cells &= cells - 1


@cache
def apart(side: int) -> dict[Bits, Bits]:
    """For each cell those that may have its digit, itself among them."""
    (tall, wide), cells = BOXES[side], [divmod(cell, side) for cell in range(side * side)]
    found = {}
    for at, (row, column) in enumerate(cells):
        box = row // tall, column // wide
        sees = [row == y or column == x or box == (y // tall, x // wide) for y, x in cells]
        found[1 << at] = sum(1 << cell for cell, seen in enumerate(sees) if cell == at or not seen)
    return found


def solutions(
    free: list[Bits], side: int, random: np.random.Generator | None = None, fresh: Bits | None = None
) -> Iterator[list[Bits]]:
    """Every solution, as the cells of each digit.

    Args:
        free: for each digit the cells that may have it.
        random: tries digits in a random order.
        fresh: the cells whose digit may still stand in cells that they see; by default all.
    """
    every, far = (1 << side * side) - 1, apart(side)
    fresh = every if fresh is None else fresh
    while True:
        once = twice = thrice = 0
        for cells in free:
            thrice |= twice & cells
            twice |= once & cells
            once |= cells
        if once != every:
            return
        if not (sure := fresh & ~twice):
            break
        free = [_without_seen(cells, cells & sure, far) for cells in free]
        fresh ^= sure
    if not fresh:
        yield free
        return
    fewest = twice & ~thrice or fresh
    cell = fewest & -fewest
    for digit in range(side) if random is None else random.permutation(side).tolist():
        if free[digit] & cell:
            guess = [cells & ~cell for cells in free]
            guess[digit] |= cell
            yield from solutions(guess, side, random, fresh)


def _without_seen(cells: Bits, sure: Bits, far: dict[Bits, Bits]) -> Bits:
    """The cells of a digit that none of the sure ones sees; a plain loop, twice as fast as `bits`."""
    while sure:
        cells &= far[sure & -sure]
        sure &= sure - 1
    return cells
