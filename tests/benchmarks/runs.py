"""How many runs a driver keeps going: short runs of a function on a cluster of several nodes, simulated on
this machine.

    python tests/benchmarks/runs.py --runs 100000 --nodes 50 --workers 8

Each row is a tenth of the runs: runs per second, the driver's processor time per run, and its memory. The
processor time is what bounds the rate: a driver on one core cannot end more runs per second than its inverse.
"""

import io
import re
import resource
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro
from ray.cluster_utils import Cluster
from rich.console import Console

from recstudy import Metric, RunContext, Study, Variant
from recstudy.cluster.driver import run_plan
from recstudy.cluster.sources import RunOptions
from recstudy.cluster.view import View
from recstudy.records import Results, Run
from recstudy.study.plan import make_plan


@dataclass
class Options:
    """What is simulated."""

    runs: int = 5000
    nodes: int = 4
    workers: int = 4
    """Of each node."""
    milliseconds: float = 50.0
    """That each run takes."""


def sleep(run: RunContext) -> dict[str, float]:
    """Take some time and no processor."""
    time.sleep(run.settings["milliseconds"] / 1000)
    return {"accuracy": float(run.seed % 7)}


@dataclass
class Meter(View):
    """A silent view that prints a row for each tenth of the runs."""

    every: int = 1
    ended_runs: int = 0
    start_time: float = field(default_factory=time.perf_counter)
    cpu_start: float = field(default_factory=time.process_time)

    def on_end(self, run: Run, outcome: Any) -> None:
        assert outcome["status"] == "done", outcome
        super().on_end(run, outcome)
        self.ended_runs += 1
        if self.ended_runs % self.every == 0:
            clock_time, cpu_time = time.perf_counter(), time.process_time()
            status = Path("/proc/self/status").read_text(encoding="utf-8")
            megabytes = int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024
            rate, cpu_ms = (
                self.every / (clock_time - self.start_time),
                1000 * (cpu_time - self.cpu_start) / self.every,
            )
            print(
                f"{self.ended_runs:>8,} runs {rate:8.1f} runs/s {cpu_ms:8.2f} ms of a core a run"
                f" {megabytes:8.0f} MB",
                flush=True,
            )
            self.start_time, self.cpu_start = clock_time, cpu_time


def main(options: Options) -> None:
    """Simulate the nodes, run the study and print what it took."""
    study = Study(
        "short_runs",
        program=sleep,
        settings={"milliseconds": options.milliseconds},
        metrics={"accuracy": Metric("%")},
        variants=[Variant("short", {})],
        seeds=options.runs,
    )
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": options.workers})
    for _ in range(options.nodes - 1):
        cluster.add_node(num_cpus=options.workers)
    start_time = time.perf_counter()
    plan = make_plan(study)
    meter = Meter(Console(file=io.StringIO()), every=max(1, options.runs // 10))
    with tempfile.TemporaryDirectory() as folder:
        run_options = RunOptions(address=cluster.address, data=Path(folder))
        run_plan(plan, Results(Path(folder) / "results"), run_options, meter, plan.runs)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{options.runs:,} runs in {time.perf_counter() - start_time:.0f} s, peak of the driver's memory"
        f" {peak:.0f} MB"
    )
    cluster.shutdown()


if __name__ == "__main__":
    main(tyro.cli(Options))
