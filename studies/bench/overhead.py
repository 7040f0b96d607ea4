"""What recstudy costs beside the training itself, and how fast it trains. Prints every figure beside its mark.

    commands     --help, --dry-run, --smoke, and a finished study again                           about 1 minute
    scheduling   200 runs that train nothing, through the driver and through plain Ray Tune      about 5 minutes
    searching    searches that train nothing beside OptunaSearch in Tune; 1,000 trials in one     about 3 minutes
    workers      runs on Ray Train's workers beside runs in Tune's own process                    about 6 minutes
    cores        the quick sweep of studies/vitrm_depth_sweep.py: how busy it keeps the cores    about 6 minutes
    scale        a finished study of 10,000 runs: resuming it, reporting on it                   under a minute
    board        the live board on 10,000 runs: its first page, a study's page, an update          about 2 minutes
    throughput   ViTRM at its paper size beside the same model from torch.nn.MultiheadAttention  about 2 minutes on 2 cores
    recursion    every family at its paper size, HRM beside its published loop, memory of depth  about 4 minutes on 2 cores
    malloc       a training step where what the step before has freed is kept, and given back        about 2 minutes
    experts      a mixture of experts on each one's own tokens beside every expert on all        about 2 minutes on 2 cores
    puzzles      drawing Sudokus and mazes, and their symmetries                                 under a minute
    solving      TRM-MLP on Sudokus beside plain torch, compiled and not; 423,000 test puzzles   about 6 minutes

    python studies/bench/overhead.py
    python studies/bench/overhead.py scale throughput
    python studies/bench/overhead.py cores --sweep results

The figures go to bench/overhead.json in the results folder, each part with its date, machine and versions. Run it on an idle
machine: other work slows the two sides of a ratio alike, but not a figure in seconds.

On a GPU, `throughput`, `recursion` and `experts` measure bf16 under torch.compile in large batches (some minutes, most of it
compiling). They need torch, torchvision, pydantic, tyro and rich, and neither Ray nor an installed recstudy:

    PYTHONPATH=. python studies/bench/overhead.py throughput recursion experts
"""

import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, get_args

import tyro
from figure import as_table, hardware, write_part

from recstudy.terminal import console

Part = Literal[
    "commands",
    "scheduling",
    "searching",
    "workers",
    "cores",
    "scale",
    "board",
    "throughput",
    "recursion",
    "malloc",
    "experts",
    "puzzles",
    "solving",
]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True)
class Options:
    """What is measured."""

    parts: tyro.conf.Positional[tuple[Part, ...]] = PARTS
    """Which parts, all of them by default."""
    results: Path = Path("results")
    """The folder that gets bench/overhead.json."""
    sweep: Path | None = None
    """For `cores`: the results folder of a quick sweep that is already finished, instead of running one (4 minutes)."""


def main(options: Options) -> None:
    out = console()
    out.print("  ".join(f"{name}: {value}" for name, value in hardware().items()))
    for part in options.parts:
        began = time.perf_counter()
        figures = import_module(part).measure(options)  # here, because only some parts load Ray
        path = write_part(options.results, part, figures, time.perf_counter() - began)
        out.print(as_table(f"{part}, {time.perf_counter() - began:.0f} s", figures))
    out.print(f"Figures: {path}", soft_wrap=True)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__.split("\n\n    python")[0]))
