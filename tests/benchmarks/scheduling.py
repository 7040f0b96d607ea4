"""What a run costs besides its training: 200 runs that train nothing, through the driver and through plain Ray Tune.

The clock runs from the end of the first run to the end of the last one. The driver's trials are runs of a function that
returns at once, with all of their records. Plain Tune's trials write nothing of their own; with torch they import it, as each that
trains does. The rounds alternate, in one process, each in a Ray session of its own.
"""

import io
import os
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

from recstudy import Metric, Study, grid
from recstudy.cluster.driver import run_plan
from recstudy.cluster.sources import RunOptions
from recstudy.cluster.view import View
from recstudy.programs.function import RunContext
from recstudy.records import Results, Run
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
    study = Study(
        "idle",
        variants=grid({"rate": list(range(1, RUNS // SEEDS + 1))}),
        seeds=SEEDS,
        program=idle,
        settings={"rate": 0},
        metrics={"score": Metric()},
    )
    plan = make_plan(study, changes={"resources.gpus": 0})
    with tempfile.TemporaryDirectory() as folder, environment():
        results, clock = Results(Path(folder) / "results"), Stopwatch(Console(file=io.StringIO()))
        run_plan(plan, results, RunOptions(data=Path(folder)), clock, plan.runs)
        assert sum(state == "done" for state in results.states().values()) == RUNS
    return ms_per_run(clock.end_times)


def idle(run: RunContext) -> dict[str, float]:
    """Report one epoch, and return a score."""
    run.report(0, loss=0.0)
    return {"score": 0.0}


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
