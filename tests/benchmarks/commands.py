"""The commands of the first ten minutes, each in a process of its own, imports included, at the depth sweep
of README.

`--smoke` is every run in small, from nothing, with Ray's start and the report. `--dry-run` counts parameters,
which takes torch the first time.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from figure import Figure
from fresh import several

SWEEP = Path(__file__).parents[2] / "studies" / "vitrm_depth_sweep.py"
TIMES = 3


def measure(options: object) -> list[Figure]:
    """Seconds of each, and the peak memory of the plan."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RECSTUDY_CACHE"] = folder
        return list(figures(Path(folder) / "results"))


def figures(results: Path) -> Iterator[Figure]:
    loads, _ = several(TIMES, "-c", "import recstudy, sys; assert not {'torch', 'ray'} & set(sys.modules)")
    yield Figure("import recstudy", "s", loads, note="neither torch nor Ray")
    helps, _ = several(TIMES, SWEEP, "--help")
    yield Figure("--help", "s", helps, maximum=0.5)
    firsts, first_memory = several(1, SWEEP, "--dry-run")
    yield Figure("--dry-run, the first time", "s", firsts, note=f"{first_memory[0]:.0f} MB")
    plans, memory = several(TIMES, SWEEP, "--dry-run")
    yield Figure("--dry-run, again", "s", plans, maximum=2)
    yield Figure("--dry-run, again, peak memory", "MB", memory, maximum=300)
    smokes = [
        second
        for turn in range(TIMES)
        for second in several(1, SWEEP, "--smoke", "--results", results / str(turn))[0]
    ]
    yield Figure("--smoke", "s", smokes, maximum=12)
    finished, _ = several(TIMES, SWEEP, "--smoke", "--results", results / "0")
    yield Figure("a finished study again", "s", finished, maximum=1.2)
