"""Measure what recstudy costs beside the training itself, and print every figure beside its mark.

    commands     --help, --dry-run, --smoke, and a finished study again                       about 1 minute
    scheduling   200 runs that train nothing, through the driver and through plain Ray Tune  about 4 minutes
    scale        a finished study of 10,000 runs: resuming it, reporting on it               under a minute

    python tests/benchmarks/overhead.py
    python tests/benchmarks/overhead.py scale commands

The figures go to bench/overhead.json in the results folder, each part with its date, machine and versions. Run it on an
idle machine: other work slows the two sides of a ratio alike, but not a figure in seconds.

Other measurements run by themselves: `gpu_day.sh` (one GPU), `evidence.py` (error rates of verdicts), `mutants.py` (share
of mutants that the tests kill) and `trial.sh` (the commands of the cluster page). Earlier benchmarks are in git: throughput
against plain torch, memory of large test sets, an hour of faults, the driver's rate on simulated nodes, the error of the
time left.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, get_args

import tyro
from figure import Figure, as_table, hardware, several, write_part

from recstudy.base.terminal import console

Part = Literal["commands", "scheduling", "scale"]
PARTS: tuple[Part, ...] = get_args(Part)
SWEEP = Path(__file__).parents[2] / "studies" / "vitrm_depth_sweep.py"
TIMES = 3


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
        # imported here, because only some parts load Ray
        figures = list(commands() if part == "commands" else import_module(part).measure())
        seconds = time.perf_counter() - start_time
        path = write_part(options.results, part, figures, seconds)
        terminal.print(as_table(f"{part}, {seconds:.0f} s", figures))
    terminal.print(f"Figures: {path}", soft_wrap=True)


def commands() -> Iterator[Figure]:
    """Measure the commands of the first ten minutes at the depth sweep of README.

    `--smoke` is every run in small, from nothing, with Ray's start and the report. `--dry-run` counts parameters,
    which takes torch the first time.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RECSTUDY_CACHE"] = folder
        results = Path(folder) / "results"
        loads, _ = several(
            TIMES, "-c", "import recstudy, sys; assert not {'torch', 'ray'} & set(sys.modules)"
        )
        yield Figure("import recstudy", "s", loads, note="neither torch nor Ray")
        helps, _ = several(TIMES, SWEEP, "--help")
        yield Figure("--help", "s", helps, maximum=0.5)
        firsts, first_memory = several(1, SWEEP, "--dry-run")
        yield Figure("--dry-run, the first time", "s", firsts, note=f"{first_memory[0]:.0f} MB")
        plans, memory = several(TIMES, SWEEP, "--dry-run")
        yield Figure("--dry-run, again", "s", plans, maximum=2)
        yield Figure("--dry-run, again, peak memory", "MB", memory, maximum=300)
        smokes = list[float]()
        for turn in range(TIMES):
            smokes += several(1, SWEEP, "--smoke", "--results", results / str(turn))[0]
        yield Figure("--smoke", "s", smokes, maximum=12)
        finished, _ = several(TIMES, SWEEP, "--smoke", "--results", results / "0")
        yield Figure("a finished study again", "s", finished, maximum=1.2)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__.split("\n\n    python")[0]))
