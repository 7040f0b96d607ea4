"""What an update of TRM-MLP on Sudoku-Extreme asks of a GPU, counted on a CPU: the preset `paper` of
`studies/sudoku_depth.py` at a small width, on random puzzles.

    python tests/benchmarks/counts.py

Graphs are those of torch.compile in two epochs and the evaluation at the end. The other counts are of one
more update, not compiled. A matrix product is unaligned if the rows of a factor or of its result do not
start at multiples of 16 bytes, which tensor cores need for full speed.
"""

import runpy
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gpu import generate_data
from torch import Tensor
from torch._dynamo.backends.debugging import aot_eager
from torch._dynamo.utils import counters
from torch.utils._python_dispatch import TorchDispatchMode

from recstudy.recursive import RunConfig
from recstudy.recursive.train.loop import Training

STUDY = Path(__file__).parents[2] / "studies" / "sudoku_depth.py"
SMALL = {
    "model.width": 32,
    "model.heads": 2,
    "train.batch_size": 8,
    "train.epochs": 2,
    "train.evaluation_steps": 2,
    "data.rounds": 1,
}
BATCHES = 3
# Operators of which the host waits for a CUDA device: their result decides a size or a Python number.
WAITS = {
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::_coalesce",
}
PRODUCTS = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default}


class Products(TorchDispatchMode):
    """Count matrix products in bfloat16, and the unaligned ones."""

    def __init__(self) -> None:
        super().__init__()
        self.count = self.unaligned = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        product = function(*args, **(kwargs or {}))
        if function in PRODUCTS and product.dtype == torch.bfloat16:
            self.count += 1
            factors = [factor for factor in args if isinstance(factor, Tensor)]
            self.unaligned += not all(is_aligned(matrix) for matrix in (*factors[-2:], product))
        return product


def is_aligned(matrix: Tensor) -> bool:
    rows = [stride for stride in matrix.stride() if stride != 1]
    return all(stride * matrix.element_size() % 16 == 0 for stride in rows)


def compiled_graphs(config: RunConfig) -> dict[str, int]:
    """Return the graph breaks and the graphs of a run, in training and in its evaluation."""
    torch._dynamo.reset()
    counters.clear()
    sizes = list[int]()

    def backend(graph: Any, inputs: Any) -> Any:
        sizes.append(len(graph.graph.nodes))
        return aot_eager(graph, inputs)

    data = generate_data(config, BATCHES * config.train.batch_size)
    original, torch.compile = torch.compile, partial(torch.compile, backend=backend)
    try:
        training = Training(config, data, torch.device("cpu"), compile=True)
        for _ in training.epochs():
            pass
        trained = len(sizes)
        training.finish()
    finally:
        torch.compile = original
    large = [size > max(sizes) / 2 for size in sizes]
    return {
        "graph breaks": sum(counters["graph_break"].values()),
        "graphs compiled in training": trained,
        "of them of the whole recursion": sum(large[:trained]),
        "graphs compiled in evaluation": len(sizes) - trained,
        "of them of the whole recursion (evaluation)": sum(large[trained:]),
    }


def operations(config: RunConfig) -> dict[str, int]:
    """Return the waits of the host and the matrix products of one update: those that a longer epoch adds."""
    short, long = (work_of_epoch(config, batches) for batches in (1, 2))
    return {name: long[name] - short[name] for name in short}


def work_of_epoch(config: RunConfig, batches: int) -> dict[str, int]:
    training = Training(config, generate_data(config, batches * config.train.batch_size), torch.device("cpu"))
    training.one_epoch()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        training.one_epoch()
    with Products() as products:
        training.one_epoch()
    calls = Counter({event.key: event.count for event in profile.key_averages()})
    return {
        "waits of the host an update": sum(calls[name] for name in WAITS),
        "matrix products an update": products.count,
        "unaligned matrix products an update": products.unaligned,
    }


def counts(**changes: Any) -> dict[str, int]:
    config = runpy.run_path(str(STUDY))["study"].presets["paper"].with_changes(SMALL | changes)
    return compiled_graphs(config) | operations(config)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, count in counts().items():
        print(f"{name}: {count}")
    sys.exit(0)
