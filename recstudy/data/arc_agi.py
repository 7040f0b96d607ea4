"""ARC-AGI: tasks of a few pairs of coloured grids each, whose rule is to be found and applied to a test
input.

    arc-agi_SET_challenges.json    {TASK: {"train": [{"input": GRID, "output": GRID}, ...], "test": [{"input": GRID}, ...]}}
    arc-agi_SET_solutions.json     {TASK: [GRID, ...]}, the outputs of its test inputs

as Kaggle lays them out; a grid is a list of rows of colours. Every pair of grids is put on a canvas, under
every augmentation of its task. Grids are stored once, and laid out a chunk at a time into files that take no
memory.

Shapes: T tasks, E pairs, N of them under augmentations, B of these at a time, S cells of a canvas (Y rows, X
columns).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple
from zlib import crc32

from pydantic import Field

from recstudy.config import DATASETS, Shape
from recstudy.data.cache import IMAGES
from recstudy.data.puzzles import Puzzles, numbers
from recstudy.data.reader import Arrays, Reader, np
from recstudy.data.splits import utf8
from recstudy.errors import DataError, choices
from recstudy.files import cache_folder, caching
from recstudy.metrics.arc import ATTEMPTS, COLOUR, TURNS, Augmented, ballots, pass_at, submission
from recstudy.records.schema import REPEATED

if TYPE_CHECKING:
    from recstudy.data.reader import Labels, Mask, Pixels
    from recstudy.metrics.answers import Answers, Floats

    Pair = tuple[Pixels, Pixels]  # a grid and what the rule makes of it, (H, W) colours each

LARGEST, COLOURS = 30, 10
PAD, EOS = range(2)
CHUNK = 2048
TRIES = 5  # draws for each augmentation that is wanted, of which the same ones count once
# Examples that train, by version and largest side: of all tasks, and of those with grids up to 10x10.
EXAMPLES = {(1, LARGEST): 3081, (2, LARGEST): 4666, (1, 10): 1067}
CONCEPT = 907  # those of ConceptARC
EVALUATED = {1: 400, 2: 120}  # evaluation tasks, by version
SETS = {1: ("training", "evaluation"), 2: ("training2", "evaluation2")}


@DATASETS.add("arc_agi")
class ArcAgi(Puzzles):
    """The public tasks of ARC-AGI-1 (400 that train, 400 for evaluation) or ARC-AGI-2 (1,000 and 120), by the
    protocol of HRM.

    Demonstration pairs of all tasks train, those of the evaluation tasks too, and the test pairs of the
    training tasks; the test pairs of the evaluation tasks test. A grid stands on a canvas: colour c is token
    c + 2, EOS (1) goes along its lower and right edge, PAD (0) fills the rest and is not asked for. A puzzle
    is a task under one augmentation, and has an id: as it is, and under `augmentations` others, drawn once:
    one of eight turns, and colours 1 to 9 exchanged. In training all pairs of a puzzle but one are moved on
    the canvas as well. Test pairs are answered under every augmentation, which votes (`metrics.arc`).

    An epoch shows each task's demonstration pairs under one augmentation, and its test pairs under one.
    Validation holds out the test pairs of the training tasks, under all of them. With `whole_tasks` both are
    shown under the same one, and validation holds out whole tasks. `model.identifiers` is at most 1 + tasks x
    (1 + augmentations). Of 1,000 on 30x30, the decoded set takes 6.3 GB of disk, and 12 while it is made.
    """

    classes: ClassVar[int] = 12
    class_names: ClassVar[tuple[str, ...]] = ("PAD", "EOS", *"0123456789")
    symbols: ClassVar[tuple[str, ...]] = (" ", "|", *"0123456789")
    colours: ClassVar[tuple[str, ...]] = (
        "#FFFFFF", "#E6EAEE", "#000000", "#0074D9", "#FF4136", "#2ECC40", "#FFDC00", "#AAAAAA", "#F012BE", "#FF851B", "#7FDBFF",
        "#870C25",
    )  # fmt: skip

    name: Literal["arc_agi"] = "arc_agi"
    version: Literal[1, 2] = 1
    side: int = Field(
        LARGEST,
        ge=2,
        le=LARGEST,
        description="of the canvas; less than 30 leaves out tasks with a larger grid",
    )
    augmentations: int = Field(1000, ge=0, le=10_000, description="of each task, fewer where it has no more")
    concept: bool = Field(
        False, description="train on the 160 tasks of ConceptARC too, as the code of HRM and TRM does"
    )
    whole_tasks: bool = Field(
        False,
        description=(
            "in training a task's test pairs are shown under the augmentation of its demonstration pairs, as"
            " in the authors' code; else under one of their own"
        ),
    )
    drawing_seed: int = Field(0, ge=0, description="draws the augmentations")
    path: str = Field(
        "arc_agi", description="the folder of arc-agi_*.json, as Kaggle has them, below the data folder"
    )

    @property
    def title(self) -> str:
        return f"ARC-AGI-{self.version}" + (
            f" (subset of grids up to {self.side}x{self.side})" if self.side < LARGEST else ""
        )

    @property
    def shape(self) -> Shape:
        return (1, self.side, self.side)

    @property
    def train_size(self) -> int | None:
        """Return the examples of an epoch, which shows one puzzle of each task."""
        if self.concept and self.side < LARGEST:
            return None
        examples = EXAMPLES.get((self.version, self.side))
        return examples and examples + CONCEPT * self.concept

    def set_names(self, folder: Path) -> tuple[str, ...]:
        """Return the names of the sets in `folder`: training, evaluation and, if asked for, ConceptARC."""
        names = SETS[self.version]
        if not (folder / f"arc-agi_{names[0]}_challenges.json").exists():
            names = SETS[1]  # Kaggle's folders of both competitions have the names of version 1
        return (*names, *(["concept"] if self.concept else []))

    def verdict(
        self, answers: Answers, halt: Floats, ids: Labels | None, names: Sequence[str] | None
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """Return pass@1, pass@2, and the attempts as Kaggle has them."""
        assert ids is not None and names is not None, "its reader gives both"  # noqa: PT018
        votes = ballots(answers, halt, ids, names)
        scores = {f"pass_at_{count}": pass_at(count, votes) for count in range(1, ATTEMPTS + 1)}
        return scores, {"submission.json": submission(votes)}

    def reader(self) -> ArcAgiReader:
        return ArcAgiReader(self)


class ArcAgiReader(Reader):
    """Reads challenges and solutions."""

    config: ArcAgi
    ignores = frozenset({"name", "rounds"})

    def sources(self, folder: Path) -> Sequence[str]:
        kinds, names = ("challenges", "solutions"), self.config.set_names(folder / self.config.path)
        return [f"{self.config.path}/arc-agi_{name}_{kind}.json" for name in names for kind in kinds]

    def decode(self, folder: Path) -> Arrays:
        return make_set(folder / self.config.path, self.config)

    def repeats(self, decoded: Arrays) -> tuple[str, ...]:
        """Return no more notes: `make_set` compares pairs before they are augmented."""
        return ()


class Pairs(NamedTuple):
    """The pairs of all tasks."""

    grids: Pixels  # (E, 2, Y, X) colours, in the corner
    sizes: Labels  # (E, 2, 2) rows and columns
    tasks: Labels  # (E,)
    places: Labels  # (E,) which of its task's pairs
    is_test: Mask  # (E,) test pairs


def make_set(folder: Path, config: ArcAgi) -> Arrays:
    """Make both splits.

    Raises:
        DataError: a file is damaged, or no task is small enough.
    """
    side, names = config.side, config.set_names(folder)
    tasks_by_set = {name: read_tasks(folder, name) for name in names}
    other_version = 3 - config.version
    if len(tasks_by_set[names[1]]) == EVALUATED[other_version]:
        raise DataError(
            f"{folder}/arc-agi_{names[1]}_challenges.json has {EVALUATED[other_version]} tasks, as"
            f" ARC-AGI-{other_version} has: set data.version={other_version}."
        )
    tasks: list[ArcTask] = []
    evaluated: list[bool] = []
    for name in names:
        small_tasks = [task for task in tasks_by_set[name] if task.side <= side]
        if not small_tasks:
            raise DataError(
                f"{folder}/arc-agi_{name}_challenges.json has no task whose grids are at most {side}x{side}."
                " Raise data.side."
            )
        tasks += small_tasks
        evaluated += [name == names[1]] * len(small_tasks)
    pairs = collect_pairs(tasks, side)
    puzzles_by_task = [augmentations(task, config) for task in tasks]
    puzzles = [puzzle for task_puzzles in puzzles_by_task for puzzle in task_puzzles]
    tested = pairs.is_test & np.array(evaluated)[pairs.tasks]
    columns: dict[str, Any] = {}
    for part, chosen in (("train", ~tested), ("test", tested)):
        rows, ids = augmented_rows(pairs, chosen, [len(task_puzzles) for task_puzzles in puzzles_by_task])
        steps = (
            draw_shifts(pairs, rows, ids, puzzles, config)
            if part == "train"
            else np.zeros((len(ids), 2), np.int64)
        )
        row_puzzles = [puzzles[puzzle_id - 1] for puzzle_id in ids.tolist()]
        columns[f"{part}_images"], columns[f"{part}_labels"] = write_canvases(pairs, rows, row_puzzles, steps)
        is_test = pairs.is_test[rows]
        # Test pairs are puzzles, and groups, of their own.
        is_apart = is_test & (not config.whole_tasks or part == "test")
        columns[f"{part}_groups"] = pairs.tasks[rows] + len(tasks) * is_apart
        columns[f"{part}_puzzles"] = ids + len(puzzles) * is_apart
        columns[f"{part}_ids"] = ids
        if part == "train" and not config.whole_tasks:
            columns["train_held"] = is_test
    return Arrays(
        **columns,
        identifiers=["<blank>", *(puzzle.name for puzzle in puzzles)],
        notes=(
            (
                f"Of {len(tasks):,} tasks {sum(evaluated):,} are for evaluation: their demonstration pairs"
                " train, as in HRM's protocol."
            ),
            _repeat_note(tasks, pairs, tested),
            (
                f"{tested.sum():,} test inputs are answered under every augmentation of their task,"
                f" {len(columns['test_ids']):,} times in all. pass@1 and pass@2 count tasks; exact accuracy"
                " counts answers."
            ),
        ),
    )


def _repeat_note(tasks: Sequence[ArcTask], pairs: Pairs, tested: Mask) -> str:
    """Return a note on test pairs of evaluation tasks that equal a training pair of another task, grid for
    grid.
    """
    contents = [
        (size.tobytes(), grids.tobytes()) for size, grids in zip(pairs.sizes, pairs.grids, strict=True)
    ]  # colours in the corner: equal grids have equal bytes
    names = [tasks[index].name for index in pairs.tasks.tolist()]  # of the task of each pair
    trained = {contents[row]: names[row] for row in np.flatnonzero(~tested).tolist()}
    test_rows = np.flatnonzero(tested).tolist()
    repeats = [f"{names[row]} = {trained[contents[row]]}" for row in test_rows if contents[row] in trained]
    if not repeats:
        return "None of their test pairs is an exact copy of a training pair."
    count = f"{len(repeats):,} of {len(test_rows):,}"
    return f"{REPEATED}{count} test pairs are training pairs of other tasks too ({choices(repeats, limit=5)})"


def augmentations(task: ArcTask, config: ArcAgi) -> list[Augmented]:
    """Return the task as it is, then as many others as are asked for and were found, the same for whatever
    else is read.

    Two are the same where they turn alike and exchange the colours that the task has alike.
    """
    random = np.random.default_rng([config.drawing_seed, crc32(task.name.encode())])
    has = sorted({colour for grid in task.grids for colour in np.unique(grid).tolist()})
    puzzles_by_key: dict[Any, Augmented] = {}
    for _ in range(TRIES * config.augmentations + 1):
        turn = int(random.integers(len(TURNS))) if puzzles_by_key else 0
        colours = (
            (0, *(1 + random.permutation(COLOURS - 1)).tolist()) if puzzles_by_key else tuple(range(COLOURS))
        )
        puzzles_by_key.setdefault(
            (turn, *(colours[colour] for colour in has)), Augmented(task.name, turn, colours)
        )
        if len(puzzles_by_key) > config.augmentations:
            break
    return list(puzzles_by_key.values())


def collect_pairs(tasks: Sequence[ArcTask], side: int) -> Pairs:
    """Return all pairs, task by task, shown before asked."""
    members = [
        (task_number, pair_number, pair)
        for task_number, task in enumerate(tasks)
        for pair_number, pair in enumerate((*task.demonstrations, *task.test_pairs))
    ]
    grids = np.zeros((len(members), 2, side, side), np.uint8)
    for row, (_, _, pair) in enumerate(members):
        for side_of_pair, grid in enumerate(pair):
            grids[row, side_of_pair, : grid.shape[0], : grid.shape[1]] = grid
    sizes = np.array([[grid.shape for grid in pair] for _, _, pair in members])
    task_numbers, pair_numbers = np.array([member[:2] for member in members]).T
    return Pairs(
        grids,
        sizes,
        task_numbers,
        pair_numbers,
        pair_numbers >= np.array([len(task.demonstrations) for task in tasks])[task_numbers],
    )


def augmented_rows(pairs: Pairs, chosen: Mask, counts: Sequence[int]) -> tuple[Labels, Labels]:
    """Lay the chosen pairs (E,) under each of their task's augmentations, of which there are `counts` (T,).

    Returns:
        Rows of the pairs (N,): all as they are, then all under the first augmentation of their task, and so
            on; and the ids
        (N,) of their puzzles. A puzzle is a task under one augmentation; 0 is nobody's.
    """
    first = np.cumsum([1, *counts])
    rows = np.flatnonzero(chosen)
    times = np.array(counts)[pairs.tasks[rows]]
    turns = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    rows = np.repeat(rows, times)
    order = np.lexsort((rows, turns))
    rows = rows[order]
    return rows, first[pairs.tasks[rows]] + turns[order]


def draw_shifts(
    pairs: Pairs, rows: Labels, ids: Labels, puzzles: Sequence[Augmented], config: ArcAgi
) -> Labels:
    """Return (N, 2) how far down and to the right each pair goes, where there is room; one of each puzzle
    stays in the corner.
    """
    seed, places = config.drawing_seed, pairs.places[rows]
    is_across = np.array([False, *(TURNS[puzzle.turn][0] for puzzle in puzzles)], bool)[ids, None]
    largest = pairs.sizes.max(1)[rows]
    room = config.side + 1 - np.where(is_across, largest[:, ::-1], largest)
    stays = (numbers(seed, ids, np.zeros_like(ids), 1)[:, 0] * np.bincount(ids)[ids]).astype(np.int64)
    steps = (numbers(seed, ids, 1 + places, 2) * room).astype(np.int64)
    return np.where((places == stays)[:, None], 0, steps)


def write_canvases(
    pairs: Pairs, rows: Labels, puzzles: Sequence[Augmented], steps: Labels
) -> tuple[Pixels, Pixels]:
    """Lay out inputs (N, 1, Y, X) and answers (N, S), as maps of files that nobody else sees.

    Args:
        pairs: all of them.
        rows: (N,) which stand here.
        puzzles: the puzzle of each of the N.
        steps: (N, 2) how far each goes from the corner.
    """
    folder, count, side = cache_folder(), len(rows), pairs.grids.shape[-1]
    with caching(IMAGES, folder):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as input_file, TemporaryFile(dir=folder) as answer_file:
            for start in range(0, count, CHUNK):
                chunk = slice(start, start + CHUNK)
                for side_of_pair, file in enumerate((input_file, answer_file)):
                    grids, sizes = (
                        pairs.grids[rows[chunk], side_of_pair],
                        pairs.sizes[rows[chunk], side_of_pair],
                    )
                    file.write(canvas(grids, sizes, puzzles[chunk], steps[chunk]).tobytes())
            input_file.flush()
            answer_file.flush()
            images = np.memmap(input_file, np.uint8, "r", shape=(count, 1, side, side))
            return images, np.memmap(answer_file, np.uint8, "r", shape=(count, side**2))


def canvas(grids: Pixels, sizes: Labels, puzzles: Sequence[Augmented], steps: Labels) -> Pixels:
    """Lay grids (B, Y, X) of sizes (B, 2) on a canvas of tokens (B, Y, X), augmented, so many steps (B, 2)
    from the corner.
    """
    is_transposed, is_upside_down, is_mirrored = np.array([TURNS[puzzle.turn] for puzzle in puzzles], bool).T[
        :, :, None
    ]
    tokens = COLOUR + np.array([puzzle.colours for puzzle in puzzles], np.uint8)
    height, width = np.where(is_transposed, sizes[:, ::-1], sizes).T[:, :, None]
    # (B, Y) and (B, X), counted from the grid's corner
    y, x = np.arange(grids.shape[1]) - steps.T[:, :, None]
    within_y, within_x = (y >= 0) & (y < height), (x >= 0) & (x < width)
    inside = within_y[:, :, None] & within_x[:, None]
    edge = (y == height)[:, :, None] & within_x[:, None] | within_y[:, :, None] & (x == width)[:, None]
    y, x = (
        np.where(is_upside_down, height - 1 - y, y)[:, :, None],
        np.where(is_mirrored, width - 1 - x, x)[:, None],
    )
    rows, columns = np.where(is_transposed[..., None], x, y), np.where(is_transposed[..., None], y, x)
    puzzle_rows = np.arange(len(grids))[:, None, None]
    grid_tokens = tokens[
        puzzle_rows, grids[puzzle_rows, np.where(inside, rows, 0), np.where(inside, columns, 0)]
    ]
    return np.where(inside, grid_tokens, np.where(edge, np.uint8(EOS), np.uint8(PAD)))


class ArcTask(NamedTuple):
    """A rule, by pairs that show it and pairs that ask for it."""

    name: str
    demonstrations: list[Pair]
    test_pairs: list[Pair]

    @property
    def grids(self) -> list[Pixels]:
        return [grid for pair in (*self.demonstrations, *self.test_pairs) for grid in pair]

    @property
    def side(self) -> int:
        """The longest of all its grids' sides."""
        return max(side for grid in self.grids for side in grid.shape)


def read_tasks(folder: Path, name: str) -> list[ArcTask]:
    """Return all tasks of a set, in the file's order.

    Raises:
        DataError: a file is damaged, a task has no solutions, or a grid is none.
    """
    files = [folder / f"arc-agi_{name}_{kind}.json" for kind in ("challenges", "solutions")]
    contents = []
    for file in files:
        try:
            contents.append(json.loads(utf8(file)))
        except ValueError as error:
            raise DataError(f"{file} cannot be read ({error}). Unpack or download it again.") from None
        if not isinstance(contents[-1], dict):
            raise DataError(f"{file} must hold tasks by their names. Unpack or download it again.")
    challenges, solutions = contents
    return [_task(name, task, solutions.get(name), *files) for name, task in challenges.items()]


def _task(name: str, task: Any, solutions: Any, challenges: Path, solved: Path) -> ArcTask:
    place = f"{challenges}, task {name}"
    try:
        pairs, inputs = (
            [(pair["input"], pair["output"]) for pair in task["train"]],
            [pair["input"] for pair in task["test"]],
        )
    except (KeyError, TypeError):
        raise DataError(f"{place}: it must have pairs in `train` and inputs in `test`. Mend it.") from None
    count = len(solutions) if isinstance(solutions, list) else "none"
    if count != len(inputs):
        raise DataError(
            f"{solved}, task {name}: there must be {len(inputs)} solutions, but there are {count}. Add them."
        )
    if not pairs or not inputs:
        raise DataError(f"{place}: it has no {'pairs' if not pairs else 'test inputs'}. Mend it.")
    demonstrations = [
        (_grid(grid, f"{place}, pair {number}, input"), _grid(answer, f"{place}, pair {number}, output"))
        for number, (grid, answer) in enumerate(pairs)
    ]
    test_pairs = [
        (
            _grid(grid, f"{place}, test input {number}"),
            _grid(answer, f"{solved}, task {name}, solution {number}"),
        )
        for number, (grid, answer) in enumerate(zip(inputs, solutions, strict=True))
    ]
    return ArcTask(name, demonstrations, test_pairs)


def _grid(rows: Any, place: str) -> Pixels:
    try:
        grid = np.array(rows)
    except ValueError:  # rows of several lengths
        grid = np.empty(0)
    if grid.ndim != 2 or not grid.size or grid.dtype.kind != "i" or grid.min() < 0 or grid.max() >= COLOURS:
        raise DataError(
            f"{place}: a grid must be rows of equal length, of whole numbers from 0 to 9. Mend it."
        )
    if max(grid.shape) > LARGEST:
        size = "x".join(map(str, grid.shape))
        raise DataError(
            f"{place}: the grid is {size}, but at most {LARGEST}x{LARGEST} is known. Leave the task out."
        )
    return grid.astype(np.uint8)
