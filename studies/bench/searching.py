"""What a search costs besides its training: trials that train nothing, through our driver and through OptunaSearch in Tune.

Both sample by TPE from the same three ranges and reuse their processes; two trials at once. The clock runs from the moment Ray
is up until `Tuner.fit` has returned and Ray is shut down. Our trials write their result, which the search goes by, and the
driver its log; OptunaSearch's trials write nothing of their own. What a run's other records cost is in `scheduling`. The rounds
alternate, each in a Ray session of its own.

The long search says whether a trial costs the same at the end as at the start, and whether the driver's memory stays flat; it
is the driver's own process that is looked at, so Python's and Ray's allocations count.
"""

import io
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from figure import Figure
from ray import tune
from ray.tune import RunConfig as TuneRunConfig
from ray.tune import TuneConfig, Tuner
from ray.tune.search.optuna import OptunaSearch
from rich.console import Console
from scheduling import environment

from recstudy import Place, RunConfig, Search, TrainConfig
from recstudy.cluster.searching import run_search
from recstudy.cluster.sources import Where
from recstudy.cluster.view import View
from recstudy.data import Digits
from recstudy.models import ViTRM
from recstudy.records import Json, Result, Results, RunFolder
from recstudy.records.schema import Selected
from recstudy.study.search_making import make_search
from recstudy.study.study import Run
from recstudy.train.work import Report, Trial

TRIALS, ROUNDS, LONG = 100, 3, 1000
MARK, FLAT, GROWTH = 1.2, 1.1, 2.0


def measure(options: object) -> list[Figure]:
    """Milliseconds a trial, the two sides in turns; then the long search."""
    ours, plain = [], []
    for _ in range(ROUNDS):
        plain.append(through_tune())
        ours.append(through_driver(TRIALS))
    steady = [[1e3 * clock.between(10, TRIALS) for clock in side] for side in (ours, plain)]
    whole = [[clock.milliseconds for clock in side] for side in (ours, plain)]
    long = through_driver(LONG)
    early, late = long.between(100, 300), long.between(LONG - 200, LONG)
    growth = [long.memory[LONG - 1] / long.memory[199]]
    return [
        Figure("from one end to the next, our search", "ms", steady[0], note="result and log included, from the 10th trial on"),
        Figure("from one end to the next, OptunaSearch", "ms", steady[1], note="TPE, reuse_actors=True, no records"),
        Figure("search / OptunaSearch", "x", ratios(*steady), most=MARK, note="scheduling of a trial"),
        Figure("whole session a trial, our search", "ms", whole[0], note=f"{TRIALS} trials; the workers import torch"),
        Figure("whole session a trial, OptunaSearch", "ms", whole[1], note="its workers import nothing"),
        Figure("memory, trial 1,000 / trial 200", "x", growth, most=FLAT, note="resident, of the driver's process"),
        Figure("cost of a trial, last 200 / 100 to 300", "x", [late / early], most=GROWTH),
    ]


def ratios(ours: list[float], plain: list[float]) -> list[float]:
    return [one / other for one, other in zip(ours, plain, strict=True)]


@dataclass
class Clock:
    """When Ray was up, when each trial ended and how much memory the driver then had."""

    up: float = 0.0
    ends: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    milliseconds: float = 0.0  # a trial, over the whole session

    def between(self, first: int, last: int) -> float:
        """Seconds a trial."""
        return (self.ends[last - 1] - self.ends[first - 1]) / (last - first)


@dataclass
class Stopwatch(View):
    """A silent view that notes them."""

    clock: Clock = field(default_factory=Clock)

    def connected(self, dashboard: str) -> None:
        self.clock.up = time.perf_counter()

    def ended(self, run: Run, outcome: Any) -> None:
        assert outcome["status"] == "done", outcome
        self.clock.ends.append(time.perf_counter())
        self.clock.memory.append(resident())


def resident() -> int:
    """Bytes of this process in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def through_driver(trials: int) -> Clock:
    with tempfile.TemporaryDirectory() as folder, environment():
        plan = make_search(idle_search(trials), seeds=0)
        view = Stopwatch(Console(file=io.StringIO()))
        run_search(plan, Results(Path(folder) / "results"), Where(data=Path(folder)), view, work=no_op)
        clock = view.clock
        clock.milliseconds = 1e3 * (time.perf_counter() - clock.up) / trials
        assert len(clock.ends) == trials
    return clock


def idle_search(trials: int) -> Search:
    base = RunConfig(
        data=Digits(), model=ViTRM(width=64, heads=4, patch=2), train=TrainConfig(epochs=1), place=Place(gpus_per_run=0)
    )
    return Search(
        "idle", {"quick": [base]}, vary=("train.learning_rate", "train.weight_decay", "model.latent_steps"), budget=str(trials)
    )


def no_op(trial: Trial, report: Report, leave: Callable[[], bool]) -> Json:
    """A result without a run."""
    folder = RunFolder(Path(trial.folder))
    folder.path.mkdir(parents=True)
    score = -trial.config["train"]["learning_rate"]
    folder.finish(Result(status="done", metrics={}, selected=Selected(scores={"top1_accuracy": score})))
    return {"status": "done", "score": score}


class Ends(tune.Callback):
    """Notes them in plain Tune."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        self.clock.ends.append(time.perf_counter())


def through_tune() -> Clock:
    """Tune with its own OptunaSearch."""

    def empty(settings: dict[str, Any]) -> None:
        tune.report({"score": -settings["rate"]})

    space = {"rate": tune.loguniform(1e-5, 1e-2), "decay": tune.loguniform(1e-3, 1.0), "steps": tune.randint(1, 7)}
    with tempfile.TemporaryDirectory() as folder, environment(), redirect_stdout(io.StringIO()):
        ray.init(address="local", include_dashboard=True, log_to_driver=False, logging_level="ERROR", object_store_memory=2**28)
        clock = Clock(up=time.perf_counter())
        Tuner(
            tune.with_resources(empty, {"cpu": 1}),
            param_space=space,
            tune_config=TuneConfig(
                search_alg=OptunaSearch(metric="score", mode="max"),
                num_samples=TRIALS,
                reuse_actors=True,
                max_concurrent_trials=2,
            ),
            run_config=TuneRunConfig(name="plain", storage_path=folder, verbose=0, callbacks=[Ends(clock)]),
        ).fit()
        ray.shutdown()
        clock.milliseconds = 1e3 * (time.perf_counter() - clock.up) / TRIALS
    return clock
