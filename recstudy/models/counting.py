"""Counts parameters and FLOPs of a network without weights, on torch's `meta` device, as its FlopCounterMode does."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils.flop_counter import FlopCounterMode

from recstudy.config import DataConfig, ModelConfig
from recstudy.errors import ConfigError
from recstudy.models.networks.contract import Network, build, example
from recstudy.models.networks.layers import Block


@contextmanager
def within_reach(model: ModelConfig) -> Iterator[None]:
    """Refuse (ConfigError) a model, or a batch, of which some tensor has more elements than a computer can count."""
    try:
        yield
    except (RuntimeError, TypeError) as error:
        if "verflow" not in str(error):
            raise
        raise ConfigError(f"{model.title}, or a batch of it, is larger than any computer: lower its sizes") from None


def count(model: ModelConfig, data: DataConfig) -> tuple[int, int, int, int, int]:
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
