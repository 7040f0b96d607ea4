"""Metrics of puzzles, whose answer is a token in every cell of a grid.

Importing this module registers them. Cells with the label 0 are not scored. Shapes: N puzzles, S cells.
"""

from functools import partial
from typing import TYPE_CHECKING

from recstudy.programs.metric import METRICS, NotAvailable
from recstudy.recursive.config.answers import Answers, Scores
from recstudy.recursive.metrics.registry import percent_metric, percent_quantity, quantity

if TYPE_CHECKING:
    from recstudy.recursive.config.answers import Floats

of_grids = partial(percent_metric, tasks=("grid",), share=True)


def solved(answers: Answers) -> "Floats":
    """Return an array (N,): 100 if every scored cell is right, otherwise 0."""
    is_wrong = answers.cells != answers.labels
    is_wrong &= answers.labels != 0  # in place, because ARC-AGI's answers have 0.4 GB
    return 100.0 * ~is_wrong.any(1)


def cells_right(answers: Answers) -> "Floats":
    """Return an array (N,) with the percentage of the scored cells that are right."""
    is_scored = answers.labels != 0
    is_right = answers.cells == answers.labels
    is_right &= is_scored
    return 100.0 * is_right.sum(1) / is_scored.sum(1).clip(min=1)


@METRICS.add("exact_accuracy")
@of_grids("Exact accuracy", short="exact", ranks=True, each=solved)
def exact_accuracy(answers: Answers) -> float:
    """Return the percentage of puzzles with every scored cell right."""
    return float(solved(answers).mean())


@METRICS.add("cell_accuracy")
@of_grids("Cell accuracy", short="cells", each=cells_right)
def cell_accuracy(answers: Answers) -> float:
    """Return the mean over the puzzles of their percentage of right cells."""
    return float(cells_right(answers).mean())


@METRICS.add("lawful_answers")
@of_grids("Answers that break no rule")
def lawful_answers(answers: Answers) -> float:
    if answers.lawful is None:
        raise NotAvailable("the data set has no rules of its puzzles")
    return 100 * float(answers.lawful.mean())


@METRICS.add("other_solutions")
@of_grids("Answers that are another solution", better="lower", form=".2f", share=False)
def other_solutions(answers: Answers) -> float:
    """Return the percentage of answers that differ from the data's solution but break no rule.

    A value above 0 means that some puzzles of the data have several solutions.
    """
    if answers.lawful is None:
        raise NotAvailable("the data set has no rules of its puzzles")
    return 100 * float(((solved(answers) == 0) & (answers.lawful == 1)).mean())


@METRICS.add("level_exact_accuracy")
@of_grids("Exact accuracy by level", of_levels=True)
def level_exact_accuracy(answers: Answers) -> Scores:
    """Return the exact accuracy by level of difficulty."""
    import numpy as np

    if answers.levels is None:
        raise NotAvailable("the puzzles have no levels of difficulty")
    exact = solved(answers)
    return {str(level): float(exact[answers.levels == level].mean()) for level in np.unique(answers.levels)}


# These metrics need the answers or states of every supervision step, or several answers per puzzle. A run
# saves only the last answers, so they are computed in evaluation (`recstudy.recursive.tasks.solving` and
# `at_test`).
solved_share = partial(percent_quantity, tasks=("grid",), share=True)
METRICS.add_all(
    {
        "halted_exact_accuracy": solved_share("Exact accuracy, adaptive halting"),
        "noisy_exact_accuracy": solved_share("Exact accuracy, noisy trajectories"),
        "any_exact_accuracy": solved_share("Exact accuracy, any trajectory"),
        "pass_at": solved_share("Pass@k of noisy trajectories"),
        "voted_exact_accuracy": solved_share("Exact accuracy, copies' vote"),
        "any_copy_exact_accuracy": solved_share("Exact accuracy, any copy"),
        "flipped_puzzles": solved_share("Puzzles that some copies solve and others do not", better="lower"),
        "lost_puzzles": solved_share("Puzzles that fewer segments solve", better="lower"),
        "halting_auroc": solved_share("AUROC of the halting head", form=".2f", share=False),
        "residual": quantity("Fixed-point residual", form=".3g", tasks=("grid",)),
        "halted_steps": quantity("Segments, adaptive halting", better="lower", form=".2f", tasks=("grid",)),
    }
)
