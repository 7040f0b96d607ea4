"""What Ray Train's workers cost beside the training, next to training inside Tune's own process.

Commands: three tiny runs of the depth sweep, from the command to the first result, to the end, and from the end of one run to
that of the next beside the seconds that it trained (by its record). Plain Ray, for comparison, takes one step of AdamW
(plain.py). No-op runs write every record that a real run writes but its weights; the clock runs over the whole session, with
Ray's start. Memory is that of the worker's process, after each of a hundred runs that train an epoch. A stop is a search whose
runs report without training; the clock runs from the record of a stopped run to the first sign of the next one on the only slot.
"""

import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

from figure import Figure
from rich.console import Console
from scheduling import Stopwatch, environment, no_op

from recstudy import Place, RunConfig, Search, Study, TrainConfig, grid
from recstudy.cluster.driver import run_study
from recstudy.cluster.searching import run_search
from recstudy.cluster.sources import Where
from recstudy.data import Digits
from recstudy.models import ViTRM
from recstudy.records import Attempt, Json, Result, Results, RunFolder
from recstudy.records.schema import Selected
from recstudy.study.search import make_search
from recstudy.study.study import make_plan
from recstudy.train.trial import now, run_trial
from recstudy.train.work import Report, Trial

SWEEP, PLAIN = Path(__file__).parents[1] / "vitrm_depth_sweep.py", Path(__file__).with_name("plain.py")
KINDS = {"inline": ("inline", "1"), "one worker": ("train", "1"), "two workers": ("train", "2")}
FIRST_S, FURTHER_S, WHOLE_S, STOP_S = 12.0, {"one worker": 1.0, "two workers": 1.5}, 30.0, 1.0
NO_OPS, RATIO, LIVES, GROWTH = 60, 1.3, 100, 1.1
STOPS, EPOCHS, EPOCH_S = 20, 9, 0.2
ALL_CORES = os.cpu_count() or 1  # of a run, so that there is one slot
BASE = RunConfig(
    data=Digits(limit=100), model=ViTRM(width=16, heads=2, layers=1, patch=2, latent_tokens=4), train=TrainConfig(epochs=1)
)


def measure(options: object) -> list[Figure]:
    """The three commands, then no-op runs, memory and stops."""
    return [*commands(), *beside_inline(), *of_a_life()]


def commands() -> Iterator[Figure]:
    firsts, wholes = {}, {}
    for kind, place in KINDS.items():
        firsts[kind], wholes[kind], further = command(*place)
        most = FIRST_S if kind == "one worker" else None
        yield Figure(f"first result, {kind}", "s", [firsts[kind]], most=most, note="after the command")
        yield Figure(f"further run, {kind}", "s", further, most=FURTHER_S.get(kind), note="beside its training")
        yield Figure(f"the whole command, {kind}", "s", [wholes[kind]], most=None if kind == "inline" else WHOLE_S)
    for kind in FURTHER_S:
        yield Figure(f"the whole command, {kind} / inline", "x", [wholes[kind] / wholes["inline"]])
    for kind, library in (("inline", "tune"), ("one worker", "train")):
        first, whole = plain(library)
        yield Figure(f"first result, {kind} / plain Ray", "x", [firsts[kind] / first], note=f"{first:.1f} s")
        yield Figure(
            f"the whole command, {kind} / plain Ray", "x", [wholes[kind] / whole], note=f"{whole:.1f} s, one run beside three"
        )


def beside_inline() -> Iterator[Figure]:
    (inline, ours), (train, theirs) = no_ops("inline"), no_ops("train")
    yield Figure(f"{NO_OPS} no-op runs, Train / inline", "x", [train / inline], most=RATIO, note=f"{inline:.0f} s inline")
    yield Figure("from one no-op's end to the next, inline", "ms", [ours])
    yield Figure("from one no-op's end to the next, Train", "ms", [theirs])


def of_a_life() -> Iterator[Figure]:
    yield Figure(f"memory, run {LIVES} / run 10", "x", [memory()], most=GROWTH, note="resident, of the worker's process")
    yield Figure("from a stop to the next run", "s", stops(), most=STOP_S, note="on Train, one worker")


def command(trainer: str, workers: str) -> tuple[float, float, list[float]]:
    """Seconds to the first result and to the end; and of each further run beside its training."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        arguments = ["--smoke", "--only", "latent_steps=1*", "--seeds", "3", "--trainer", trainer, "--workers-per-run", workers]
        arguments += ["--cpus-per-run", str(ALL_CORES // int(workers)), "--results", folder]
        began = time.time()
        process = subprocess.run([sys.executable, SWEEP, *arguments], stdout=output, stderr=output, check=False)
        whole = time.time() - began
        output.seek(0)
        assert process.returncode == 0, output.read().decode()
        results = Path(folder).glob("runs/*/result.json")
        ends = sorted((path.stat().st_mtime, json.loads(path.read_text(encoding="utf-8"))["cost"]["seconds"]) for path in results)
    return ends[0][0] - began, whole, [end - before - trained for (before, _), (end, trained) in pairwise(ends)]


def plain(library: str) -> tuple[float, float]:
    """Seconds until one step was done, and to the end."""
    with tempfile.TemporaryDirectory() as folder:
        done, began = Path(folder) / "done", time.time()
        subprocess.run([sys.executable, PLAIN, library, done], capture_output=True, check=True)
        return done.stat().st_mtime - began, time.time() - began


def no_ops(trainer: str) -> tuple[float, float]:
    """Seconds of the session, and milliseconds from one end to the next."""
    began = time.perf_counter()
    clock = session(NO_OPS, trainer, no_op)
    return time.perf_counter() - began, 1e3 * (clock.ends[-1] - clock.ends[0]) / (NO_OPS - 1)


def session(runs: int, trainer: str, work: Callable[..., Json]) -> Stopwatch:
    place = Place(gpus_per_run=0, cpus_per_run=ALL_CORES, trainer=trainer)
    rates = [round(1e-5 * step, 9) for step in range(1, runs + 1)]
    plan = make_plan(
        Study("idle", {"quick": BASE.model_copy(update={"place": place})}, grid({"train.learning_rate": rates}), seeds=1)
    )
    clock = Stopwatch(Console(file=io.StringIO()))
    with tempfile.TemporaryDirectory() as folder, environment():
        run_study(plan, plan.runs, Results(Path(folder) / "results"), Where(data=Path(folder)), clock, work=work)
    return clock


def memory() -> float:
    """The worker's resident memory after the last run, by that after the tenth."""
    with tempfile.NamedTemporaryFile() as log:
        session(LIVES, "train", partial(trained_and_weighed, log=log.name))
        pages = [int(line) for line in Path(log.name).read_text(encoding="utf-8").split()]
    return pages[-1] / pages[9]


def trained_and_weighed(trial: Trial, report: Report, leave: Callable[[], bool], log: str) -> Json:
    outcome = run_trial(trial, report, leave)
    with open(log, "a", encoding="utf-8") as file:
        file.write(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1] + "\n")
    return outcome


def stops() -> list[float]:
    """Seconds from each stop to the first sign of the next run."""
    place = Place(gpus_per_run=0, cpus_per_run=ALL_CORES, trainer="train")
    base = BASE.with_changes({"train.epochs": EPOCHS}).model_copy(update={"place": place})
    search = Search(
        "idle", {"quick": [base]}, vary=("train.learning_rate",), sampler="random", stopping="asha", budget=str(STOPS + 5)
    )
    plan = make_search(search, seeds=0)
    with tempfile.TemporaryDirectory() as folder, environment():
        results = Results(Path(folder) / "results")
        run_search(plan, results, Where(data=Path(folder)), Stopwatch(Console(file=io.StringIO())), work=worse_and_worse)
        ended = [path.stat().st_mtime for path in results.root.glob("runs/*/stopped.json")]
        begun = [path.stat().st_mtime for path in results.root.glob("runs/*/attempts.jsonl")]
    assert len(ended) >= STOPS, f"{len(ended)} were stopped"
    return [min(start - stop for start in begun if start > stop) for stop in ended if stop < max(begun)]


def worse_and_worse(trial: Trial, report: Report, leave: Callable[[], bool]) -> Json:
    """Trains nothing; its score is below those of all runs before it, so that the rule stops it at its first look."""
    folder, score = RunFolder(Path(trial.folder)), -time.time()
    folder.path.mkdir(parents=True)
    folder.begin(Attempt(started=now()))
    for epoch in range(EPOCHS):
        time.sleep(EPOCH_S)
        report({"epoch": epoch, "epochs_done": epoch + 1, "epochs": EPOCHS, "selection_top1_accuracy": score})
    folder.finish(Result(status="done", metrics={}, attempts=1, selected=Selected(scores={"top1_accuracy": score})))
    return {"status": "done", "score": score}
