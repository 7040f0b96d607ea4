"""ARC-AGI's score: two attempts at each test input, by a vote over the augmentations under which it was
answered.

    crop    the largest rectangle from the upper left corner without PAD or EOS
    undo    the augmentation, which the puzzle's name spells: TASK|||tTURN|||COLOURS, or TASK alone where there is none
    vote    identical answers are counted; the most votes come first and, of equals, the highest mean sigmoid(q_halt)

As in the code of HRM and TRM, whose names of turns these are.

Shapes: N answers, S cells of a canvas, side x side.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from recstudy.metrics.classification import PERCENT
from recstudy.metrics.registry import quantity
from recstudy.programs.metric import METRICS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from recstudy.metrics.answers import Answers, Floats, Integers

    Tokens = npt.NDArray[np.uint8]

COLOUR = 2  # colour c is token c + 2, after PAD and EOS
ATTEMPTS = 2
# Rows with columns exchanged, then rows mirrored, then columns: as it is, a quarter, a half, three quarters
# to the left, columns mirrored, rows mirrored, and along both diagonals.
TURNS = ((0, 0, 0), (1, 1, 0), (0, 1, 1), (1, 0, 1), (0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 1))


class ArcGrid(NamedTuple):
    """Colours, row by row: 900 bytes at most, of half a million answers."""

    columns: int
    colours: bytes

    @property
    def rows(self) -> list[list[int]]:
        return [
            list(self.colours[at : at + self.columns])
            for at in range(0, len(self.colours), self.columns or 1)
        ]


class Augmented(NamedTuple):
    """A task under one augmentation."""

    task: str
    turn: int = 0  # of `TURNS`
    colours: tuple[int, ...] = tuple(range(10))  # what each becomes

    @property
    def name(self) -> str:
        alone = self == Augmented(self.task)
        return self.task if alone else f"{self.task}|||t{self.turn}|||{''.join(map(str, self.colours))}"

    def undone(self, tokens: "Tokens") -> ArcGrid:
        """Return what a grid (H, W) of tokens was before."""
        import numpy as np

        across, rows, columns = TURNS[self.turn]
        turned = tokens[:: -1 if rows else 1, :: -1 if columns else 1]
        before = np.argsort(self.colours).astype(np.uint8)[(turned.T if across else turned) - COLOUR]
        return ArcGrid(before.shape[1], before.tobytes())


def augmented(name: str) -> Augmented:
    """Return which augmentation of which task this is the name of."""
    task, *spelled = name.split("|||")
    return Augmented(task, int(spelled[0][1:]), tuple(map(int, spelled[1]))) if spelled else Augmented(task)


def cropped(canvas: "Tokens") -> "Tokens":
    """Return the largest rectangle of colours from the corner of a canvas (side, side); of equals the one
    with fewer rows.
    """
    import numpy as np

    widths = np.minimum.accumulate(np.cumprod(canvas >= COLOUR, 1).sum(1))
    areas = widths * np.arange(1, len(canvas) + 1)
    rows = int(areas.argmax())
    return canvas[: rows + 1, : widths[rows]] if areas[rows] else canvas[:0, :0]


Input = tuple[str, int]  # a task, and which of its test inputs


class Ballot(NamedTuple):
    """What was answered to one test input."""

    right: ArcGrid
    votes: dict[ArcGrid, list[float]]  # how sure each voter for an answer is, from 0 to 1

    @property
    def ranked(self) -> list[ArcGrid]:
        """By votes, then by how sure they are on average; of equals the one that came first."""
        return sorted(
            self.votes, key=lambda grid: (len(own := self.votes[grid]), sum(own) / len(own)), reverse=True
        )


def ballots(answers: "Answers", halt: "Floats", ids: "Integers", names: Sequence[str]) -> dict[Input, Ballot]:
    """Return the answers by test input; those of one puzzle are to its task's test inputs, in their order."""
    import numpy as np

    side = round(answers.cells.shape[1] ** 0.5)
    seen: dict[int, int] = {}
    found: dict[Input, Ballot] = {}
    for row, (puzzle, sure) in enumerate(zip(ids.tolist(), (1 / (1 + np.exp(-halt))).tolist(), strict=True)):
        own = augmented(names[puzzle])
        place = own.task, seen.setdefault(puzzle, 0)
        seen[puzzle] += 1
        if place not in found:
            found[place] = Ballot(own.undone(cropped(answers.labels[row].reshape(side, side))), {})
        answer = own.undone(cropped(answers.cells[row].reshape(side, side)))
        found[place].votes.setdefault(answer, []).append(sure)
    return found


def pass_at(count: int, found: dict[Input, Ballot]) -> float:
    """Percent of tasks, each of which counts by the share of its test inputs that one of so many attempts
    solves.
    """
    by_task: dict[str, list[bool]] = {}
    for (task, _), ballot in found.items():
        by_task.setdefault(task, []).append(ballot.right in ballot.ranked[:count])
    return 100 * sum(sum(hits) / len(hits) for hits in by_task.values()) / len(by_task)


def submission(found: dict[Input, Ballot]) -> dict[str, Any]:
    """Return it as Kaggle has it: two attempts at each test input, one 0 where nothing was answered."""
    tasks: dict[str, Any] = {}
    for (task, _), ballot in sorted(found.items()):
        attempts = [grid.rows or [[0]] for grid in ballot.ranked[:ATTEMPTS]]
        tasks.setdefault(task, []).append({"attempt_1": attempts[0], "attempt_2": attempts[-1]})
    return tasks


METRICS.add_all(
    {
        f"pass_at_{count}": quantity(
            f"pass@{count}", "%", "higher", ".1f", bounds=PERCENT, tasks=("grid",), share=True
        )
        for count in range(1, ATTEMPTS + 1)
    }
)
