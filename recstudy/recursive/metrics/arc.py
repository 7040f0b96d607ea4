"""The score of ARC-AGI: two attempts at each test input, chosen by a vote over its augmentations.

    crop    the largest rectangle from the upper left corner without PAD or EOS
    undo    the augmentation in the puzzle's name, TASK|||tTURN|||COLOURS; TASK alone has no augmentation
    vote    count identical answers; the answers with the most votes are the attempts, and of equal answers
            those with the highest mean sigmoid(q_halt)

The steps and the names of turns are those of the code of HRM and TRM. `recstudy.recursive.data.arc_agi` calls
this module.

Shapes: N answers, S cells of a canvas, side x side.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from recstudy.base.lazy import np
from recstudy.programs.metric import METRICS
from recstudy.recursive.metrics.registry import percent_quantity

if TYPE_CHECKING:
    import numpy.typing as npt

    from recstudy.recursive.config.answers import Answers, Floats, Integers

    Tokens = npt.NDArray[np.uint8]

COLOUR = 2  # colour c is token c + 2, after PAD and EOS
ATTEMPTS = 2
# (transpose, flip the rows, flip the columns) of each turn: none, a quarter, a half and three quarters to the
# left, columns mirrored, rows mirrored, and mirrored along both diagonals.
TURNS = ((0, 0, 0), (1, 1, 0), (0, 1, 1), (1, 0, 1), (0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 1))


class ArcGrid(NamedTuple):
    """The colours of a grid, row by row. Bytes save memory: there are half a million answers."""

    columns: int
    colours: bytes

    @property
    def rows(self) -> list[list[int]]:
        starts = range(0, len(self.colours), self.columns or 1)
        return [list(self.colours[start : start + self.columns]) for start in starts]


class Augmented(NamedTuple):
    """A task under one augmentation."""

    task: str
    turn: int = 0  # index in `TURNS`
    colours: tuple[int, ...] = tuple(range(10))  # the new colour of each colour

    @property
    def name(self) -> str:
        if self == Augmented(self.task):
            return self.task
        return f"{self.task}|||t{self.turn}|||{''.join(map(str, self.colours))}"

    def undone(self, tokens: "Tokens") -> ArcGrid:
        """Undo the augmentation of an array (H, W) of tokens."""
        is_transposed, flips_rows, flips_columns = TURNS[self.turn]
        turned = tokens[:: -1 if flips_rows else 1, :: -1 if flips_columns else 1]
        upright = turned.T if is_transposed else turned
        # argsort inverts the permutation of the colours
        colours = np.argsort(self.colours).astype(np.uint8)[upright - COLOUR]
        return ArcGrid(colours.shape[1], colours.tobytes())


def augmented(name: str) -> Augmented:
    """Parse the name of an augmented task."""
    task, *parts = name.split("|||")
    if not parts:
        return Augmented(task)
    return Augmented(task, int(parts[0][1:]), tuple(map(int, parts[1])))


def cropped(canvas: "Tokens") -> "Tokens":
    """Return the largest rectangle of colours at the upper left corner of a canvas (side, side).

    Of equal rectangles it is the one with fewer rows.
    """
    widths = np.minimum.accumulate(np.cumprod(canvas >= COLOUR, 1).sum(1))
    areas = widths * np.arange(1, len(canvas) + 1)
    rows = int(areas.argmax())
    return canvas[: rows + 1, : widths[rows]] if areas[rows] else canvas[:0, :0]


Input = tuple[str, int]  # task and index of its test input


class Ballot(NamedTuple):
    """The answers to one test input.

    Args:
        right: The correct grid.
        votes: Answer -> the confidence of each vote for it, from 0 to 1.
    """

    right: ArcGrid
    votes: dict[ArcGrid, list[float]]

    @property
    def ranked(self) -> list[ArcGrid]:
        """The answers by number of votes, then by mean confidence, then in order of arrival."""

        def rank(grid: ArcGrid) -> tuple[int, float]:
            confidences = self.votes[grid]
            return len(confidences), sum(confidences) / len(confidences)

        return sorted(self.votes, key=rank, reverse=True)


def ballots(answers: "Answers", halt: "Floats", ids: "Integers", names: Sequence[str]) -> dict[Input, Ballot]:
    """Collect the answers by test input.

    Args:
        answers: Cells and labels, arrays (N, S). The answers of one puzzle are in the order of the test
            inputs of its task.
        halt: Array (N,) of halting logits.
        ids: Array (N,) with the puzzle of each answer.
        names: The name of each puzzle.
    """
    side = round(answers.cells.shape[1] ** 0.5)
    answered: dict[int, int] = {}
    ballots_by_input: dict[Input, Ballot] = {}
    confidences = (1 / (1 + np.exp(-halt))).tolist()
    for row, (puzzle, confidence) in enumerate(zip(ids.tolist(), confidences, strict=True)):
        augmentation = augmented(names[puzzle])
        test_input = augmentation.task, answered.setdefault(puzzle, 0)
        answered[puzzle] += 1
        if test_input not in ballots_by_input:
            right = augmentation.undone(cropped(answers.labels[row].reshape(side, side)))
            ballots_by_input[test_input] = Ballot(right, {})
        answer = augmentation.undone(cropped(answers.cells[row].reshape(side, side)))
        ballots_by_input[test_input].votes.setdefault(answer, []).append(confidence)
    return ballots_by_input


def pass_at(count: int, ballots_by_input: dict[Input, Ballot]) -> float:
    """Return the percentage of tasks that are solved by one of the first `count` attempts.

    A task counts by the share of its test inputs that are solved.
    """
    by_task: dict[str, list[bool]] = {}
    for (task, _), ballot in ballots_by_input.items():
        by_task.setdefault(task, []).append(ballot.right in ballot.ranked[:count])
    return 100 * sum(sum(hits) / len(hits) for hits in by_task.values()) / len(by_task)


def submission(ballots_by_input: dict[Input, Ballot]) -> dict[str, Any]:
    """Return the attempts in the format of Kaggle's `submission.json`.

    An empty answer becomes a grid with one cell of colour 0.
    """
    tasks: dict[str, Any] = {}
    for (task, _), ballot in sorted(ballots_by_input.items()):
        attempts = [grid.rows or [[0]] for grid in ballot.ranked[:ATTEMPTS]]
        tasks.setdefault(task, []).append({"attempt_1": attempts[0], "attempt_2": attempts[-1]})
    return tasks


METRICS.add_all(
    {
        f"pass_at_{count}": percent_quantity(f"pass@{count}", tasks=("grid",), share=True)
        for count in range(1, ATTEMPTS + 1)
    }
)
