"""What judging a network by puzzles takes: memory by segments and by puzzles, each in a process of its own.

64 drawn 6x6 Sudokus are thought about for 16 and for 1,024 segments. A test set of the size of
Sudoku-Extreme's is made of drawn 9x9 puzzles under symmetries, in the official layout; a process reads it and
does with it what a run does at its end.

    python tests/benchmarks/evaluating.py segments COUNT     bytes at the most, with so many segments
    python tests/benchmarks/evaluating.py puzzles FOLDER     bytes at the most, to evaluate the set in FOLDER
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from figure import Figure

from recstudy import RunConfig, TrainConfig
from recstudy.data import Sudoku, SudokuExtreme
from recstudy.data.cache import load
from recstudy.data.official_layout import PARTS, Description
from recstudy.models import TRM
from recstudy.train.loop import Training

CPU = torch.device("cpu")
MODEL = TRM(
    tokens="cell", mixing="mlp", width=64, expansion=2, multiple=32, prefix=1, cycles=1, latent_steps=1
)
SLOTS = TrainConfig(halting="sample", supervision_steps=4, batch_size=32, selection="last")
FEW, MANY = 16, 1024  # segments
PUZZLES = 64
TINY = MODEL.model_copy(update={"width": 16, "layers": 1})
SMALL = RunConfig(
    data=Sudoku(side=6, givens=10, puzzles=PUZZLES, test_puzzles=PUZZLES), model=TINY, train=SLOTS
)
TEST_PUZZLES = 423_000  # of Sudoku-Extreme
DRAWN = 100  # of which they are made
LARGE = RunConfig(
    data=SudokuExtreme(),
    model=TINY,
    train=SLOTS.model_copy(update={"batch_size": 768, "evaluation_steps": 2, "evaluation_depths": 2}),
)
Measured = Mapping[str, float]


def measure(options: object) -> list[Figure]:
    """Peak memory by segments, then of a large test set."""
    few, many = (
        [peak["bytes"] / 1e6 for peak in (apart("segments", count) for _ in range(3))]
        for count in (FEW, MANY)
    )
    name = f"{PUZZLES} 6x6 puzzles"
    more = [after - before for before, after in zip(sorted(few), sorted(many), strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        write_set(Path(folder) / LARGE.data.model_dump()["path"], TEST_PUZZLES)
        large = apart("puzzles", folder)
    what = f"evaluating {TEST_PUZZLES:,} 9x9 puzzles"
    return [
        Figure(f"{name}, {FEW} segments, peak memory", "MB", few),
        Figure(f"{name}, {MANY:,} segments, peak memory", "MB", many),
        Figure(f"{name}, what {MANY:,} segments take more than {FEW}", "MB", more, most=5),
        Figure(
            f"{what}, peak memory",
            "MB",
            [large["bytes"] / 1e6],
            most=1200,
            note=f"{large['before'] / 1e6:.0f} before",
        ),
        Figure(what, "s", [large["seconds"]], note="processor time; two segments of a tiny network"),
    ]


def write_set(folder: Path, puzzles: int) -> None:
    """Both splits in the official layout, a puzzle a group, as many hundreds as fit; 1,000 that train."""
    drawn = load(Sudoku(side=9, puzzles=DRAWN, test_puzzles=DRAWN), folder.parent, hold_out=False)
    for part, split, count in zip(PARTS, (drawn.train, drawn.test), (1000, puzzles), strict=True):
        given, answers = (
            torch.from_numpy(np.array(tokens)).flatten(1) for tokens in (split.images, split.labels)
        )
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
        (folder / part / "dataset.json").write_text(about.model_dump_json(), encoding="utf-8")


def apart(what: str, asked: object) -> Measured:
    """Return what a process measures that does nothing else, by one thread."""
    command = [sys.executable, str(Path(__file__)), what, str(asked)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment, encoding="utf-8")
    found: Measured = json.loads(done.stdout.splitlines()[-1])
    return found


def judged(config: RunConfig, folder: Path) -> Measured:
    torch.set_num_threads(1)
    before, began = status("VmRSS"), time.process_time()
    Training(config, load(config.data, folder, hold_out=False), CPU).finish()
    return {"bytes": status("VmHWM"), "before": before, "seconds": time.process_time() - began}


def by_segments(count: str) -> Measured:
    config = SMALL.with_changes({"train.evaluation_steps": FEW, "train.evaluation_depths": int(count)})
    return judged(config, Path())


def status(field: str) -> int:
    """Return bytes, from the kernel's book about this process."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    parts: dict[str, Callable[[str], Measured]] = {
        "segments": by_segments,
        "puzzles": lambda folder: judged(LARGE, Path(folder)),
    }
    print(json.dumps(parts[sys.argv[1]](sys.argv[2])))
