"""What recstudy costs beside the training itself, and how fast it trains. Prints every figure beside its
mark.

    commands     --help, --dry-run, --smoke, and a finished study again                           about 1 minute
    scheduling   200 runs that train nothing, through the driver and through plain Ray Tune      about 7 minutes
    scale        a finished study of 10,000 runs: resuming it, reporting on it                   under a minute
    evaluating   memory of 1,024 segments and of 423,000 puzzles at test                         about 4 minutes
    throughput   ViTRM at its paper size beside the same model from torch.nn.MultiheadAttention  about 2 minutes on 2 cores

    python tests/benchmarks/overhead.py
    python tests/benchmarks/overhead.py scale throughput

The figures go to bench/overhead.json in the results folder, each part with its date, machine and versions.
Run it on an idle machine: other work slows the two sides of a ratio alike, but not a figure in seconds.

`gpu_day.sh` is what a GPU is asked, by `gpu.py` and studies, in the minutes that there are (`make
gpu-bench`). `evidence.py` (how well verdicts hold), `soak.py` (an hour of faults) and `trial.sh` (a cluster's
page, typed) run by themselves. tests/benchmarks/LOG.md has what was measured once, too (searches, core use, board,
recursion, experts, puzzles), whose code is in git.
"""

import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, get_args

import tyro
from figure import as_table, hardware, write_part

from recstudy.base.terminal import console

Part = Literal["commands", "scheduling", "scale", "evaluating", "throughput"]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True)
class Options:
    """What is measured."""

    parts: tyro.conf.Positional[tuple[Part, ...]] = PARTS
    """Which parts, all of them by default."""
    results: Path = Path("results")
    """The folder that gets bench/overhead.json."""


def main(options: Options) -> None:
    terminal = console()
    terminal.print("  ".join(f"{name}: {value}" for name, value in hardware().items()))
    for part in options.parts:
        start_time = time.perf_counter()
        figures = import_module(part).measure(options)  # here, because only some parts load Ray
        path = write_part(options.results, part, figures, time.perf_counter() - start_time)
        terminal.print(as_table(f"{part}, {time.perf_counter() - start_time:.0f} s", figures))
    terminal.print(f"Figures: {path}", soft_wrap=True)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__.split("\n\n    python")[0]))
