"""How fast TRM-MLP trains on 6x6 Sudokus beside the same training in plain torch, what torch.compile is worth to it on a CPU, and
what evaluating a test set of the size of Sudoku-Extreme's takes.

Both sides are shown to be one training first: the same weights, and three updates with the same losses. Then they take turns, on
one thread and by processor time, which other work on the machine hardly touches; so do seconds of compiling, those of the
compilers that it starts included, first with an empty cache on disk, then with what that has left there.

The test set is made of drawn puzzles under symmetries, in the official layout; a process of its own reads it and does with it
what a run does at its end.

    python studies/bench/solving.py first FOLDER      processor seconds of the first compiled step, with the cache in FOLDER
    python studies/bench/solving.py test FOLDER       bytes at the most, to evaluate the set in FOLDER
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from figure import Figure
from memory import status
from naive_trm import NaiveTraining
from throughput import in_turns

from recstudy import RunConfig, TrainConfig
from recstudy.data import Sudoku, SudokuExtreme
from recstudy.data.batches import Batch
from recstudy.data.cache import load
from recstudy.data.official_layout import PARTS, Description
from recstudy.models import TRM
from recstudy.train.loop import Training

CPU = torch.device("cpu")
TOKENS = TRM(tokens="cell", mixing="mlp", width=64, expansion=2, multiple=32, prefix=1, cycles=1, latent_steps=1)
# One rate and no exploration, because the plain one has neither a schedule nor our draws.
STEPS = TrainConfig(
    epochs=1, batch_size=128, halting="sample", supervision_steps=4, evaluation_steps=16, learning_rate=2e-3,
    final_learning_rate=2e-3, schedule="update", exploration=0.0, ema_decay=0.99, halt_weight=0.5, selection="last",
)  # fmt: skip
CONFIG = RunConfig(data=Sudoku(side=6, givens=10), model=TOKENS, train=STEPS)
TEST_PUZZLES = 423_000  # of Sudoku-Extreme
DRAWN = 100  # of which they are made
LARGE = RunConfig(
    data=SudokuExtreme(),
    model=TOKENS.model_copy(update={"width": 16, "layers": 1}),
    train=STEPS.model_copy(update={"batch_size": 768, "evaluation_steps": 2, "evaluation_depths": 2}),
)


def measure(options: object) -> list[Figure]:
    """Training, compiling, evaluating."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        batches = full_batches(Path(folder))
        same_training(Path(folder), batches)
        compiling = [first_step(Path(folder)) for _ in range(2)]
        figures = training(Path(folder), batches)
        saved = 1 - 1 / figures[-1].value
        worth = [(seconds / saved) for seconds in compiling]
        return [
            *figures,
            *(
                Figure(f"first compiled step, {cache} cache", "s", [seconds], note=f"pays from {least:.0f} s of training on")
                for cache, seconds, least in zip(("empty", "filled"), compiling, worth, strict=True)
            ),
            *evaluating(Path(folder), TEST_PUZZLES),
        ]


# --------------------------------------------------------------------------------------------------------------- training


def ours(folder: Path, compile: bool = False) -> Training:
    return Training(CONFIG, load(CONFIG.data, folder, hold_out=False), CPU, compile)


def full_batches(folder: Path) -> list[Batch]:
    return [batch for batch in ours(folder)._train.epoch(0) if batch.total == STEPS.batch_size]


def same_training(folder: Path, batches: list[Batch]) -> None:
    """Three losses, equal to 1e-5: the second and third depend on who halted, on the optimiser and on the states."""
    real = ours(folder)
    plain = NaiveTraining(CONFIG, real.state.network)
    losses = [(step(real, batch), plain.step(batch)) for batch in batches[:3]]
    torch.testing.assert_close(*torch.tensor(losses).T, atol=1e-5, rtol=0)


def step(training: Training, batch: Batch) -> float:
    return float(training.train_slots(batch)[0])


def training(folder: Path, batches: list[Batch], updates: int = 5, rounds: int = 9) -> list[Figure]:
    """Updates/s of the plain training and of ours, compiled and not, by turns."""
    real, compiled = ours(folder), ours(folder, compile=True)
    plain = NaiveTraining(CONFIG, real.state.network)
    steps: dict[str, Callable[[Batch], float]] = {
        "plain torch": plain.step,
        "ours": lambda batch: step(real, batch),
        "ours, compiled": lambda batch: step(compiled, batch),
    }
    turns = {side: several(one, batches, updates) for side, one in steps.items()}
    seconds = in_turns(turns, rounds, clock=time.process_time)
    rates = {side: [updates / spent for spent in times] for side, times in seconds.items()}
    pairs = [("ours", "plain torch", None), ("ours, compiled", "plain torch", 1.3), ("ours, compiled", "ours", None)]
    return [
        *(Figure(f"{CONFIG.data.title}: {side}", "updates/s", rate, note="1 core, batch 128") for side, rate in rates.items()),
        *(
            Figure(f"{side} / {other}", "x", [a / b for a, b in zip(rates[side], rates[other], strict=True)], least=least)
            for side, other, least in pairs
        ),
    ]


def several(one: Callable[[Batch], float], batches: list[Batch], updates: int) -> Callable[[], None]:
    waiting = cycle(batches)

    def run() -> None:
        for _ in range(updates):
            one(next(waiting))

    return run


def first_step(folder: Path) -> float:
    """Processor seconds of the first step of a process that compiles, beyond those of a step that does not."""
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "compiled"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    return float(in_process("first", folder, cache))


def compile_first(folder: Path) -> float:
    seconds = []
    batch = full_batches(folder)[0]
    for compile in (False, True):
        training, began = ours(folder, compile), spent()
        step(training, batch)
        seconds.append(spent() - began)
    return seconds[1] - seconds[0]


def spent() -> float:
    """Processor seconds of this process and of those that it has waited for."""
    return sum(os.times()[:4])


# ------------------------------------------------------------------------------------------------------------- evaluating


def evaluating(folder: Path, puzzles: int) -> list[Figure]:
    """The most memory that a process holds which reads so many test puzzles and judges a network by them."""
    write_set(folder / LARGE.data.model_dump()["path"], puzzles)
    found: dict[str, Any] = json.loads(in_process("test", folder))
    what = f"evaluating {puzzles:,} 9x9 puzzles"
    return [
        Figure(f"{what}, peak memory", "MB", [found["bytes"] / 1e6], most=2000, note=f"{found['before'] / 1e6:.0f} before"),
        Figure(what, "s", [found["seconds"]], note="processor time; two segments of a tiny network"),
    ]


def write_set(folder: Path, puzzles: int) -> None:
    """Both splits in the official layout, a puzzle a group, as many hundreds as fit; 1,000 that train."""
    drawn = load(Sudoku(side=9, puzzles=DRAWN, test_puzzles=DRAWN), folder.parent, hold_out=False)
    for part, split, count in zip(PARTS, (drawn.train, drawn.test), (1000, puzzles), strict=True):
        given, answers = (torch.from_numpy(np.array(tokens)).flatten(1) for tokens in (split.images, split.labels))
        draws = torch.rand(count // DRAWN, DRAWN, LARGE.data.draws, dtype=torch.float64)
        turned = zip(*(LARGE.data.turned(given, answers, own) for own in draws), strict=True)
        inputs, labels = (torch.cat(copies).numpy() for copies in turned)
        ends = np.arange(len(inputs) + 1)
        arrays = {"inputs": inputs, "labels": labels, "puzzle_identifiers": np.zeros(len(inputs), int)}
        (folder / part).mkdir(parents=True)
        for name, array in {**arrays, "puzzle_indices": ends, "group_indices": ends}.items():
            np.save(folder / part / f"all__{name}.npy", array)
        about = Description(
            pad_id=0, ignore_label_id=0, blank_identifier_id=0, vocab_size=LARGE.data.classes, seq_len=81,
            num_puzzle_identifiers=1, total_groups=len(inputs), mean_puzzle_examples=1, sets=["all"],
        )  # fmt: skip
        (folder / part / "dataset.json").write_text(about.model_dump_json())


def in_process(what: str, folder: Path, environment: dict[str, str] | None = None) -> str:
    """What a process prints that does nothing else."""
    command = [sys.executable, str(Path(__file__)), what, str(folder)]
    return subprocess.run(
        command, stdout=subprocess.PIPE, check=True, env={**os.environ, **(environment or {})}, text=True
    ).stdout


def judge(folder: Path) -> dict[str, Any]:
    """What is measured of it, in this process, by one thread."""
    torch.set_num_threads(1)
    held, began = status("VmRSS"), time.process_time()
    training = Training(LARGE, load(LARGE.data, folder, hold_out=False), CPU)
    metrics = training.finish()["metrics"]
    print(metrics, file=sys.stderr)
    return {"bytes": status("VmHWM"), "before": held, "seconds": time.process_time() - began}


if __name__ == "__main__":
    print({"first": compile_first, "test": lambda folder: json.dumps(judge(folder))}[sys.argv[1]](Path(sys.argv[2])))
