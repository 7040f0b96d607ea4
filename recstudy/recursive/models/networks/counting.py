"""Count the parameters, FLOPs and memory of a network without allocating its weights.

Parameters and FLOPs are counted on torch's `meta` device with FlopCounterMode. The memory of a training step
is counted with torch's fake tensors, which only have shapes. `recstudy.recursive.models.costs` saves these
counts.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from recstudy.base.errors import ConfigError
from recstudy.plugins.registry import is_users
from recstudy.recursive.config.parts import DataConfig, ModelConfig
from recstudy.recursive.models.networks.contract import Network, build, example
from recstudy.recursive.models.networks.layers import Block


@contextmanager
def refuse_overflow(model: ModelConfig) -> Iterator[None]:
    """Raise a ConfigError if a tensor of the model or a batch has more elements than an integer can count."""
    try:
        yield
    except (RuntimeError, TypeError) as error:
        if "verflow" not in str(error):
            raise
        raise ConfigError(
            f"{model.title}, or a batch of it, is too large for any computer. Lower its sizes"
        ) from None


def count(model: ModelConfig, data: DataConfig) -> tuple[int, int, int, int, int]:
    """Count the parameters and the FLOPs per image of one supervision step.

    Returns:
        All parameters, trained parameters, and the FLOPs of an evaluation step, of a training step without
        its backward pass, and of a training step with it.
    """
    with torch.device("meta"), refuse_overflow(model):
        network = build(model, data)
        images, context = example(model, data, 2)  # two, because batch norm refuses to train on one value
    for module in network.modules():
        if isinstance(module, Block):
            module.skip_unread = False  # papers count every token of every layer
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    params = sum(weight.numel() for weight in network.parameters())
    trained_params = sum(weight.numel() for weight in trained)
    inputs = images, context, trained
    check_outputs(network.eval(), model, data, images, context)
    test_flops = _flops(network.eval(), *inputs, backward=False)
    network.train()
    forward_flops = _flops(network, *inputs, backward=False)
    return params, trained_params, test_flops, forward_flops, _flops(network, *inputs, backward=True)


def check_outputs(
    network: Network, model: ModelConfig, data: DataConfig, images: Tensor, context: Tensor | None
) -> None:
    """Check that a user's classifier has one output per class.

    Raises:
        ConfigError: It has another number of outputs.
    """
    # The loss would accept more outputs than classes.
    if is_users(type(model)) and (model.task or data.task) in ("multiclass", "multilabel"):
        output, _ = network(images, network.start(images, context))
        if output.logits.shape != (len(images), data.classes):
            outputs = "x".join(map(str, output.logits.shape[1:]))
            raise ConfigError(
                f"the network of {model.title} has {outputs} outputs for the {data.classes} classes of"
                f" {data.title}. Its logits must be (images, {data.classes})"
            )


def _flops(
    network: Network, images: Tensor, context: Tensor | None, trained: list[nn.Parameter], backward: bool
) -> int:
    for weight in trained:
        # FlopCounterMode cannot process weights that require a gradient while gradients are off.
        weight.requires_grad_(backward)
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        output, _ = network(images, network.start(images, context))
        if backward:
            (output.logits.sum() + (0 if output.halt is None else output.halt.sum())).backward()
    return counter.get_total_flops() // len(images)


def saved(model: ModelConfig, data: DataConfig, images: int, steps: int, half: bool) -> tuple[int, int]:
    """Return the bytes of the weights, and of the tensors that are saved for the backward pass.

    Args:
        model: The model's settings.
        data: The data set's settings.
        images: Number of images of a batch.
        steps: Number of supervision steps whose activations are in memory at once.
        half: Whether matrix products are in bfloat16.
    """
    with torch.device("meta"), refuse_overflow(model):
        network = build(model, data)
    # allow_non_fake_inputs: the `meta` network is not a fake tensor.
    with FakeTensorMode(allow_non_fake_inputs=True), refuse_overflow(model):
        network = network.to_empty(device="cpu").train()
        weights = sum(weight.nbytes for weight in network.parameters())
        return weights, _saved_bytes(network, *example(model, data, images), steps, half)


def _saved_bytes(network: Network, images: Tensor, context: Tensor | None, steps: int, half: bool) -> int:
    """Return the bytes of the storages that autograd saves, without those of the network."""
    # By the storage's number. A reference to the tensor prevents that another storage gets the same number.
    saved_tensors: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        saved_tensors.setdefault(_storage(tensor), tensor)
        return tensor

    network_storages = {_storage(tensor) for tensor in (*network.parameters(), *network.buffers())}
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
    return sum(
        tensor.untyped_storage().nbytes()
        for storage, tensor in saved_tensors.items()
        if storage not in network_storages
    )


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
