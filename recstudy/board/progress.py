"""What runs now, what was paid so far, and what is left: reckoned from the rows and from the logs of the runs under way."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from recstudy.board.poller import PlannedStudy, ResultsPoller
from recstudy.programs.settings import PREFIX, flatten
from recstudy.records import EpochLine, score_name
from recstudy.records.schema import Values
from recstudy.records.study_schema import MetricRecord
from recstudy.report.names import metric, number, plural
from recstudy.report.remaining import Job, left_of_each, wall
from recstudy.report.rows import Row
from recstudy.terminal import duration

EPOCHS = ("train.epochs", f"{PREFIX}epochs", f"{PREFIX}steps")  # settings that say how many there are
LEFT = ("not run", "unfinished", "failed")  # what the study's command runs


@dataclass(frozen=True)
class RunUnderWay:
    """A run under way: `done` of `epochs` are done, 0 where it has just begun; `patience` is 0 where it has no end to it.

    `metrics` are those of a user's own program, whose steps are its epochs; 0 of them are known where no setting says how many.
    """

    run_id: str
    label: str
    seed: int
    epochs: int
    patience: int
    lines: dict[int, EpochLine]
    metrics: Mapping[str, MetricRecord] = field(default_factory=dict)

    @property
    def last(self) -> Values:
        return self.lines[max(self.lines)].values if self.lines else {}

    @property
    def done(self) -> int:
        return max(self.lines) + 1 if self.lines else 0

    @property
    def spent(self) -> float:
        """Seconds of its epochs; a line of a user's own program has those since the run began."""
        seconds = [line.values.get("seconds") or 0.0 for line in self.lines.values()]
        return float(max(seconds, default=0.0) if self.metrics else sum(seconds))

    @property
    def left(self) -> float:
        """Seconds of the epochs that are still to do; 0 until an epoch has finished, or where their number is not known."""
        return 0.0 if self.trained or not self.done else max(0.0, self.spent / self.done * (self.epochs - self.done))

    @property
    def trained(self) -> bool:
        """Whether it has all of its epochs, or those that its patience allows: then only its evaluation is left."""
        if not self.lines or self.metrics:
            return False
        if self.done >= self.epochs:
            return True
        name = score_name(self.last)
        scores = {epoch: metric(name).sign * value for epoch, line in self.lines.items() if (value := line.values.get(name))}
        best = max(sorted(scores), key=scores.__getitem__, default=self.done - 1)
        return 0 < self.patience <= self.done - 1 - best

    @property
    def phase(self) -> str:
        return "evaluating" if self.trained else "running" if self.metrics else "training" if self.lines else "starting"

    @property
    def progress(self) -> str:
        """`3 of 12, training`; of steps whose number is not known, `step 3`."""
        if self.metrics and not self.epochs:
            return f"step {max(self.lines)}" if self.lines else "starting"
        return f"{self.done} of {self.epochs}, {self.phase}"

    @property
    def score(self) -> tuple[str, float] | None:
        """The last epoch's score on the selection split, or the first metric that a user's own program reported."""
        name = next((name for name in self.metrics if name in self.last), score_name(self.last))
        value = self.last.get(name)
        return None if value is None else (name, value)

    @property
    def score_text(self) -> str:
        if self.score is None:
            return ""
        name, value = self.score
        return format(value, self.metrics[name].form) if name in self.metrics else number(name, value)


@dataclass(frozen=True)
class StudyProgress:
    """How far a study is, its distinct runs counted once."""

    planned: int
    counts: Counter[str]
    running: list[RunUnderWay]
    paid: float  # seconds of ended runs
    spent: float  # and of those under way
    left: float | None  # seconds of work, None where no run says how long one takes
    wall: float  # seconds of it by the clock, with `at_once` runs at a time
    evaluated: bool  # whether that has the evaluation at a run's end
    at_once: int  # runs, of late
    imported: bool = False  # from elsewhere, so that nothing is left to run

    @property
    def words(self) -> str:
        """`about 3.5 h, 2 runs at a time`, and empty where nothing is left."""
        if not self.todo:
            return ""
        if self.left is None:
            return f"{plural(self.todo, 'run')} to do; no estimate until a run finishes"
        if not self.evaluated:
            return f"about {duration(self.wall)} of training; no estimate of evaluation until a run finishes"
        if not self.running and self.todo == self.counts["failed"]:
            return f"about {duration(self.left)} to try {plural(self.todo, 'failed run')} again; nothing runs now"
        if self.running:
            return f"about {duration(self.wall)}, {plural(self.at_once, 'run')} at a time"
        return f"about {duration(self.left)} of work; nothing runs now"

    @property
    def todo(self) -> int:
        return 0 if self.imported else self.planned - self.counts["done"] - self.counts["diverged"]


def progress(poller: ResultsPoller, planned: PlannedStudy) -> StudyProgress:
    """Return how far a study is, without building its rows: they are not needed to count."""
    outcomes = {run_id: poller.outcome(run_id) for run_id in planned.named}
    running = [run_under_way(planned, run_id, poller.running[run_id]) for run_id in planned.named if run_id in poller.running]
    counts = Counter(found.status for found in outcomes.values())
    todo = sum(counts[status] for status in LEFT)
    lefts = _lefts(planned, outcomes, running)
    lately = max((len(planned.named.keys() & ids) for ids in poller.lately.values()), default=0)
    return StudyProgress(
        planned=len(outcomes) - (counts["stopped"] if planned.plan.search is not None else 0),
        counts=counts,
        running=running,
        paid=sum(found.paid for found in outcomes.values()),
        spent=sum(run.spent for run in running),
        left=None if lefts is None else sum(lefts),
        wall=0.0 if lefts is None else wall(lefts, max(1, min(todo, lately))),
        evaluated=any(found.done and found.paid for found in outcomes.values()),
        at_once=max(1, min(todo, lately)),
        imported=bool(planned.plan.imported),
    )


def run_under_way(planned: PlannedStudy, run_id: str, lines: dict[int, EpochLine]) -> RunUnderWay:
    variant, seed = planned.named[run_id]
    chosen = planned.plan.variants[variant]
    config = flatten(planned.plan.base) | chosen.changes
    epochs = next((count for name in EPOCHS if isinstance(count := config.get(name), int)), 0)
    return RunUnderWay(run_id, chosen.label, seed, epochs, int(config.get("train.patience") or 0), lines, planned.plan.metrics)


def _lefts(planned: PlannedStudy, outcomes: dict[str, Row], running: list[RunUnderWay]) -> list[float] | None:
    """Return the seconds that each run that is left takes, those under way first; None where no run says how long one takes."""

    def job(run_id: str, found: Row) -> Job:
        variant, _ = planned.named[run_id]
        if not (found.done and found.paid):
            return Job(variant, planned.plan.variants[variant].pflop)
        training = float(found.value("seconds") or 0.0)
        return Job(variant, found.value("train_pflop"), training, found.paid - training)

    jobs = {run_id: job(run_id, found) for run_id, found in outcomes.items()}
    under_way = {
        run.run_id: replace(
            jobs[run.run_id],
            training=run.spent,
            epochs=run.done,
            share=1.0 if run.trained else run.done / max(run.epochs, run.done, 1) if run.epochs else 0.0,
        )
        for run in running
    }
    todo = [run_id for run_id, found in outcomes.items() if found.status in LEFT and run_id not in under_way]
    ended = [jobs[run_id] for run_id, found in outcomes.items() if found.done and found.paid]
    return left_of_each(ended, [*under_way.values(), *map(jobs.__getitem__, todo)])
