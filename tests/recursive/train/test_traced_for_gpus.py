"""A training step and an evaluation of every family, and how puzzles are solved, traced for CUDA on torch's
fake tensors, for which no GPU is needed; for Apple's GPU what is done otherwise there, because a torch
without it aborts at the first convolution.

Held to: one device, no value that the host reads within a step, no float64. Backward passes, optimisers and
noise ask CUDA for a device, so that they are not traced; nor what cuDNN does in an LSTM, nor the aligner,
which hides tokens by chance and computes no loss without values.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from recstudy.recursive import FAMILIES, AtTest, PhantomCaptions, PhantomXray, RunConfig, Sudoku
from recstudy.recursive.contract.checks import example
from recstudy.recursive.data.batches import Batch
from recstudy.recursive.data.cache import load
from recstudy.recursive.models.networks.contract import build
from recstudy.recursive.tasks import solving
from recstudy.recursive.tasks.at_test import score_votes
from recstudy.recursive.tasks.solving import Sums, solve
from recstudy.recursive.testing import tiny_model, tiny_run
from recstudy.recursive.train.evaluate import _item_arrays, autocast
from recstudy.recursive.train.loop import Training
from recstudy.recursive.train.losses import stablemax

CUDA, APPLE = torch.device("cuda", 0), torch.device("mps", 0)
DATA = {"densenet": PhantomXray(size=32), "micar": PhantomCaptions()}
OURS = [
    name for name, kind in FAMILIES.items() if kind.__module__.startswith("recstudy.") and name != "fuselip"
]


class Watch(TorchDispatchMode):
    """Which devices and number types the results of operations have."""

    def __init__(self) -> None:
        super().__init__()
        self.devices: set[str] = set()
        self.read = 0  # copies to the host
        self.double: set[str] = set()  # devices with results in float64, which Apple's GPU has not

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outputs = function(*args, **(kwargs or {}))
        for output in tree_flatten(outputs)[0]:
            if isinstance(output, Tensor):
                self.devices |= {output.device.type} if output.dim() else set()
                self.read += function is torch.ops.aten._to_copy.default and output.device.type == "cpu"
                self.double |= {output.device.type} if output.dtype == torch.float64 else set()
        return outputs


def config_of(family: str) -> RunConfig:
    """A small run of a family: the example of its contract, but for those that have none."""
    if family not in DATA:
        return example(family)
    return tiny_run(tiny_model(family), DATA[family], batch_size=4, supervision_steps=1, ema_decay=0.0)


def puzzles_of(family: str, **train: Any) -> RunConfig:
    return tiny_run(
        tiny_model(family, tokens="cell"), Sudoku(side=4, puzzles=16, test_puzzles=16), batch_size=4, **train
    )


@contextmanager
def on_gpu(config: RunConfig, tmp_path: Path) -> Iterator[tuple[Training, Batch]]:
    """A run and a batch of its training, whose network and tensors are fake and on CUDA while this lasts."""
    training = Training(config, load(config.resolved_config.data, tmp_path), torch.device("cpu"))
    batch = next(iter(training._train.epoch(0)))
    with torch.device("meta"):
        network = build(config.model, config.data)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.backends.cudnn.flags(enabled=False):
        fake = {
            name: torch.empty(value.shape, dtype=value.dtype, device=CUDA)
            for name, value in batch._asdict().items()
            if isinstance(value, Tensor)
        }
        training.state.network = network.to_empty(device=CUDA).train()
        training.device, training.state.slots = CUDA, None
        yield training, batch._replace(**fake)


def traced(config: RunConfig, tmp_path: Path) -> tuple[Watch, dict[str, Tensor]]:
    """Trace a training step's losses, and what an evaluation keeps."""
    with on_gpu(config, tmp_path) as (training, batch):
        training._step = lambda loss, number=1: None  # backward passes and updates ask CUDA for a device
        network = training.state.network
        with Watch() as watch:
            losses = training.train_slots(batch) if training._by_sample else training.train_batch(batch)
            with torch.no_grad(), autocast(CUDA, config.train):
                output, _ = network.eval()(batch.images, network.start(batch.images, batch.context))
            rows = _item_arrays(training.task, output, batch, len(batch.images))
        return watch, {"loss": losses[-1], **rows}


@pytest.mark.parametrize("family", [*OURS, "puzzles"])
def test_a_step_and_an_evaluation_stay_on_the_gpu(family, tmp_path):
    watch, outputs = traced(
        puzzles_of("hrm", halting="sample") if family == "puzzles" else config_of(family), tmp_path
    )

    assert watch.devices == {"cuda"}
    assert not watch.double
    assert {name: value.device for name, value in outputs.items()} == dict.fromkeys(outputs, CUDA)


@pytest.mark.parametrize("family", ["trm", "transformer"])
def test_puzzles_are_solved_and_voted_on_by_the_gpu(family, tmp_path, monkeypatch):
    """The host gets the sums over a batch, once all of its segments are done, and which of the puzzles are
    solved.
    """
    changes = (
        {"halting": "sample", "at_test": AtTest(segments=2, copies=2, halts=(0.5,))}
        if family != "transformer"
        else {}
    )
    config, summed = puzzles_of(family, **changes), []
    monkeypatch.setattr(solving, "sum_segments", lambda *arguments: summed.append(arguments[:3]) or Sums())

    with on_gpu(config, tmp_path) as (training, batch), Watch() as watch:
        test = training._train
        test.device, test.evaluation_batches = CUDA, lambda _: iter([batch])
        solved = solve(training.task, training.state.network, test)
        read, double = watch.read, set(watch.double)
        votes = dict(score_votes(training.state.network, batch, config, np.arange(4))) if changes else {}

    assert {name: part.device for name, part in vars(solved).items() if name != "sums"} == dict.fromkeys(
        ("cells", "loss", "right", "sure"), CUDA
    )
    ((hits, token_counts, halts),) = summed
    assert {hits.device.type, token_counts.device.type, halts.device.type} == {"cpu"}
    assert (read, double) == (3, set())  # what is summed, and nothing else
    assert {part.device for part in votes.values()} == ({CUDA} if changes else set())


def test_stablemax_is_computed_where_there_is_float64():
    """On the CPU for Apple's GPU, whose result comes back; on every other device there."""
    with FakeTensorMode(), Watch() as watch:
        logits, targets = torch.empty(8, 5, device=APPLE), torch.zeros(8, dtype=torch.long, device=APPLE)
        assert stablemax(logits, targets).device == APPLE
        assert watch.devices == {"cpu", "mps"}
        assert stablemax(logits.to(CUDA), targets.to(CUDA)).device == CUDA


@pytest.mark.parametrize("gpu", [CUDA, APPLE], ids=str)
def test_symmetries_of_puzzles_arrive_on_the_gpu(gpu):
    data = Sudoku()
    with FakeTensorMode(allow_non_fake_inputs=True), Watch() as watch:
        grids = torch.zeros(4, data.cells, dtype=torch.long, device=gpu)
        draws = torch.zeros(4, data.draws, dtype=torch.float64)
        turned, _ = data.apply_symmetry(grids, grids, draws)
        assert turned.device == data.undo_symmetry(turned, draws).device == gpu
    assert "mps" not in watch.double
