"""How good answers are where a puzzle has a token in every cell. Cells whose label is 0 are not asked for.

Shapes: N puzzles, S cells.
"""

from functools import partial
from typing import TYPE_CHECKING

from recstudy.metrics.answers import Answers
from recstudy.metrics.classification import PERCENT
from recstudy.metrics.registry import metric, quantity
from recstudy.programs.metric import METRICS, NotAvailable

if TYPE_CHECKING:
    from recstudy.metrics.answers import Floats

of_grids = partial(metric, unit="%", better="higher", form=".1f", bounds=PERCENT, tasks=("grid",), share=True)


def solved(answers: Answers) -> "Floats":
    """Return (N,), 100 where every cell that is asked for is right."""
    wrong = answers.cells != answers.labels
    wrong &= answers.labels != 0  # in place: 0.4 GB of ARC-AGI's answers
    return 100.0 * ~wrong.any(1)


def cells_right(answers: Answers) -> "Floats":
    """Return (N,), percent of the cells that are asked for."""
    asked = answers.labels != 0
    right = answers.cells == answers.labels
    right &= asked
    return 100.0 * right.sum(1) / asked.sum(1).clip(min=1)


@METRICS.add("exact_accuracy")
@of_grids("Exact accuracy", short="exact", ranks=True, each=solved)
def exact_accuracy(answers: Answers) -> float:
    """Return the share of puzzles in which every cell that is asked for is right."""
    return float(solved(answers).mean())


@METRICS.add("cell_accuracy")
@of_grids("Cell accuracy", short="cells", each=cells_right)
def cell_accuracy(answers: Answers) -> float:
    """Mean over the puzzles of the share of their cells that are right."""
    return float(cells_right(answers).mean())


@METRICS.add("lawful_answers")
@of_grids("Answers that break no rule")
def lawful_answers(answers: Answers) -> float:
    if answers.lawful is None:
        raise NotAvailable("nobody knows the rules of these puzzles")
    return 100 * float(answers.lawful.mean())


@METRICS.add("other_solutions")
@metric(
    "Answers that are another solution", unit="%", better="lower", form=".2f", bounds=PERCENT, tasks=("grid",)
)
def other_solutions(answers: Answers) -> float:
    """Wrong by the data and without a broken rule: more than none says that the data have puzzles of several
    solutions.
    """
    if answers.lawful is None:
        raise NotAvailable("nobody knows the rules of these puzzles")
    return 100 * float(((solved(answers) == 0) & (answers.lawful == 1)).mean())


@METRICS.add("level_exact_accuracy")
@of_grids("Exact accuracy by level", of_levels=True)
def level_exact_accuracy(answers: Answers) -> dict[str, float]:
    """Return it of the puzzles of each level of difficulty."""
    import numpy as np

    if answers.levels is None:
        raise NotAvailable("the puzzles have no levels of difficulty")
    exact = solved(answers)
    return {str(level): float(exact[answers.levels == level].mean()) for level in np.unique(answers.levels)}


# What follows from every segment's answers or states, of which the last answers alone are kept, and from more
# thinking at test.
solved_share = partial(
    quantity, unit="%", better="higher", form=".1f", bounds=PERCENT, tasks=("grid",), share=True
)
METRICS.add_all(
    {
        "halted_exact_accuracy": solved_share("Exact accuracy, halting by itself"),
        "noisy_exact_accuracy": solved_share("Exact accuracy, noisy trajectories"),
        "any_exact_accuracy": solved_share("Exact accuracy, any trajectory"),
        "pass_at": solved_share("Pass@k of noisy trajectories"),
        "voted_exact_accuracy": solved_share("Exact accuracy, copies' vote"),
        "any_copy_exact_accuracy": solved_share("Exact accuracy, any copy"),
        "flipped_puzzles": solved_share("Puzzles that some copies solve and others do not", better="lower"),
        "lost_puzzles": solved_share("Puzzles that fewer segments solve", better="lower"),
        "halting_auroc": quantity(
            "AUROC of the halting head", "%", "higher", ".2f", bounds=PERCENT, tasks=("grid",)
        ),
        "residual": quantity("Fixed-point residual", form=".3g", tasks=("grid",)),
        "halted_steps": quantity("Segments, halting by itself", better="lower", form=".2f", tasks=("grid",)),
    }
)
