"""Runs on Ray Tune: handed over one by one, watched, and recorded where their own process could not.

Tune schedules, restarts what was killed and reuses warm processes. Seeds, order, resume and progress are ours.
"""

import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from ray import tune
from ray.tune import CheckpointConfig, FailureConfig, TuneConfig, Tuner
from ray.tune import RunConfig as TuneRunConfig
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.schedulers import AsyncHyperBandScheduler, MedianStoppingRule, TrialScheduler
from ray.tune.search import Searcher

from recstudy.cluster.connection import concurrent_runs
from recstudy.cluster.group import COORDINATOR, RESTARTS, coordinator
from recstudy.cluster.held import HeldRuns
from recstudy.cluster.leaving import Leaving
from recstudy.cluster.placement_groups import Groups
from recstudy.cluster.prometheus import Metrics
from recstudy.cluster.trackers import Logger, make_loggers
from recstudy.cluster.view import View
from recstudy.cluster.worker import inline
from recstudy.config import Place
from recstudy.plugins import bundle
from recstudy.records import Failure, Results, Stopped, score_name, write_record
from recstudy.study.study import Run
from recstudy.train.trial import failed
from recstudy.train.work import Trial, Work

Outcome = dict[str, Any]

SAME = 3  # runs that fail with one and the same error before any succeeds: the rest would too

STOPPERS = {AsyncHyperBandScheduler: "asha", MedianStoppingRule: "median"}


@dataclass(frozen=True)
class Where:
    """Where a study runs; nothing here decides a number."""

    address: str | None = None
    data: Path = Path("data")
    download: bool = False
    commit: str | None = None  # of the study's repository
    dirty: bool = False
    recstudy: str = ""  # its commit, where that is of another repository
    log: tuple[str, ...] = ()  # by which of Ray's loggers, see `loggers.py`


class Source(Protocol):
    """Where runs come from, and who is told of them."""

    waiting: deque[Run]  # go first, in their order

    @property
    def over(self) -> bool:
        """Ends everything at once; what is under way goes on from its checkpoint another time."""

    def next(self) -> Run | None:
        """The next run, or None for the time being; asked again as long as any run is under way."""

    def started(self, run: Run) -> None:
        """Its process has begun, for the first time or again."""

    def epoch(self, run: Run, line: Outcome) -> None:
        """An epoch that Tune hears of."""

    def left(self, run: Run) -> None:
        """Its process has left it without an outcome; it is begun again later."""

    def ended(self, run: Run, outcome: Outcome) -> None:
        """`{"status": "done" | "diverged" | "failed" | "stopped", ...}`."""


@dataclass
class Listed:
    """A list of runs, and nobody to tell."""

    waiting: deque[Run]
    over: bool = False

    def next(self) -> None: ...
    def started(self, run: Run) -> None: ...
    def epoch(self, run: Run, line: Outcome) -> None: ...
    def left(self, run: Run) -> None: ...
    def ended(self, run: Run, outcome: Outcome) -> None: ...


@dataclass
class Sweep:
    """A study's or a search's way of running runs; `errors` and `succeeded` tell how it goes.

    Args:
        name: of the study.
        results: where the workers write their records.
        where: cluster and data.
        view: is told what happens.
        work: what is done with a trial.
    """

    name: str
    results: Results
    where: Where
    view: View
    work: Work
    errors: list[str] = field(default_factory=list)
    succeeded: bool = False

    def __post_init__(self) -> None:
        loggers = make_loggers(self.where.log, self.name, self.results, self.view)
        self.metrics = Metrics(self.name)
        self.listeners: list[Metrics | Logger] = [self.metrics, *loggers]
        self.leaving = Leaving()

    def run(self, place: Place, source: Source, scheduler: TrialScheduler | None = None) -> None:
        """Run what `source` gives until it gives no more.

        A run that found no memory is tried once more at the end, alone. A sweep whose first runs all fail alike is given up. One
        that SIGTERM asks to end does so once its runs have left, each after its epoch, as by Ctrl-C.

        Args:
            place: of every run, with its GPUs decided.
            source: of runs; is told what becomes of them.
            scheduler: may stop a run early by its epochs; such a run is recorded as stopped.
        """
        watch = _Watch(self, source, scheduler)
        with self.leaving.on_sigterm():
            self._fit(watch, place, concurrent_runs(place), scheduler)
            if watch.starved and not self.hopeless:
                self._fit(_Watch(self, Listed(deque(watch.starved)), None), place, 1, None)
        if self.hopeless:
            self.view.gave_up(self.errors[0], SAME)

    @property
    def hopeless(self) -> bool:
        """Whether the first runs all failed in the same way."""
        return not self.succeeded and len(self.errors) >= SAME and len(set(self.errors)) == 1

    def _fit(self, watch: "_Watch", place: Place, at_once: int, scheduler: TrialScheduler | None) -> None:
        resources = COORDINATOR if place.uses_train else {"cpu": place.cpus_per_run, "gpu": place.gpus_per_run or 0}
        os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(at_once)
        scratch = tempfile.mkdtemp(prefix="recstudy-", dir=self._shared)
        supply = _Supply(watch, lambda run: self._trial(run, place, scratch))
        tuner = Tuner(
            tune.with_resources(self._trainable(place), resources),
            tune_config=TuneConfig(
                search_alg=supply,
                num_samples=-1,
                scheduler=scheduler,
                reuse_actors=True,
                max_concurrent_trials=at_once,
            ),
            run_config=TuneRunConfig(
                name=self.name,
                storage_path=scratch,
                verbose=0,
                callbacks=[watch, *([Groups()] if place.uses_train else [])],
                stop=_Over(lambda: self.hopeless or watch.source.over),
                failure_config=FailureConfig(max_failures=0 if place.uses_train else RESTARTS),
                checkpoint_config=CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=False),
            ),
        )
        try:
            tuner.fit()
        finally:
            for listener in self.listeners:
                listener.close()
            shutil.rmtree(scratch, ignore_errors=True)

    def _trainable(self, place: Place) -> Any:
        """What Tune calls with a trial: once a process it gets what is the same for all."""
        work, plugins = self.work, asdict(bundle())
        if place.uses_train:
            return coordinator(self.name, work, plugins)

        def named(settings: dict[str, Trial]) -> None:
            inline(replace(settings["trial"], plugins=plugins), work)

        named.__name__ = self.name  # what the dashboard's Actors page shows
        return named

    def _trial(self, run: Run, place: Place, scratch: str) -> Trial:
        return Trial(
            study=self.name,
            label=run.label,
            config={**run.config.values, "place": place.model_dump()},
            run_id=run.id,
            folder=str(self.results.run(run.id).path),
            data=str(self.where.data.absolute()),
            download=self.where.download,
            scratch=scratch,
            commit=self.where.commit,
            dirty=self.where.dirty,
            recstudy=self.where.recstudy,
            store=self.results.store,
        )

    @property
    def _shared(self) -> Path | None:
        """A folder that all nodes see, where there is one."""
        return self.results.root if self.where.address and not self.results.store else None


class _Supply(Searcher):
    """Hands Tune one run after another."""

    def __init__(self, watch: "_Watch", trial: Callable[[Run], Trial]) -> None:
        super().__init__()
        self.watch, self.trial = watch, trial

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune writes its own state to disk; it is never restored from there

    def suggest(self, trial_id: str) -> dict[str, Trial] | str | None:
        run = self.watch.next()
        if run is not None:
            return {"trial": self.trial(run)}
        return None if self.watch.more else Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        """The watch is told."""

    def save(self, checkpoint_path: str) -> None:
        """See `__getstate__`."""

    def restore(self, checkpoint_path: str) -> None:
        """See `__getstate__`."""


class _Watch(tune.Callback):
    """Tells the sweep what Tune sees, and records what a run's own process did not live to record."""

    def __init__(self, sweep: Sweep, source: Source, scheduler: TrialScheduler | None) -> None:
        self.sweep, self.source = sweep, source
        self.stopped_by = STOPPERS.get(type(scheduler), "")
        self.runs: dict[str, Run] = {}  # under way
        self.held = HeldRuns(sweep.results, sweep.view)
        self.starved: list[Run] = []  # found no memory
        self.told = (sweep.view, source, *sweep.listeners)

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def next(self) -> Run | None:
        """The run that is begun next, or None for the time being."""
        if self.sweep.leaving.asked:
            return None
        for run, vain in self.held.free():
            if vain is None:
                self.source.waiting.append(run)
            else:
                self._ended(run, failed(Failure(error_class="storage", error=str(vain))))
        following = self.source.waiting.popleft() if self.source.waiting else self.source.next()
        if following is not None:
            self.runs[following.id] = following
        elif not self.runs:
            self.held.tell()
        return following

    @property
    def more(self) -> bool:
        """Whether there may be another one later."""
        return bool(self.runs or (self.held and not self.sweep.leaving.asked))

    def on_step_begin(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        if self.sweep.leaving.tell():
            self.sweep.view.leaving(len(self.runs))

    def on_trial_start(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        if run := self._run(trial):
            for listener in self.told:
                listener.started(run)

    def on_trial_result(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, result: Outcome, **info: Any) -> None:
        run = self._run(trial)
        if run is None:
            return
        for text in result.get("warnings", ()):
            self.sweep.view.warned(run, text)
        status = result.get("status")
        if status in ("drained", "held"):
            self._left(run)
        if status == "drained":  # its node is wanted back: it goes on from its checkpoint elsewhere
            self.source.waiting.append(run)
        elif status == "held":
            self.held.add(run, result["by"])
        elif status is not None:
            self._ended(run, result)
        else:
            for listener in self.told:
                listener.epoch(run, result)

    def on_trial_complete(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        run, last = self._run(trial), trial.last_result
        if run is not None and "status" not in last:  # no outcome came: the scheduler stopped it
            record = Stopped(epoch=last["epoch"], score=last.get(score_name(last)), by=self.stopped_by)
            folder = self.sweep.results.run(run.id)
            with self.sweep.results.changing(folder.stopped):
                write_record(folder.stopped, record)
            self._ended(run, {"status": "stopped", "epoch": record.epoch, "score": record.score})

    def on_step_end(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        self.sweep.metrics.show()

    def on_trial_recover(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        if run := self._run(trial):
            self.sweep.view.restarted(run, _lost(trial).error)

    def on_trial_error(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        run = self._run(trial)
        if run is None:
            return
        folder = self.sweep.results.pull(run.id).run(run.id)
        failure = folder.last_failure
        if failure is None or failure.attempts != folder.tries:  # its own process did not live to tell
            failure = _lost(trial)
            if not folder.finished:
                with self.sweep.results.changing(folder.failure):
                    folder.fail(failure)
        self._ended(run, failed(failure))

    def _left(self, run: Run) -> None:
        del self.runs[run.id]
        for listener in (self.sweep.view, self.source, self.sweep.metrics):
            listener.left(run)

    def _ended(self, run: Run, outcome: Outcome) -> None:
        self.runs.pop(run.id, None)
        self.sweep.results.pull(run.id)
        if outcome["status"] == "failed":
            # A path in the run's own folder is no difference.
            self.sweep.errors.append(str(outcome["error"]).replace(run.id, "ID"))
            self.starved += [run] if outcome.get("class") == "out of memory" else []
        else:
            self.sweep.succeeded = True
        for listener in self.told:
            listener.ended(run, outcome)

    def _run(self, trial: TuneTrial) -> Run | None:
        """Whose trial it is; None where its outcome is known: its process died behind it, and Tune has begun another one."""
        return self.runs.get(_settings(trial).run_id)


class _Over(tune.Stopper):
    """Ends everything at once."""

    def __init__(self, over: Callable[[], bool]) -> None:
        self.over = over

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __call__(self, trial_id: str, result: Outcome) -> bool:
        return False

    def stop_all(self) -> bool:
        return self.over()


def _lost(trial: TuneTrial) -> Failure:
    """Why a trial's process ended, from what Ray says of it."""
    said = Path(trial.error_file).read_text() if trial.error_file else ""
    reason = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "its process ended")
    low = "running low on memory" in said
    return Failure(
        error_class="out of memory" if low or "OutOfMemory" in said else "lost node",
        error="its node ran low on memory, and Ray ended its process" if low else reason,
        traceback=said,
    )


def _settings(trial: TuneTrial) -> Trial:
    return trial.config["trial"]
