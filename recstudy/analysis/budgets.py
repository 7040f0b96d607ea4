"""The ways to spend FLOPs on a puzzle at test, with the same weights, and the metric that says what each brings."""

from collections.abc import Sequence
from math import nan
from typing import NamedTuple

from recstudy.analysis.frame import StudyRecords
from recstudy.config import doubled
from recstudy.report.names import at_depth

SEGMENTS, TRAJECTORIES, COPIES, HALTED = "segments", "surest of noisy trajectories", "vote of copies", "halting by itself"
SCORE = "exact_accuracy"


class Budget(NamedTuple):
    """So many segments, trajectories or copies of a puzzle; how many varies where it halts by itself."""

    way: str
    many: int | None
    gflops: float  # a puzzle; not a number before a run has finished
    metric: str


def budgets(records: StudyRecords, index: int) -> Sequence[Budget]:
    """All that a variant's runs are scored with."""
    config = records.configs[index]
    done = [run for run in records.by_variant[index] if run.done and run.value("halted_steps") is not None]
    last = config["train.evaluation_steps"]
    segment = done[0].number("gflops") / last if done else nan
    wide = segment * config.get("train.at_test.segments", 0)
    trajectories, copies = (doubled(config.get(f"train.at_test.{name}", 0)) for name in ("trajectories", "copies"))
    halted = sum(run.number("halted_steps") for run in done) / len(done) if done else nan
    return [
        *(
            Budget(SEGMENTS, depth, segment * depth, SCORE if depth == last else at_depth(SCORE, depth))
            for depth in sorted({*doubled(config["train.evaluation_depths"]), last})
        ),
        *(Budget(TRAJECTORIES, count, wide * count, f"noisy_exact_accuracy.{count}") for count in trajectories),
        *(Budget(COPIES, count, wide * count, f"voted_exact_accuracy.{count}") for count in copies),
        Budget(HALTED, None, segment * halted, "halted_exact_accuracy"),
    ]
