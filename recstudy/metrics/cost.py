"""Parameters and FLOPs of a model, counted by building it without weights (torch's `meta` device).

FLOPs are those of the matrix products and convolutions, 2 a multiply-add, as torch's FlopCounterMode counts them, of
the model as its paper writes it: every token of every layer, although ours skips outputs that nobody reads.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch.utils.flop_counter import FlopCounterMode

from recstudy.config import DataConfig, ModelConfig, RunConfig
from recstudy.models.networks.contract import Network, build
from recstudy.models.networks.layers import Block


@dataclass(frozen=True)
class Cost:
    """Of one model on one data set."""

    params: int  # trained parameters
    gflops: float  # forward pass in evaluation, an image
    train_gflops: float  # forward and backward passes of all supervision steps on a batch, an image of it


def cost(config: RunConfig) -> Cost:
    """What `config`'s model costs, without early halting."""
    model, train = config.model, config.train
    params, forward, blind, step = _count(model, config.data)
    silent = model.silent_steps if train.detach_carry else 0
    steps = steps_a_batch(config)
    trained = silent * blind + (steps - silent) * step
    if model.bootstraps and train.halting == "sample":
        trained += steps * blind  # the halting target looks one step ahead
    return Cost(params, forward * train.evaluation_steps / 1e9, trained / 1e9)


def steps_a_batch(config: RunConfig) -> int:
    """Supervision steps that a batch is given, without early halting: one, where each sample halts by itself."""
    return 1 if config.train.halting == "sample" else config.train.supervision_steps


@lru_cache(maxsize=256)
def _count(model: ModelConfig, data: DataConfig) -> tuple[int, int, int, int]:
    """Parameters, and FLOPs an image: of one evaluation step, of one training step without and with its backward pass."""
    with torch.device("meta"):
        network = build(model, data)
        images = torch.empty(2, *data.shape)  # two, because batch norm refuses to train on one value
    for module in network.modules():
        if isinstance(module, Block):
            module.skip_unread = False
    params = sum(weight.numel() for weight in network.parameters())
    evaluated = _flops(network.eval(), images, backward=False)
    network.train()
    return params, evaluated, _flops(network, images, backward=False), _flops(network, images, backward=True)


def _flops(network: Network, images: torch.Tensor, backward: bool) -> int:
    network.requires_grad_(backward)  # FlopCounterMode cannot look at trained weights where gradients are off
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        output, _ = network(images, network.start(images))
        if backward:
            (output.logits.sum() + (0 if output.halt is None else output.halt.sum())).backward()
    return counter.get_total_flops() // len(images)


def total_pflop(config: RunConfig) -> float | None:
    """Training a run from start to end, without early halting, in PFLOP; None where only the files tell how many images."""
    images = config.training_images
    return None if images is None else cost(config).train_gflops * images * config.train.epochs / 1e6
