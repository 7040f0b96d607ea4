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

from recstudy.recursive import TRM, RunConfig, Sudoku, SudokuExtreme, TrainConfig
from recstudy.recursive.data.cache import load
from recstudy.recursive.data.puzzle_files import PARTS, SplitDescription
from recstudy.recursive.train.loop import Training

CPU = torch.device("cpu")
MODEL = TRM(
    tokens="cell", mixing="mlp", width=64, expansion=2, multiple=32, prefix=1, cycles=1, latent_steps=1
)
SLOTS = TrainConfig(halting="sample", supervision_steps=4, batch_size=32, selection="last")
FEW_SEGMENTS, MANY_SEGMENTS = 16, 1024  # segments
PUZZLES = 64
TINY = MODEL.model_copy(update={"width": 16, "layers": 1})
SMALL = RunConfig(
    data=Sudoku(side=6, givens=10, puzzles=PUZZLES, test_puzzles=PUZZLES), model=TINY, train=SLOTS
)
TEST_PUZZLES = 423_000  # of Sudoku-Extreme
GENERATED_PUZZLES = 100  # of which they are made
LARGE = RunConfig(
    data=SudokuExtreme(),
    model=TINY,
    train=SLOTS.model_copy(update={"batch_size": 768, "evaluation_steps": 2, "evaluation_depths": 2}),
)
Measured = Mapping[str, float]


def measure(options: object) -> list[Figure]:
    """Peak memory by segments, then of a large test set."""
    few_peaks, many_peaks = (
        [peak["bytes"] / 1e6 for peak in (measure_in_process("segments", count) for _ in range(3))]
        for count in (FEW_SEGMENTS, MANY_SEGMENTS)
    )
    name = f"{PUZZLES} 6x6 puzzles"
    extra_memory = [
        many_peak - few_peak
        for few_peak, many_peak in zip(sorted(few_peaks), sorted(many_peaks), strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        write_set(Path(folder) / LARGE.data.model_dump()["path"], TEST_PUZZLES)
        large = measure_in_process("puzzles", folder)
    task_name = f"evaluating {TEST_PUZZLES:,} 9x9 puzzles"
    return [
        Figure(f"{name}, {FEW_SEGMENTS} segments, peak memory", "MB", few_peaks),
        Figure(f"{name}, {MANY_SEGMENTS:,} segments, peak memory", "MB", many_peaks),
        Figure(
            f"{name}, what {MANY_SEGMENTS:,} segments take more than {FEW_SEGMENTS}",
            "MB",
            extra_memory,
            maximum=5,
        ),
        Figure(
            f"{task_name}, peak memory",
            "MB",
            [large["bytes"] / 1e6],
            maximum=1200,
            note=f"{large['before'] / 1e6:.0f} before",
        ),
        Figure(task_name, "s", [large["seconds"]], note="processor time; two segments of a tiny network"),
    ]


def write_set(folder: Path, puzzles: int) -> None:
    """Both splits in the official layout, a puzzle a group, as many hundreds as fit; 1,000 that train."""
    puzzle_set = load(
        Sudoku(side=9, puzzles=GENERATED_PUZZLES, test_puzzles=GENERATED_PUZZLES),
        folder.parent,
        hold_out=False,
    )
    for part, split, count in zip(PARTS, (puzzle_set.train, puzzle_set.test), (1000, puzzles), strict=True):
        boards, answers = (
            torch.from_numpy(np.array(tokens)).flatten(1) for tokens in (split.images, split.labels)
        )
        draws = torch.rand(
            count // GENERATED_PUZZLES, GENERATED_PUZZLES, LARGE.data.draws, dtype=torch.float64
        )
        turned = zip(*(LARGE.data.apply_symmetry(boards, answers, draw) for draw in draws), strict=True)
        inputs, labels = (torch.cat(copies).numpy() for copies in turned)
        group_ends = np.arange(len(inputs) + 1)
        arrays = {"inputs": inputs, "labels": labels, "puzzle_identifiers": np.zeros(len(inputs), int)}
        (folder / part).mkdir(parents=True)
        for name, array in {**arrays, "puzzle_indices": group_ends, "group_indices": group_ends}.items():
            np.save(folder / part / f"all__{name}.npy", array)
        about = SplitDescription(
            pad_id=0, ignore_label_id=0, blank_identifier_id=0, vocab_size=LARGE.data.classes, seq_len=81,
            num_puzzle_identifiers=1, total_groups=len(inputs), mean_puzzle_examples=1, sets=["all"],
        )  # fmt: skip
        (folder / part / "dataset.json").write_text(about.model_dump_json(), encoding="utf-8")


def measure_in_process(mode: str, argument: object) -> Measured:
    """Return what a process measures that does nothing else, by one thread."""
    command = [sys.executable, str(Path(__file__)), mode, str(argument)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment, encoding="utf-8")
    measured: Measured = json.loads(done.stdout.splitlines()[-1])
    return measured


def judged(config: RunConfig, folder: Path) -> Measured:
    torch.set_num_threads(1)
    memory_before, start_time = status("VmRSS"), time.process_time()
    Training(config, load(config.data, folder, hold_out=False), CPU).finish()
    return {"bytes": status("VmHWM"), "before": memory_before, "seconds": time.process_time() - start_time}


def by_segments(count: str) -> Measured:
    config = SMALL.with_changes(
        {"train.evaluation_steps": FEW_SEGMENTS, "train.evaluation_depths": int(count)}
    )
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
