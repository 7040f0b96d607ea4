"""Generated Sudokus. Few cells of a grid are given, and all cells are scored.

Generation starts with full grids and empties their cells in random order as long as the solution stays
unique. The solver represents a set of cells as the bits of one integer (bit c is cell c, row by row), so it
counts the candidates of all cells at once.

Shapes: N grids, M grids in standard order, S cells of a grid. During generation, digits are numbered from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice, permutations, product
from typing import Literal, Self

from pydantic import Field, model_validator

from recstudy.recursive.config.parts import DATASETS
from recstudy.recursive.config.reader import Array, Arrays, Labels, Pixels, Tensor, np, torch
from recstudy.recursive.data.puzzles import GeneratedPuzzles, Puzzles

BOXES = {4: (2, 2), 6: (2, 3), 9: (3, 3)}  # rows and columns of a box, by the side of the grid
BLANK = 1
DIGITS = 2  # digit d is token d + 1
TESTED = 0.2  # share of the classes in the test split, for 4x4 and 6x6
Bits = int


class Sudokus(Puzzles):
    """Base class of sets of Sudokus: tokens (PAD, blank, digits), rules and symmetries.

    The symmetries permute digits, bands, rows within bands, stacks and columns within stacks. If boxes are
    square, they also exchange rows and columns.
    """

    @property
    def classes(self) -> int:
        return DIGITS + self.shape[1]

    @property
    def class_names(self) -> tuple[str, ...]:
        return "PAD", "blank", *map(str, range(1, self.shape[1] + 1))

    @property
    def symbols(self) -> tuple[str, ...]:
        return " ", ".", *self.class_names[DIGITS:]

    @property
    def spelled(self) -> tuple[str, ...]:
        return ".0", *self.class_names[DIGITS:]

    @property
    def boxes(self) -> tuple[int, int]:
        return BOXES[self.shape[1]]

    @property
    def draws(self) -> int:
        return sum(self._parts)

    @property
    def _parts(self) -> list[int]:
        """The number of random numbers for each kind of symmetry."""
        side, (tall, wide) = self.shape[1], self.boxes
        return [side // tall, side, side // wide, side, side, 1]

    def symmetry(self, draws: Tensor) -> tuple[Tensor, Tensor]:
        side, (tall, wide) = self.shape[1], self.boxes
        bands, rows, stacks, columns, digits, transposition = draws.split(self._parts, 1)
        source = side * _order(bands, rows)[:, :, None] + _order(stacks, columns)[:, None]
        if tall == wide:
            source = torch.where(transposition[:, :, None] < 0.5, source.mT, source)
        unchanged_tokens = torch.arange(DIGITS, device=draws.device).expand(len(draws), -1)
        return source.flatten(1), torch.cat([unchanged_tokens, DIGITS + digits.argsort(1)], 1)

    def check_answers(self, inputs: Array, answers: Array) -> Labels:
        side, (tall, wide) = self.shape[1], self.boxes
        rows = answers.reshape(-1, side, side)
        boxes = rows.reshape(-1, side // tall, tall, side // wide, wide).swapaxes(2, 3).reshape(rows.shape)
        # Every row, column and box must have each digit once.
        units = np.sort(np.concatenate([rows, rows.swapaxes(1, 2), boxes], 1), 2)
        has_each_digit = (units == np.arange(DIGITS, DIGITS + side)).all((1, 2))
        return np.asarray(has_each_digit & ((inputs == BLANK) | (inputs == answers)).all(1), np.int64)

    def count_solutions(self, inputs: Array) -> int:
        side = self.shape[1]
        candidates = boards([max(token - DIGITS, -1) for token in inputs.tolist()], side)
        return len(list(islice(find_solutions(candidates, side), 2)))


def _order(blocks: Tensor, lines: Tensor) -> Tensor:
    """Permute whole blocks of rows or columns, and the lines within each block.

    Args:
        blocks: (B, blocks) random numbers that order the blocks.
        lines: (B, side) random numbers that order the lines within blocks.

    Returns:
        (B, side) source line of each line.
    """
    size = lines.shape[1] // blocks.shape[1]
    line_order = lines.unflatten(1, (-1, size)).argsort(2)
    return (size * blocks.argsort(1)[:, :, None] + line_order).flatten(1)


@DATASETS.add("sudoku")
class Sudoku(GeneratedPuzzles, Sudokus):
    """Synthetic Sudokus of 4x4, 6x6 or 9x9 cells, each with a unique solution.

    Two grids are in the same class if a symmetry maps one to the other. Augmentation shows all grids of a
    class, so no class is in both training and test. Of the 49 classes of 6x6, one in five is in the test
    split, and validation also holds out whole classes. No two 9x9 grids are in the same class.

    Do not draw conclusions from 4x4. Its 288 grids form two classes, one for training and one for test, so
    the validation puzzles are in the training class.
    """

    name: Literal["sudoku"] = "sudoku"
    side: Literal[4, 6, 9] = 6
    """cells; boxes are 2x2, 2 rows x 3 columns, 3x3"""
    givens: int | None = Field(None, ge=1)
    """minimum number of given cells; null empties cells in random order until no cell can be emptied without
    a second solution"""

    @model_validator(mode="after")
    def _something_is_asked(self) -> Self:
        if self.givens is not None and self.givens >= self.cells:
            raise ValueError(
                f"givens must be below {self.cells} on {self.side}x{self.side} cells, but is {self.givens}"
            )
        return self

    def generate(self) -> Arrays:
        """Generate the puzzles and solutions of both splits, which share no class."""
        random = np.random.default_rng([self.drawing_seed, self.side])
        grids, groups = (distinct if self.side == 9 else of_classes)(self, random)
        is_given = np.array([thinned(grid, self, random) for grid in grids.tolist()])
        answers = (grids + DIGITS).astype(np.uint8)
        inputs = np.where(is_given, answers, np.uint8(BLANK)).reshape(-1, *self.shape)
        return Arrays.cut(
            self.puzzles, images=inputs, labels=answers, groups=groups if self.side == 6 else None
        )


def of_classes(config: Sudoku, random: np.random.Generator) -> tuple[Pixels, Labels]:
    """Draw random full grids, and assign whole classes to the splits.

    Returns:
        The grids (N, S), with the training grids first, and the class of each grid (N,).
    """
    # All grids of a split's classes are equally likely: a class has as many grids in standard order as its
    # share of all grids, and a random symmetry of one of them is any grid of the class.
    ordered, classes = in_classes(config.side)
    tests = random.permutation(classes.max() + 1) < max(1, round(TESTED * (classes.max() + 1)))
    parts = (~tests, config.puzzles), (tests, config.test_puzzles)
    rows = np.concatenate(
        [random.choice(np.flatnonzero(is_class[classes]), count) for is_class, count in parts]
    )
    # Each grid gets a random symmetry of its own.
    tokens = torch.from_numpy(ordered[rows] + DIGITS)
    _, turned = config.apply_symmetry(
        tokens, tokens, torch.from_numpy(random.random((len(rows), config.draws)))
    )
    return np.asarray(turned.numpy() - DIGITS, np.uint8), classes[rows]


def distinct(config: Sudoku, random: np.random.Generator) -> tuple[Pixels, Labels]:
    """Draw random full grids (N, S), no two of them in the same class, and number them."""
    grids_by_form: dict[bytes, list[int]] = {}
    count = config.puzzles + config.test_puzzles
    blank = boards([-1] * config.cells, config.side)
    while missing_count := count - len(grids_by_form):
        grids = np.array(
            [digits(next(find_solutions(blank, config.side, random))) for _ in range(missing_count)], np.uint8
        )
        grids_by_form |= {
            form.tobytes(): grid for form, grid in zip(canonical(grids), grids.tolist(), strict=True)
        }
    return np.array(list(grids_by_form.values()), np.uint8), np.arange(count)


@cache
def in_classes(side: int) -> tuple[Pixels, Labels]:
    """Return all grids in standard order (M, S) and the class of each, for sides with two stacks."""
    tall, wide = BOXES[side]
    start = [*range(side), *range(wide, side)]  # fixes the first row and the first box
    blank = [-1] * (side * side - len(start))
    grids = np.array(
        [digits(solution) for solution in find_solutions(boards([*start, *blank], side), side)], np.uint8
    )
    ordered = grids[(in_order(grids.reshape(-1, side, side), tall, wide) == grids).all(1)]
    _, classes = np.unique(canonical(ordered), axis=0, return_inverse=True)
    return ordered, classes.reshape(-1).astype(np.int64)


def canonical(grids: Pixels) -> Pixels:
    """Return a canonical form (N, S), which is equal for two grids if and only if they are in the same class.

    It is the smallest of all standard orders of the grid. A standard order may begin with any band and any
    order of its rows, any stack and any order of its columns. If boxes are square, rows and columns may be
    exchanged.
    """
    side = round(grids.shape[1] ** 0.5)
    tall, wide = BOXES[side]
    rows_first = grids.reshape(-1, side, side)
    least_form = np.full_like(grids, side)
    for squares in [rows_first, rows_first.swapaxes(1, 2)][: 1 + (tall == wide)]:
        for rows, columns in product(leading_orders(side, tall), leading_orders(side, wide)):
            form = in_order(squares[:, rows][:, :, columns], tall, wide)
            first_difference = np.arange(len(grids)), (form != least_form).argmax(1)
            least_form = np.where(
                (form[first_difference] < least_form[first_difference])[:, None], form, least_form
            )
    return least_form


def leading_orders(side: int, size: int) -> list[list[int]]:
    """Return all orders of lines that begin with the lines of one block, in any order."""
    blocks = [range(start, start + size) for start in range(0, side, size)]
    return [[*first, *sorted({*range(side)} - {*first})] for block in blocks for first in permutations(block)]


def in_order(squares: Pixels, tall: int, wide: int) -> Pixels:
    """Put grids (N, side, side) into standard order (N, S).

    Digits are renamed so that the first box reads 0, 1, 2 and so on. Then rows are sorted by the first
    column, and columns by the first row.
    """
    count, side = squares.shape[:2]
    names = squares[:, :tall, :wide].reshape(count, side).argsort(1).astype(np.uint8)
    renamed = np.take_along_axis(names, squares.reshape(count, -1), 1).reshape(squares.shape)
    rows, columns = _sorted(renamed[:, :, 0], tall), _sorted(renamed[:, 0], wide)
    return renamed[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None]].reshape(count, -1)


def _sorted(line: Pixels, size: int) -> Labels:
    """Return the sorting order of lines (N, side): blocks by smallest digit, lines within them by digit."""
    block_minimum = line.reshape(len(line), -1, size).min(2).repeat(size, 1).astype(np.int64)
    return (line.shape[1] * block_minimum + line).argsort(1)


def thinned(grid: Sequence[int], config: Sudoku, random: np.random.Generator) -> list[bool]:
    """Empty cells of a full grid in random order while its solution stays unique.

    Returns:
        Whether each cell stays given.
    """
    candidates, is_given = boards(grid, config.side), [True] * len(grid)
    for cell in random.permutation(len(grid)).tolist():
        if sum(is_given) == config.givens:
            break
        # The cell can be emptied if no solution has another digit there.
        emptied = [cells | 1 << cell for cells in candidates]
        alternative = emptied.copy()
        alternative[grid[cell]] ^= 1 << cell
        if next(find_solutions(alternative, config.side), None) is None:
            candidates, is_given[cell] = emptied, False
    return is_given


def boards(grid: Sequence[int], side: int) -> list[Bits]:
    """Return for each digit the cells that may have it: those with this digit, and the empty ones (-1)."""
    cells_by_digit = [0] * side
    for cell, digit in enumerate(grid):
        for candidate in range(side) if digit == -1 else [digit]:
            cells_by_digit[candidate] |= 1 << cell
    return cells_by_digit


def digits(solved: Sequence[Bits]) -> list[int]:
    """Return the digit of each cell of a solution."""
    grid = [0] * sum(solved).bit_length()
    for digit, board in enumerate(solved):
        for cell in range(len(grid)):
            if board >> cell & 1:
                grid[cell] = digit
    return grid


@cache
def cells_unseen(side: int) -> dict[Bits, Bits]:
    """Return for each cell the cells that may have the same digit, including itself."""
    tall, wide = BOXES[side]
    row, column = np.divmod(np.arange(side * side), side)
    units = np.stack([row, column, row // tall * side + column // wide])
    is_free = ~(units[:, :, None] == units[:, None]).any(0) | np.eye(side * side, dtype=bool)
    unseen_by_cell = {}
    for cell, cells in enumerate(is_free):
        unseen_by_cell[1 << cell] = sum(1 << unseen for unseen in np.flatnonzero(cells).tolist())
    return unseen_by_cell


def find_solutions(
    candidates: list[Bits], side: int, random: np.random.Generator | None = None, fresh: Bits | None = None
) -> Iterator[list[Bits]]:
    """Yield every solution, as the cells of each digit.

    Args:
        candidates: For each digit, the cells that may have it.
        side: Side of the grid.
        random: If given, digits are tried in random order.
        fresh: Cells whose digit is not yet removed from the cells in their row, column and box; by default
            all cells.
    """
    every, far = (1 << side * side) - 1, cells_unseen(side)
    fresh = every if fresh is None else fresh
    while True:
        # Cells that at least one, two or three digits may take.
        one_digit = two_digits = three_digits = 0
        for cells in candidates:
            three_digits |= two_digits & cells
            two_digits |= one_digit & cells
            one_digit |= cells
        # A cell without candidates means that there is no solution.
        if one_digit != every:
            return
        # Cells with a single candidate get it, and it is removed from the cells that they see.
        if not (sure := fresh & ~two_digits):
            break
        narrowed = []
        for cells in candidates:
            placed_cells = cells & sure
            while placed_cells:  # one pass per set bit, from the lowest
                cells &= far[placed_cells & -placed_cells]
                placed_cells &= placed_cells - 1
            narrowed.append(cells)
        candidates = narrowed
        fresh ^= sure
    if not fresh:
        yield candidates
        return
    # Guess in a cell with exactly two candidates, if there is one.
    fewest = two_digits & ~three_digits or fresh
    cell = fewest & -fewest
    for digit in range(side) if random is None else random.permutation(side).tolist():
        if candidates[digit] & cell:
            guess = [cells & ~cell for cells in candidates]
            guess[digit] |= cell
            yield from find_solutions(guess, side, random, fresh)
