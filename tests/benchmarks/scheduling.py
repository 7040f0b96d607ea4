"""What a run costs besides its training: 200 runs that train nothing, through the driver and through plain Ray Tune.

The clock runs from the end of the first run to the end of the last one. The driver's trials write every record that a
real run writes but its weights. Plain Tune's trials write nothing of their own; with torch they import it, as each that
trains does. The rounds alternate, in one process, each in a Ray session of its own.
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

import numpy as np
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
from recstudy.programs.attempt import Report, Trial
from recstudy.records import Json, Result, Results, Run, RunFolder
from recstudy.records.files import append_line, write_json
from recstudy.records.locks import locked
from recstudy.records.schema import current_time
from recstudy.recursive import Digits, RunConfig, TrainConfig, ViTRM
from recstudy.study.plan import make_plan

RUNS, SEEDS, ROUNDS = 200, 2, 3


def measure() -> list[Figure]:
    """Return milliseconds a run, the sides in turns."""
    ours, bare, with_torch = list[float](), list[float](), list[float]()
    for _ in range(ROUNDS):
        bare.append(through_plain_tune(report))
        with_torch.append(through_plain_tune(report_with_torch))
        ours.append(through_driver())
    ratios, torch_ratios = (np.divide(ours, times).tolist() for times in (bare, with_torch))
    return [
        Figure("a run through the driver", "ms", ours, maximum=80, note=f"{RUNS} runs, records included"),
        Figure("a run through plain Tune, warm", "ms", bare, note="reuse_actors=True, no records"),
        Figure("the same with torch", "ms", with_torch, note="each trial imports it; no records"),
        Figure("driver / plain Tune, warm", "x", ratios),
        Figure("driver / plain Tune with torch", "x", torch_ratios, maximum=1.3),
    ]


def ms_per_run(end_times: list[float]) -> float:
    return 1e3 * (end_times[-1] - end_times[0]) / (RUNS - 1)


@dataclass
class Stopwatch(View):
    """A silent view that notes when each run ends."""

    end_times: list[float] = field(default_factory=list)

    def on_end(self, run: Run, outcome: Any) -> None:
        assert outcome["status"] in ("done", "stopped"), outcome
        self.end_times.append(time.perf_counter())


def through_driver() -> float:
    base = RunConfig(
        data=Digits(),
        model=ViTRM(width=64, heads=4, patch=2),
        train=TrainConfig(epochs=1),
        resources=Resources(gpus=0),
    )
    rates = [round(1e-5 * step, 9) for step in range(1, RUNS // SEEDS + 1)]
    plan = make_plan(Study("idle", {"quick": base}, grid({"train.learning_rate": rates}), seeds=SEEDS))
    with tempfile.TemporaryDirectory() as folder, environment():
        results, clock = Results(Path(folder) / "results"), Stopwatch(Console(file=io.StringIO()))
        run_plan(plan, results, RunOptions(data=Path(folder)), clock, plan.runs, work=write_records)
        assert sum(state == "done" for state in results.states().values()) == RUNS
    return ms_per_run(clock.end_times)


def write_records(trial: Trial, report: Report, leave: Callable[[], bool]) -> Json:
    """Write a worker's records, in a worker's order, without a run."""
    folder = RunFolder(Path(trial.folder))
    with locked(folder.path / "lock", wait=True):
        attempt = {"started": current_time(), "host": socket.gethostname(), "process": os.getpid()}
        append_line(folder.attempts, attempt)
        write_json(folder.config, trial.config)
        folder.keep_epochs(end_epoch=0)
        append_line(folder.epochs, {"epoch": 0, "train_loss": 0.0})
        folder.finish(Result(status="done", metrics={"top1_accuracy": 0.0}, attempts=1))
    return {"status": "done", "score": 0.0}


def report(settings: dict[str, Any]) -> None:
    tune.report({"score": 0.0})


def report_with_torch(settings: dict[str, Any]) -> None:
    import torch  # noqa: F401

    tune.report({"score": 0.0})


@dataclass
class EndTimes(Callback):
    """Notes when each trial ends."""

    times: list[float] = field(default_factory=list)

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        self.times.append(time.perf_counter())


def through_plain_tune(trial: Callable[[dict[str, Any]], None]) -> float:
    """Return milliseconds a trial of Ray Tune as it comes, but for its console output."""
    end_times = EndTimes()
    with tempfile.TemporaryDirectory() as folder, environment(), redirect_stdout(io.StringIO()):
        ray.init(
            address="local",
            include_dashboard=True,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=2**28,
        )
        Tuner(
            tune.with_resources(trial, {"cpu": 1}),
            param_space={"index": tune.grid_search(list(range(RUNS)))},
            tune_config=TuneConfig(reuse_actors=True),
            run_config=TuneRunConfig(name="plain", storage_path=folder, verbose=0, callbacks=[end_times]),
        ).fit()
        ray.shutdown()
    return ms_per_run(end_times.times)


@contextmanager
def environment() -> Iterator[None]:
    """Undo the environment variables that are set inside: plain Tune runs without those of the driver."""
    saved_environment = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved_environment)
