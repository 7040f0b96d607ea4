"""The data set ARC-AGI: tasks of a few pairs of coloured grids. A model infers the rule of a task from its
demonstration pairs and applies the rule to a test input.

The reader expects Kaggle's files. A grid is a list of rows of colours.

    arc-agi_SET_challenges.json    {TASK: {"train": [PAIR, ...], "test": [{"input": GRID}, ...]}}
                                   where PAIR is {"input": GRID, "output": GRID}
    arc-agi_SET_solutions.json     {TASK: [GRID, ...]}, the outputs of the test inputs

Each pair is placed on a canvas under every augmentation of its task. Grids are stored once. Their canvases
are written chunk by chunk into memory-mapped files.

Shapes: T tasks, E pairs, N augmented pairs, B augmented pairs of a chunk, S cells of a canvas (Y rows, X
columns).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, ClassVar, Literal, NamedTuple
from zlib import crc32

from pydantic import Field, NonNegativeInt

from recstudy.base.errors import DataError, choices
from recstudy.base.files import cache_folder, caching
from recstudy.records.schema import REPEATED
from recstudy.recursive.config.answers import Answers, Scores
from recstudy.recursive.config.parts import DATASETS, Shape
from recstudy.recursive.config.reader import Array, Arrays, Labels, Mask, Pixels, Reader, counts_within, np
from recstudy.recursive.data.cache import IMAGES
from recstudy.recursive.data.puzzles import Puzzles, numbers
from recstudy.recursive.data.splits import utf8
from recstudy.recursive.metrics.arc import ATTEMPTS, COLOUR, TURNS, Augmented, ballots, pass_at, submission

Pair = tuple[Pixels, Pixels]  # input grid and output grid, (H, W) colours each
LARGEST, COLOURS = 30, 10
PAD, EOS = range(2)
CHUNK = 2048  # canvases that are written at a time
TRIES = 5  # random draws per requested augmentation; duplicates are dropped
# Training examples by version and largest side: of all tasks, and of the tasks with grids up to 10x10.
EXAMPLES = {(1, LARGEST): 3081, (2, LARGEST): 4666, (1, 10): 1067}
TEST_INPUTS = {(1, LARGEST): 419, (2, LARGEST): 172, (1, 10): 88}  # of the same evaluation tasks
CONCEPT = 907  # training examples of ConceptARC
EVALUATED = {1: 400, 2: 120}  # number of evaluation tasks by version
SETS = {1: ("training", "evaluation"), 2: ("training2", "evaluation2")}


class ArcAgiReader(Reader):
    """Reader of challenges and solutions."""

    config: ArcAgi
    ignores = frozenset({"name", "rounds"})
    counts_repeats = False  # `make_set` compares the pairs before augmentation

    def sources(self, folder: Path) -> Sequence[str]:
        kinds, names = ("challenges", "solutions"), self.config.set_names(folder / self.config.path)
        return [f"{self.config.path}/arc-agi_{name}_{kind}.json" for name in names for kind in kinds]

    def decode(self, folder: Path) -> Arrays:
        return make_set(folder / self.config.path, self.config)


@DATASETS.add("arc_agi")
class ArcAgi(Puzzles):
    """Public tasks of ARC-AGI-1 (400 training, 400 evaluation) or ARC-AGI-2 (1,000, 120), as in HRM.

    The training split has the demonstration pairs of all tasks, including the evaluation tasks, and the test
    pairs of the training tasks. The test split has the test pairs of the evaluation tasks.

    A grid is placed on a canvas. Colour c is token c + 2, EOS (1) marks its lower and right edge, and PAD (0)
    fills the rest. PAD is not scored. A puzzle is a task under one augmentation and has an id. Each task has
    one puzzle without augmentation and `augmentations` random ones. An augmentation is one of eight turns
    and a permutation of the colours 1 to 9. For training, all pairs of a puzzle but one are also shifted on
    the canvas. Test pairs are answered under every augmentation, and the answers vote (`metrics.arc`).

    An epoch shows each task's demonstration pairs under one random augmentation, and its test pairs under an
    independent one. Validation holds out the test pairs of the training tasks under all augmentations. With
    `whole_tasks` both kinds of pairs share one augmentation, and validation holds out whole tasks.
    `model.identifiers` is at most 1 + tasks x (1 + augmentations). With 1,000 augmentations and 30x30 cells
    the decoded set takes 6.3 GB on disk, and 12 GB while it is built.
    """

    reader_type: ClassVar = ArcAgiReader
    classes: ClassVar = 12
    class_names: ClassVar = ("PAD", "EOS", *"0123456789")
    symbols: ClassVar = (" ", "|", *"0123456789")
    colours: ClassVar = (
        "#FFFFFF", "#E6EAEE", "#000000", "#0074D9", "#FF4136", "#2ECC40", "#FFDC00", "#AAAAAA", "#F012BE",
        "#FF851B", "#7FDBFF", "#870C25",
    )  # fmt: skip

    name: Literal["arc_agi"] = "arc_agi"
    version: Literal[1, 2] = 1
    side: int = Field(LARGEST, ge=2, le=LARGEST)
    """side of the canvas in cells; below 30, tasks with a larger grid are left out"""
    augmentations: int = Field(1000, ge=0, le=10_000)
    """augmentations per task; fewer if a task has fewer different ones"""
    concept: bool = False
    """also train on the 160 tasks of ConceptARC, as the code of HRM and TRM does"""
    whole_tasks: bool = False
    """true: in training, a task's test pairs share the augmentation of its demonstration pairs, as in the
    authors' code; false: they have an augmentation of their own"""
    drawing_seed: NonNegativeInt = 0
    """random seed of the augmentations"""
    path: str = "arc_agi"
    """folder of Kaggle's arc-agi_*.json files, relative to the data folder"""

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
        """Return the examples of an epoch, which shows one puzzle per task; None if unknown."""
        if self.concept and self.side < LARGEST:
            return None
        examples = EXAMPLES.get((self.version, self.side))
        return examples and examples + CONCEPT * self.concept

    @property
    def test_size(self) -> int | None:
        """Return the test inputs under all augmentations, at most; None if unknown."""
        inputs = TEST_INPUTS.get((self.version, self.side))
        return inputs and inputs * (1 + self.augmentations)

    def set_names(self, folder: Path) -> tuple[str, ...]:
        """Return the names of the sets in `folder`: training, evaluation and, with `concept`, ConceptARC."""
        names = SETS[self.version]
        if not (folder / f"arc-agi_{names[0]}_challenges.json").exists():
            # Kaggle's folders of both competitions use the file names of version 1.
            names = SETS[1]
        return (*names, *(["concept"] if self.concept else []))

    def verdict(
        self, answers: Answers, halt: Array, ids: Labels | None, names: Sequence[str] | None
    ) -> tuple[Scores, dict[str, Any]]:
        """Return pass@1 and pass@2, and the attempts in Kaggle's format. See `Puzzles.verdict`."""
        assert ids is not None and names is not None, "its reader gives both"  # noqa: PT018
        votes = ballots(answers, halt, ids, names)
        scores = {f"pass_at_{count}": pass_at(count, votes) for count in range(1, ATTEMPTS + 1)}
        return scores, {"submission.json": submission(votes)}


class Pairs(NamedTuple):
    """The pairs of all tasks, one row per pair."""

    grids: Pixels  # (E, 2, Y, X) colours of input and output, in the upper left corner
    sizes: Labels  # (E, 2, 2) rows and columns of input and output
    tasks: Labels  # (E,) index of the task
    places: Labels  # (E,) index of the pair within its task
    is_test: Mask  # (E,)


def make_set(folder: Path, config: ArcAgi) -> Arrays:
    """Build both splits from the files in `folder`.

    Raises:
        DataError: If a file is damaged, if the files are of the other version, or if no task is small
            enough.
    """
    side, names = config.side, config.set_names(folder)
    tasks_by_set = {name: read_tasks(folder, name) for name in names}
    other_version = 3 - config.version
    if len(tasks_by_set[names[1]]) == EVALUATED[other_version]:
        raise DataError(
            f"{folder}/arc-agi_{names[1]}_challenges.json has {EVALUATED[other_version]} tasks, as"
            f" ARC-AGI-{other_version} has. Set data.version={other_version}."
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
        steps = np.zeros((len(ids), 2), np.int64)
        if part == "train":
            steps = draw_shifts(pairs, rows, ids, puzzles, config)
        row_puzzles = [puzzles[puzzle_id - 1] for puzzle_id in ids.tolist()]
        columns[f"{part}_images"], columns[f"{part}_labels"] = write_canvases(pairs, rows, row_puzzles, steps)
        is_test = pairs.is_test[rows]
        # Without `whole_tasks`, and in the test split, test pairs form puzzles and groups of their own.
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
                f"{sum(evaluated):,} of {len(tasks):,} tasks are evaluation tasks. Their demonstration pairs"
                " are in the training split, as in HRM's protocol."
            ),
            _repeat_note(tasks, pairs, tested),
            (
                f"{tested.sum():,} test inputs are answered under every augmentation of their task:"
                f" {len(columns['test_ids']):,} answers. pass@1 and pass@2 count tasks; exact accuracy"
                " counts answers."
            ),
        ),
    )


def _repeat_note(tasks: Sequence[ArcTask], pairs: Pairs, tested: Mask) -> str:
    """Return a note on the test pairs of evaluation tasks whose grids equal a training pair of any task."""
    trained_tasks: dict[tuple[bytes, bytes], str] = {}
    repeats = []
    for row in np.argsort(tested, kind="stable").tolist():  # training pairs first
        name = tasks[pairs.tasks[row]].name
        # All grids are in the same corner, so equal grids have equal bytes.
        content = pairs.sizes[row].tobytes(), pairs.grids[row].tobytes()
        if not tested[row]:
            trained_tasks[content] = name
        elif content in trained_tasks:
            repeats.append(f"{name} = {trained_tasks[content]}")
    if not repeats:
        return "No test pair of an evaluation task is an exact copy of a training pair."
    return (
        f"{REPEATED}{len(repeats):,} of {tested.sum():,} test pairs are also training pairs of other tasks"
        f" ({choices(repeats, limit=5)})"
    )


def augmentations(task: ArcTask, config: ArcAgi) -> list[Augmented]:
    """Draw the augmentations of a task: the identity first, then up to `config.augmentations` others.

    Two augmentations are equal if they have the same turn and map the task's own colours alike.
    """
    # The task's name is part of the seed, so the draws do not depend on the other tasks.
    random = np.random.default_rng([config.drawing_seed, crc32(task.name.encode())])
    task_colours = sorted({colour for grid in task.grids for colour in np.unique(grid).tolist()})
    puzzles = {(0, *task_colours): Augmented(task.name)}
    for _ in range(TRIES * config.augmentations):
        if len(puzzles) > config.augmentations:
            break
        turn = int(random.integers(len(TURNS)))
        colours = (0, *(1 + random.permutation(COLOURS - 1)).tolist())
        key = (turn, *(colours[colour] for colour in task_colours))
        puzzles.setdefault(key, Augmented(task.name, turn, colours))
    return list(puzzles.values())


def collect_pairs(tasks: Sequence[ArcTask], side: int) -> Pairs:
    """Return all pairs, task by task, with the demonstration pairs of a task before its test pairs."""
    grids, sizes, members = [], [], []
    for number, task in enumerate(tasks):
        for place, pair in enumerate(task.pairs):
            members.append((number, place, place >= len(task.demonstrations)))
            sizes.append([grid.shape for grid in pair])
            grids.append([np.pad(grid, [(0, side - length) for length in grid.shape]) for grid in pair])
    task_numbers, places, is_test = np.array(members).T
    return Pairs(np.array(grids), np.array(sizes), task_numbers, places, is_test.astype(bool))


def augmented_rows(pairs: Pairs, chosen: Mask, counts: Sequence[int]) -> tuple[Labels, Labels]:
    """Repeat the chosen pairs for every augmentation of their task.

    Args:
        pairs: All pairs.
        chosen: (E,) mask of the pairs to repeat.
        counts: (T,) number of augmentations of each task.

    Returns:
        The pair's row (N,) and the puzzle's id (N,) of each augmented pair. All pairs without augmentation
        come first, then all pairs under the first augmentation of their task, and so on.
    """
    # A puzzle is a task under one augmentation. The id 0 means "no puzzle".
    first = np.cumsum([1, *counts])
    rows = np.flatnonzero(chosen)
    times = np.array(counts)[pairs.tasks[rows]]
    turns = counts_within(times)
    rows = np.repeat(rows, times)
    order = np.lexsort((rows, turns))
    rows = rows[order]
    return rows, first[pairs.tasks[rows]] + turns[order]


def draw_shifts(
    pairs: Pairs, rows: Labels, ids: Labels, puzzles: Sequence[Augmented], config: ArcAgi
) -> Labels:
    """Draw how far each augmented pair is shifted on the canvas.

    Returns:
        (N, 2) cells down and to the right. One pair of each puzzle is not shifted.
    """
    seed, places = config.drawing_seed, pairs.places[rows]
    is_across = np.array([False, *(TURNS[puzzle.turn][0] for puzzle in puzzles)], bool)[ids, None]
    largest = pairs.sizes.max(1)[rows]
    room = config.side + 1 - np.where(is_across, largest[:, ::-1], largest)
    # The pair that is not shifted is drawn per puzzle. `numbers` depends only on seed and id, so every pair
    # of a puzzle gets the same draw.
    stays = (numbers(seed, ids, np.zeros_like(ids), 1)[:, 0] * np.bincount(ids)[ids]).astype(np.int64)
    steps = (numbers(seed, ids, 1 + places, 2) * room).astype(np.int64)
    return np.where((places == stays)[:, None], 0, steps)


def write_canvases(
    pairs: Pairs, rows: Labels, puzzles: Sequence[Augmented], steps: Labels
) -> tuple[Pixels, Pixels]:
    """Write the canvases of augmented pairs into two temporary files and map them into memory.

    Args:
        pairs: All pairs.
        rows: (N,) row of the pair behind each augmented pair.
        puzzles: The puzzle of each augmented pair.
        steps: (N, 2) cells that each pair is shifted from the corner.

    Returns:
        The inputs (N, 1, Y, X) and the answers (N, S).
    """
    folder, count, side = cache_folder(), len(rows), pairs.grids.shape[-1]
    with caching(IMAGES, folder):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as input_file, TemporaryFile(dir=folder) as answer_file:
            for start in range(0, count, CHUNK):
                chunk = slice(start, start + CHUNK)
                grids, sizes = pairs.grids[rows[chunk]], pairs.sizes[rows[chunk]]
                for side_of_pair, file in enumerate((input_file, answer_file)):
                    canvases = canvas(
                        grids[:, side_of_pair], sizes[:, side_of_pair], puzzles[chunk], steps[chunk]
                    )
                    file.write(canvases.tobytes())
            input_file.flush()
            answer_file.flush()
            images = np.memmap(input_file, np.uint8, "r", shape=(count, 1, side, side))
            return images, np.memmap(answer_file, np.uint8, "r", shape=(count, side**2))


def canvas(grids: Pixels, sizes: Labels, puzzles: Sequence[Augmented], steps: Labels) -> Pixels:
    """Place augmented grids on canvases of tokens.

    Args:
        grids: (B, Y, X) colours.
        sizes: (B, 2) rows and columns of each grid.
        puzzles: The puzzle of each grid, which has its augmentation.
        steps: (B, 2) cells that each grid is shifted from the corner.

    Returns:
        (B, Y, X) tokens.
    """
    turns = np.array([TURNS[puzzle.turn] for puzzle in puzzles], bool)
    is_transposed, is_upside_down, is_mirrored = turns.T[:, :, None]
    tokens = COLOUR + np.array([puzzle.colours for puzzle in puzzles], np.uint8)
    height, width = np.where(is_transposed, sizes[:, ::-1], sizes).T[:, :, None]
    # (B, Y) and (B, X): coordinates relative to the upper left corner of the grid
    y, x = np.arange(grids.shape[1]) - steps.T[:, :, None]
    within_y, within_x = (y >= 0) & (y < height), (x >= 0) & (x < width)
    inside = within_y[:, :, None] & within_x[:, None]
    # EOS marks the row below the grid and the column to its right, as far as they are on the canvas.
    edge = (y == height)[:, :, None] & within_x[:, None] | within_y[:, :, None] & (x == width)[:, None]
    # From a cell of the canvas to the cell of the stored grid whose colour it shows.
    y = np.where(is_upside_down, height - 1 - y, y)[:, :, None]
    x = np.where(is_mirrored, width - 1 - x, x)[:, None]
    rows, columns = (np.where(is_transposed[..., None], *pair) * inside for pair in ((x, y), (y, x)))
    puzzle_rows = np.arange(len(grids))[:, None, None]
    grid_tokens = tokens[puzzle_rows, grids[puzzle_rows, rows, columns]]
    return np.where(inside, grid_tokens, np.where(edge, np.uint8(EOS), np.uint8(PAD)))


class ArcTask(NamedTuple):
    """One task: pairs that demonstrate its rule, and pairs that test it."""

    name: str
    demonstrations: list[Pair]
    test_pairs: list[Pair]

    @property
    def pairs(self) -> list[Pair]:
        return [*self.demonstrations, *self.test_pairs]

    @property
    def grids(self) -> list[Pixels]:
        return [grid for pair in self.pairs for grid in pair]

    @property
    def side(self) -> int:
        """The longest side of any grid of the task."""
        return max(side for grid in self.grids for side in grid.shape)


def read_tasks(folder: Path, name: str) -> list[ArcTask]:
    """Read all tasks of the set `name`, in the order of the file.

    Raises:
        DataError: If a file is damaged, a task has no solutions, or a grid is invalid.
    """
    files = [folder / f"arc-agi_{name}_{kind}.json" for kind in ("challenges", "solutions")]
    contents = []
    for file in files:
        try:
            contents.append(json.loads(utf8(file)))
        except ValueError as error:
            raise DataError(f"{file} cannot be read ({error}). Unpack or download it again.") from None
        if not isinstance(contents[-1], dict):
            raise DataError(f"{file} must be a JSON object of tasks by name. Unpack or download it again.")
    challenges, solutions = contents
    return [_task(name, task, solutions.get(name), *files) for name, task in challenges.items()]


def _task(name: str, task: Any, solutions: Any, challenges: Path, solved: Path) -> ArcTask:
    place = f"{challenges}, task {name}"
    try:
        pairs = [(pair["input"], pair["output"]) for pair in task["train"]]
        inputs = [pair["input"] for pair in task["test"]]
    except (KeyError, TypeError):
        raise DataError(f"{place} must have pairs in `train` and inputs in `test`. Correct it.") from None
    count = len(solutions) if isinstance(solutions, list) else "none"
    if count != len(inputs):
        raise DataError(
            f"{solved}, task {name} must have {len(inputs)} solutions, but has {count}. Add them."
        )
    if not pairs or not inputs:
        raise DataError(f"{place} has no {'test inputs' if pairs else 'pairs'}. Correct it.")
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
            f"{place}: a grid must have rows of equal length with integers from 0 to 9. Correct it."
        )
    if max(grid.shape) > LARGEST:
        size = "x".join(map(str, grid.shape))
        raise DataError(
            f"{place}: the grid is {size}, but at most {LARGEST}x{LARGEST} is supported. Remove the task."
        )
    return grid.astype(np.uint8)
