"""What a study would run and what it would cost, before anything is started."""

import json
from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from recstudy.metrics.cost import cost, total_pflop
from recstudy.metrics.memory import training_memory
from recstudy.records import Results
from recstudy.study.study import Plan, Run
from recstudy.terminal import console

# Rates for a first estimate of the time, both well below peak: dense float32 on a core of 2024, bfloat16 on an H200.
CORE_FLOPS, GPU_FLOPS = 50e9, 250e12


def print_plan(plan: Plan, runs: Sequence[Run], results: Results, as_json: bool) -> None:
    """Every run with its parameters, GFLOPs an image (forward; forward and backward), GB a worker and whether it is finished."""
    states = results.states()
    rows = [_row(run, cached=states.get(run.id) == "done") for run in runs]
    if as_json:
        print(json.dumps(rows, indent=1))
    else:
        _print_table(plan, runs, rows)


def _row(run: Run, cached: bool) -> dict[str, Any]:
    counted = cost(run.config)
    return {
        "label": run.label,
        "seed": run.seed,
        "id": run.id,
        "params": counted.params,
        "gflops": counted.gflops,
        "train_gflops": counted.train_gflops,
        "memory_gb": training_memory(run.config) / 1e9,
        "cached": cached,
    }


def _print_table(plan: Plan, runs: Sequence[Run], rows: Sequence[dict[str, Any]]) -> None:
    table = Table(box=None)
    for name in ("run", "seed", "parameters", "GFLOPs", "training GFLOPs", "in all PFLOP", "memory GB", "state"):
        table.add_column(name, justify="left" if name in ("run", "state") else "right", no_wrap=True)
    pflop = [total_pflop(run.config) for run in runs]
    for row, spend in zip(rows, pflop, strict=True):
        price = "?" if spend is None else f"{spend:.3g}"
        flops = _gflops(row["gflops"]), _gflops(row["train_gflops"])
        cells = row["label"], row["seed"], f"{row['params']:,}", *flops, price, f"{row['memory_gb']:.2g}"
        table.add_row(*(Text(str(cell)) for cell in cells), "finished" if row["cached"] else "to run")
    out = console()
    out.print(f"{plan.study.name}, preset {plan.folder}: {len(rows)} runs")
    out.print(table)
    if None in pflop:
        out.print("What all of it costs is not known here: only the files tell how many images there are.")
        return
    left = sum(spend for row, spend in zip(rows, pflop, strict=True) if spend and not row["cached"]) * 1e15
    cores, gpus = left / CORE_FLOPS / 3600, left / GPU_FLOPS / 3600
    out.print(f"To run: {left / 1e15:.3g} PFLOP of training at most; halting saves some.")
    out.print(
        f"A rough guess of the time: {cores:.2g} core hours at {CORE_FLOPS / 1e9:.0f} GFLOP/s, "
        f"or {gpus:.2g} GPU hours at {GPU_FLOPS / 1e12:.0f} TFLOP/s."
    )


def _gflops(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
