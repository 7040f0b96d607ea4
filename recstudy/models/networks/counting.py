"""Counts parameters, FLOPs and bytes of a network without weights.

Parameters and FLOPs on torch's `meta` device, as its FlopCounterMode does; what a training step holds in
memory on torch's fake tensors, which have shapes alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from recstudy.config import DataConfig, ModelConfig
from recstudy.errors import ConfigError
from recstudy.models.networks.contract import Network, build, example
from recstudy.models.networks.layers import Block
from recstudy.plugins.registry import is_users


@contextmanager
def within_reach(model: ModelConfig) -> Iterator[None]:
    """Refuse (ConfigError) a model, or a batch, of which some tensor has more elements than a computer can
    count.
    """
    try:
        yield
    except (RuntimeError, TypeError) as error:
        if "verflow" not in str(error):
            raise
        raise ConfigError(
            f"{model.title}, or a batch of it, is larger than any computer: lower its sizes"
        ) from None


def count(model: ModelConfig, data: DataConfig) -> tuple[int, int, int, int, int]:
    """Return parameters, those that are trained, and FLOPs an image: of an evaluation step, of a training
    step without and with its backward pass."""
    with torch.device("meta"), within_reach(model):
        network = build(model, data)
        images, context = example(model, data, 2)  # two, because batch norm refuses to train on one value
    for module in network.modules():
        if isinstance(module, Block):
            module.skip_unread = False
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    params, own = (
        sum(weight.numel() for weight in network.parameters()),
        sum(weight.numel() for weight in trained),
    )
    inputs = images, context, trained
    check_outputs(network.eval(), model, data, images, context)
    evaluated = _flops(network.eval(), *inputs, backward=False)
    network.train()
    return (
        params,
        own,
        evaluated,
        _flops(network, *inputs, backward=False),
        _flops(network, *inputs, backward=True),
    )


def check_outputs(
    network: Network, model: ModelConfig, data: DataConfig, images: Tensor, context: Tensor | None
) -> None:
    """Refuse (ConfigError) a user's network that gives other than one output a class; the loss would take
    more of them.
    """
    if is_users(type(model)) and (model.task or data.task) in ("multiclass", "multilabel"):
        output, _ = network(images, network.start(images, context))
        if output.logits.shape != (len(images), data.classes):
            outputs = "x".join(map(str, output.logits.shape[1:]))
            raise ConfigError(
                f"the network of {model.title} gives {outputs} outputs for the {data.classes} classes of"
                f" {data.title}. Its logits must be (images, {data.classes})"
            )


def _flops(
    network: Network, images: Tensor, context: Tensor | None, trained: list[nn.Parameter], backward: bool
) -> int:
    for weight in trained:
        # FlopCounterMode cannot look at trained weights where gradients are off
        weight.requires_grad_(backward)
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        output, _ = network(images, network.start(images, context))
        if backward:
            (output.logits.sum() + (0 if output.halt is None else output.halt.sum())).backward()
    return counter.get_total_flops() // len(images)


def saved(model: ModelConfig, data: DataConfig, images: int, steps: int, half: bool) -> tuple[int, int]:
    """Return bytes of the weights, and of what `steps` forward passes on so many images save for the backward
    pass.
    """
    with torch.device("meta"), within_reach(model):
        network = build(model, data)
    with FakeTensorMode(allow_non_fake_inputs=True), within_reach(model):  # the `meta` network is one
        network = network.to_empty(device="cpu").train()
        weights = sum(weight.nbytes for weight in network.parameters())
        return weights, _kept(network, *example(model, data, images), steps, half)


def _kept(network: Network, images: Tensor, context: Tensor | None, steps: int, half: bool) -> int:
    """Return bytes of the storages that autograd keeps, apart from the network's own."""
    kept: dict[int, Tensor] = {}  # by storage; holding a tensor keeps its storage's number from another

    def pack(tensor: Tensor) -> Tensor:
        kept.setdefault(_storage(tensor), tensor)
        return tensor

    own = {_storage(tensor) for tensor in (*network.parameters(), *network.buffers())}
    with (
        saved_tensors_hooks(pack, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=half),
    ):
        carry = network.start(images, context)
        loss = torch.zeros(())
        for _ in range(steps):
            output, carry = network(images, carry)
            loss = loss + nn.functional.log_softmax(output.logits.float(), -1).sum()
            loss = loss if output.halt is None else loss + output.halt.float().sum()
    return sum(tensor.untyped_storage().nbytes() for storage, tensor in kept.items() if storage not in own)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
