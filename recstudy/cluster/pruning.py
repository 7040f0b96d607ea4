"""Stop the runs of a search early by a pruner, such as `asha`."""

from collections.abc import Collection, Mapping
from typing import Any

from recstudy.base.errors import ConfigError, choices, raised_at
from recstudy.cluster.view import Outcome
from recstudy.records import EpochLine, read_log
from recstudy.study.strategies import PRUNERS
from recstudy.study.trials import TrialLog


class PrunedBy:
    """Decides by a pruner whether a run is stopped early.

    It reads the epochs of earlier runs, so that a resumed search decides as if it had not been interrupted.

    Args:
        log: The trials so far.
        rerun_ids: Ids of finished runs to repeat.
    """

    def __init__(self, log: TrialLog, rerun_ids: Collection[str] = ()) -> None:
        plan = log.plan
        self.name, self.rule = plan.stopping, PRUNERS[plan.stopping]
        self.objective, direction = next(iter(plan.objectives.items()))
        self.sign = 1 if direction == "max" else -1
        self.log = log
        self.epochs = max(base.steps or 0 for base in plan.space.bases.values())
        self.scores: dict[str, dict[int, float]] = {}  # by run: epochs done -> score
        for run_id in (run_id for run_id in log.params if run_id not in rerun_ids):
            for line in read_log(log.results.run(run_id).epochs, EpochLine):
                self._hear(run_id, line.epoch + 1, line.values)

    def _hear(self, run_id: str, epochs: int, values: Mapping[str, Any]) -> bool:
        score = values.get(self.objective)
        if score is not None:
            self.scores.setdefault(run_id, {})[epochs] = self.sign * score
        return score is not None

    @property
    def note(self) -> str:
        """Why no run could be stopped, if finished runs do not report the objective; else an empty text."""
        ids = [run_id for run_id in self.log.params if self.log.results.state(run_id) == "done"]
        if self.scores or not ids:
            return ""
        lines = (line for run_id in ids for line in read_log(self.log.results.run(run_id).epochs, EpochLine))
        names = choices(sorted({name for line in lines for name in line.values} - {"epoch", "seconds"}))
        return (
            f"No run reports {self.objective!r} at its steps (they report {names or 'nothing'}), so"
            f" --stopping {self.name} stopped none. Report {self.objective!r} at each step"
        )

    def stops(self, run_id: str, line: Outcome) -> bool:
        """Return whether a run is stopped after this epoch."""
        if "status" in line or not self._hear(run_id, line["epochs_done"], line):
            return False
        run = {epoch: score for epoch, score in self.scores[run_id].items() if epoch <= line["epochs_done"]}
        other_scores = [scores for other_id, scores in self.scores.items() if other_id != run_id]
        try:
            return self.rule(run, other_scores, self.epochs or max(map(max, self.scores.values())))
        except Exception as error:  # an error in a user's pruner
            raise ConfigError(f"The pruner {self.name!r} raised an error: {raised_at(error)}") from None
