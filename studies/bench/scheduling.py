"""What a run costs besides its training: 200 runs that train nothing, through the driver and through plain Ray Tune.

The clock runs from the moment Ray is up until it is shut down again: starting the workers, placing the trials, the records
and the end of `Tuner.fit` count, `ray.init` does not; over 200 runs. The driver's trials write every record that a real
run writes but its weights. Plain Tune's trials write nothing of their own. The rounds alternate, in one process, each in a
Ray session of its own; `reuse_actors=False`, which is Tune's default, starts a process a trial and is measured once.
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
from ray.tune import RunConfig as TuneRunConfig
from ray.tune import TuneConfig, Tuner
from rich.console import Console

from recstudy import Place, RunConfig, Study, TrainConfig, grid
from recstudy.cluster.driver import run_study
from recstudy.cluster.sources import Where
from recstudy.cluster.view import View
from recstudy.data import Digits
from recstudy.models import ViTRM
from recstudy.records import Json, Result, Results, RunFolder
from recstudy.records.files import append_line, write_json
from recstudy.records.locks import locked
from recstudy.study.study import Run, make_plan
from recstudy.train.trial import now
from recstudy.train.work import Report, Trial

RUNS, SEEDS, ROUNDS = 200, 2, 3
MARK_MS = 80


def measure(options: object) -> list[Figure]:
    """Milliseconds a run, the two sides in turns."""
    ours, plain, steady = [], [], []
    for _ in range(ROUNDS):
        plain.append(through_plain_tune(reuse=True))
        whole, between = through_driver()
        ours.append(whole)
        steady.append(between)
    fresh = through_plain_tune(reuse=False)
    return [
        Figure("a run through the driver", "ms", ours, most=MARK_MS, note=f"{RUNS} runs, records included, without ray.init"),
        Figure("from one end to the next", "ms", steady, note="the same, from the first run's end to the last one's"),
        Figure("a run through plain Tune, warm", "ms", plain, note="reuse_actors=True, no records"),
        Figure("a run through plain Tune", "ms", [fresh], note="reuse_actors=False, its default: a process a trial"),
        Figure("driver / plain Tune, warm", "x", [one / other for one, other in zip(ours, plain, strict=True)]),
        Figure("driver / plain Tune", "x", [one / fresh for one in ours]),
    ]


# ---------------------------------------------------------------------------------------------------------- the driver


@dataclass
class Stopwatch(View):
    """A silent view that notes when Ray is up and when each run ends."""

    up: float = 0.0
    ends: list[float] = field(default_factory=list)

    def connected(self, dashboard: str) -> None:
        self.up = time.perf_counter()

    def ended(self, run: Run, outcome: Any) -> None:
        assert outcome["status"] in ("done", "stopped"), outcome
        self.ends.append(time.perf_counter())


def through_driver() -> tuple[float, float]:
    """Milliseconds a run: over the whole session, and between the first and the last end."""
    plan = make_plan(idle_study())
    with tempfile.TemporaryDirectory() as folder, environment():
        results, clock = Results(Path(folder) / "results"), Stopwatch(Console(file=io.StringIO()))
        run_study(plan, plan.runs, results, Where(data=Path(folder)), clock, work=no_op)
        end = time.perf_counter()
        assert sum(state == "done" for state in results.states().values()) == RUNS
    return 1e3 * (end - clock.up) / RUNS, 1e3 * (clock.ends[-1] - clock.ends[0]) / (RUNS - 1)


def idle_study() -> Study:
    rates = [round(1e-5 * step, 9) for step in range(1, RUNS // SEEDS + 1)]
    base = RunConfig(
        data=Digits(), model=ViTRM(width=64, heads=4, patch=2), train=TrainConfig(epochs=1), place=Place(gpus_per_run=0)
    )
    return Study("idle", {"quick": base}, grid({"train.learning_rate": rates}), seeds=SEEDS)


def no_op(trial: Trial, report: Report, leave: Callable[[], bool]) -> Json:
    """A worker's records, in a worker's order, without a run."""
    folder = RunFolder(Path(trial.folder))
    with locked(folder.path / "lock", f"process {os.getpid()} on {socket.gethostname()}", wait=True):
        append_line(folder.attempts, {"started": now(), "host": socket.gethostname(), "process": os.getpid()})
        write_json(folder.config, trial.config)
        folder.keep_epochs(below=0)
        append_line(folder.epochs, {"epoch": 0, "train_loss": 0.0})
        folder.finish(Result(status="done", metrics={"top1_accuracy": 0.0}, attempts=1))
    return {"status": "done", "score": 0.0}


# ------------------------------------------------------------------------------------------------------------ plain Tune


def through_plain_tune(reuse: bool) -> float:
    """Milliseconds a trial of Ray Tune as it comes, but for its console output."""

    def empty(settings: dict[str, Any]) -> None:
        tune.report({"score": 0.0})

    with tempfile.TemporaryDirectory() as folder, environment(), redirect_stdout(io.StringIO()):
        ray.init(address="local", include_dashboard=True, log_to_driver=False, logging_level="ERROR", object_store_memory=2**28)
        up = time.perf_counter()
        Tuner(
            tune.with_resources(empty, {"cpu": 1}),
            param_space={"index": tune.grid_search(list(range(RUNS)))},
            tune_config=TuneConfig(reuse_actors=reuse),
            run_config=TuneRunConfig(name="plain", storage_path=folder, verbose=0),
        ).fit()
        ray.shutdown()
        return 1e3 * (time.perf_counter() - up) / RUNS


@contextmanager
def environment() -> Iterator[None]:
    """Undo the environment variables that are set inside: the driver sets some, and plain Tune is to run without them."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
