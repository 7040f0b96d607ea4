"""What a run costs besides its training: 200 runs that train nothing, through the driver and through plain
Ray Tune.

The clock runs from the moment Ray is up until it is shut down again: starting the workers, placing the
trials, the records and the end of `Tuner.fit` count, `ray.init` does not; over 200 runs. The driver's trials
write every record that a real run writes but its weights. Plain Tune's trials write nothing of their own;
with torch they import it, as each that trains does. The rounds alternate, in one process, each in a Ray
session of its own; `reuse_actors=False`, which is Tune's default, starts a process a trial and is measured
once.
"""

import io
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from figure import Figure
from ray import tune
from ray.tune import Callback, TuneConfig, Tuner
from ray.tune import RunConfig as TuneRunConfig
from rich.console import Console

from recstudy import Resources, Study, grid
from recstudy.cluster.driver import run_plan
from recstudy.cluster.sources import RunOptions
from recstudy.cluster.view import View
from recstudy.programs.base import Report, Trial
from recstudy.records import Json, Result, Results, Run, RunFolder
from recstudy.records.files import append_line, write_json
from recstudy.records.locks import locked
from recstudy.records.schema import current_time
from recstudy.recursive import Digits, RunConfig, TrainConfig, ViTRM
from recstudy.study.plan import make_plan

RUNS, SEEDS, ROUNDS = 200, 2, 3
MARK_MS = 80


def measure(options: object) -> list[Figure]:
    """Milliseconds a run, the two sides in turns."""
    bare_times, plain_times, ours = (
        ([], []),
        ([], []),
        ([], []),
    )  # over the whole session, and from one end to the next
    for _ in range(ROUNDS):
        for side, measured in (
            (bare_times, through_plain_tune(empty)),
            (plain_times, through_plain_tune(with_torch)),
            (ours, through_driver()),
        ):
            for times, value in zip(side, measured, strict=True):
                times.append(value)
    fresh, _ = through_plain_tune(empty, reuse=False)
    return [
        Figure(
            "a run through the driver",
            "ms",
            ours[0],
            maximum=MARK_MS,
            note=f"{RUNS} runs, records included, without ray.init",
        ),
        Figure(
            "from one end to the next",
            "ms",
            ours[1],
            note="the same, from the first run's end to the last one's",
        ),
        Figure("a run through plain Tune, warm", "ms", bare_times[0], note="reuse_actors=True, no records"),
        Figure("the same with torch", "ms", plain_times[0], note="each trial imports it; no records"),
        Figure("with torch, from one end to the next", "ms", plain_times[1], note="no records"),
        Figure(
            "a run through plain Tune",
            "ms",
            [fresh],
            note="reuse_actors=False, its default: a process a trial",
        ),
        Figure("driver / plain Tune, warm", "x", ratios(ours[0], bare_times[0])),
        Figure("driver / plain Tune with torch", "x", ratios(ours[0], plain_times[0])),
        Figure("the same, from one end to the next", "x", ratios(ours[1], plain_times[1]), maximum=1.3),
        Figure("driver / plain Tune", "x", [duration / fresh for duration in ours[0]]),
    ]


def ratios(ours: list[float], their_times: list[float]) -> list[float]:
    return [our_time / their_time for our_time, their_time in zip(ours, their_times, strict=True)]


# ----------------------------------------------------------------------------------------------------------
# the driver


@dataclass
class Stopwatch(View):
    """A silent view that notes when Ray is up and when each run ends."""

    connected_at: float = 0.0
    end_times: list[float] = field(default_factory=list)

    def connected(self, dashboard: str) -> None:
        self.connected_at = time.perf_counter()

    def on_end(self, run: Run, outcome: Any) -> None:
        assert outcome["status"] in ("done", "stopped"), outcome
        self.end_times.append(time.perf_counter())


def through_driver() -> tuple[float, float]:
    """Milliseconds a run: over the whole session, and between the first and the last end."""
    plan = make_plan(idle_study())
    with tempfile.TemporaryDirectory() as folder, environment():
        results, clock = Results(Path(folder) / "results"), Stopwatch(Console(file=io.StringIO()))
        run_plan(plan, results, RunOptions(data=Path(folder)), clock, plan.runs, work=no_op)
        end = time.perf_counter()
        assert sum(state == "done" for state in results.states().values()) == RUNS
    return 1e3 * (end - clock.connected_at) / RUNS, 1e3 * (clock.end_times[-1] - clock.end_times[0]) / (
        RUNS - 1
    )


def idle_study() -> Study:
    rates = [round(1e-5 * step, 9) for step in range(1, RUNS // SEEDS + 1)]
    base = RunConfig(
        data=Digits(),
        model=ViTRM(width=64, heads=4, patch=2),
        train=TrainConfig(epochs=1),
        resources=Resources(gpus=0),
    )
    return Study("idle", {"quick": base}, grid({"train.learning_rate": rates}), seeds=SEEDS)


def no_op(trial: Trial, report: Report, leave: Callable[[], bool]) -> Json:
    """A worker's records, in a worker's order, without a run."""
    folder = RunFolder(Path(trial.folder))
    with locked(folder.path / "lock", wait=True):
        append_line(
            folder.attempts, {"started": current_time(), "host": socket.gethostname(), "process": os.getpid()}
        )
        write_json(folder.config, trial.config)
        folder.keep_epochs(end_epoch=0)
        append_line(folder.epochs, {"epoch": 0, "train_loss": 0.0})
        folder.finish(Result(status="done", metrics={"top1_accuracy": 0.0}, attempts=1))
    return {"status": "done", "score": 0.0}


# ------------------------------------------------------------------------------------------------------------
# plain Tune


def empty(settings: dict[str, Any]) -> None:
    tune.report({"score": 0.0})


def with_torch(settings: dict[str, Any]) -> None:
    import torch  # noqa: F401

    tune.report({"score": 0.0})


@dataclass
class EndTimes(Callback):
    """Notes when each trial ends."""

    times: list[float] = field(default_factory=list)

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        self.times.append(time.perf_counter())


def through_plain_tune(trial: Callable[[dict[str, Any]], None], reuse: bool = True) -> tuple[float, float]:
    """Milliseconds a trial of Ray Tune as it comes, but for its console output; as `through_driver`."""
    end_times = EndTimes()
    with tempfile.TemporaryDirectory() as folder, environment(), redirect_stdout(io.StringIO()):
        ray.init(
            address="local",
            include_dashboard=True,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=2**28,
        )
        start_time = time.perf_counter()
        Tuner(
            tune.with_resources(trial, {"cpu": 1}),
            param_space={"index": tune.grid_search(list(range(RUNS)))},
            tune_config=TuneConfig(reuse_actors=reuse),
            run_config=TuneRunConfig(name="plain", storage_path=folder, verbose=0, callbacks=[end_times]),
        ).fit()
        ray.shutdown()
        total_seconds = time.perf_counter() - start_time
    return 1e3 * total_seconds / RUNS, 1e3 * (end_times.times[-1] - end_times.times[0]) / (RUNS - 1)


@contextmanager
def environment() -> Iterator[None]:
    """Undo the environment variables that are set inside: the driver sets some, and plain Tune is to run
    without them.
    """
    saved_environment = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved_environment)
