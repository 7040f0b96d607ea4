"""Parameters and FLOPs of a model, counted by building it without weights (torch's `meta` device).

FLOPs are those of the matrix products and convolutions, 2 a multiply-add, as torch's FlopCounterMode counts them, of
the model as its paper writes it: every token of every layer, although ours skips outputs that nobody reads. A frozen
backbone is not in them: its features are computed once a data set.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch.utils.flop_counter import FlopCounterMode

from recstudy.config import DataConfig, ModelConfig, RunConfig
from recstudy.errors import ConfigError
from recstudy.models.networks.contract import Network, build, example
from recstudy.models.networks.layers import Block


@dataclass(frozen=True)
class Cost:
    """Of one model on one data set."""

    params: int  # of everything that takes part
    trained_params: int  # without a frozen backbone
    gflops: float  # forward pass in evaluation, an image
    train_gflops: float  # forward and backward passes of all supervision steps on a batch, an image of it


def cost(config: RunConfig) -> Cost:
    """What `config`'s model costs, without early halting."""
    model, train = config.model, config.train
    params, trained_params, forward, blind, step = _count(model, config.data)
    silent = model.silent_steps if train.detach_carry else 0
    steps = steps_a_batch(config)
    trained = silent * blind + (steps - silent) * step
    if model.bootstraps and train.halting == "sample":
        trained += steps * blind  # the halting target looks one step ahead
    return Cost(params + model.frozen_params, trained_params, forward * train.evaluation_steps / 1e9, trained / 1e9)


def steps_a_batch(config: RunConfig) -> int:
    """Supervision steps that a batch is given, without early halting: one, where each sample halts by itself."""
    return 1 if config.train.halting == "sample" else config.train.supervision_steps


@contextmanager
def within_reach(model: ModelConfig) -> Iterator[None]:
    """Refuse (ConfigError) a model, or a batch, of which some tensor has more elements than a computer can count."""
    try:
        yield
    except (RuntimeError, TypeError) as error:
        if "verflow" not in str(error):
            raise
        raise ConfigError(f"{model.title}, or a batch of it, is larger than any computer: lower its sizes") from None


@lru_cache(maxsize=256)
def _count(model: ModelConfig, data: DataConfig) -> tuple[int, int, int, int, int]:
    """Parameters, those that are trained, and FLOPs an image: of one evaluation step, of one training step without and with
    its backward pass."""
    with torch.device("meta"), within_reach(model):
        network = build(model, data)
        images, told = example(model, data, 2)  # two, because batch norm refuses to train on one value
    for module in network.modules():
        if isinstance(module, Block):
            module.skip_unread = False
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    params, own = sum(weight.numel() for weight in network.parameters()), sum(weight.numel() for weight in trained)
    inputs = images, told, trained
    evaluated = _flops(network.eval(), *inputs, backward=False)
    network.train()
    return params, own, evaluated, _flops(network, *inputs, backward=False), _flops(network, *inputs, backward=True)


def _flops(
    network: Network, images: torch.Tensor, told: torch.Tensor | None, trained: list[torch.nn.Parameter], backward: bool
) -> int:
    for weight in trained:
        weight.requires_grad_(backward)  # FlopCounterMode cannot look at trained weights where gradients are off
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        output, _ = network(images, network.start(images, told))
        if backward:
            (output.logits.sum() + (0 if output.halt is None else output.halt.sum())).backward()
    return counter.get_total_flops() // len(images)


def total_pflop(config: RunConfig) -> float | None:
    """Training a run from start to end, without early halting, in PFLOP; None where only the files tell how many images."""
    images = config.training_images
    return None if images is None else cost(config).train_gflops * images * config.train.epochs / 1e6
