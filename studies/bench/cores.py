"""How much of the quick sweep's time both cores train.

Read from the records: the seconds that runs spent in their epochs (`cost.seconds`: batches and selection, without loading
data, building the network and the test set) over cores x the time from the first run's start to the last one's end. While the
sweep runs, the processor time of its workers is read beside it: where other work takes the cores, seconds go on and
processor time does not.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from figure import Figure

from recstudy.records import Results, read_lines

SWEEP = Path(__file__).parents[1] / "vitrm_depth_sweep.py"
TICKS = os.sysconf("SC_CLK_TCK")


def measure(options: Any) -> list[Figure]:
    """The share of the cores' time, from a sweep of its own or the records of one that is finished."""
    if options.sweep:
        return from_records(Results(options.sweep))
    with tempfile.TemporaryDirectory() as folder:
        results = Results(Path(folder) / "results")
        whole, processor = run_sweep(results)
        figures = from_records(results)
        wall = figures[-1].value
        busy = Figure("cores' time on the workers' processes", "%", [100 * processor / (wall * cores())])
        return [*figures, busy, Figure("the whole command", "s", [whole], note="start-up and report included")]


def run_sweep(results: Results) -> tuple[float, float]:
    """Seconds of the whole command, and processor seconds of its workers once they have begun a run."""
    began = time.perf_counter()
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([sys.executable, str(SWEEP), "--results", str(results.root)], stdout=output, stderr=output)
        while process.poll() is None:
            time.sleep(0.5)
            for worker in workers(results):
                used = processor_seconds(worker)
                if used is not None:
                    first.setdefault(worker, used)
                    last[worker] = used
        output.seek(0)
        assert process.returncode == 0, output.read().decode()
    return time.perf_counter() - began, sum(last.values()) - sum(first.values())


def workers(results: Results) -> set[int]:
    """The processes that have begun a run."""
    return {attempt["process"] for path in results.root.glob("runs/*/attempts.jsonl") for attempt in read_lines(path)}


def processor_seconds(process: int) -> float | None:
    """User and system time of a process with all its threads; None once it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / TICKS


def from_records(results: Results) -> list[Figure]:
    """The share of the cores' time that trained; the last figure is the wall time."""
    found = [json.loads(path.read_bytes()) for path in results.root.glob("runs/*/result.json")]
    assert found, f"no finished run in {results.root}"
    trained = sum(result["cost"]["seconds"] for result in found)
    wall = seconds_between([result["provenance"] for result in found])
    note = f"{len(found)} runs, {sum(result['attempts'] for result in found)} attempts"
    return [
        Figure("cores' time in training", "%", [100 * trained / (wall * cores())], least=80, note=note),
        Figure("from the first run's start to the last one's end", "s", [wall]),
    ]


def seconds_between(made: Sequence[dict[str, Any]]) -> float:
    """From the first start to the last finish, which are noted in whole seconds."""
    started = min(datetime.fromisoformat(one["started"]) for one in made)
    finished = max(datetime.fromisoformat(one["finished"]) for one in made)
    return (finished - started).total_seconds()


def cores() -> int:
    return os.cpu_count() or 1
