"""What a training step holds in memory, found without taking any: on torch's fake tensors, which have shapes alone."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks

from recstudy.config import DataConfig, ModelConfig
from recstudy.models.counting import within_reach
from recstudy.models.networks.contract import Network, build, example


def saved(model: ModelConfig, data: DataConfig, images: int, steps: int, half: bool) -> tuple[int, int]:
    """Bytes of the weights, and of what `steps` forward passes on so many images save for the backward pass."""
    with torch.device("meta"), within_reach(model):
        network = build(model, data)
    with FakeTensorMode(allow_non_fake_inputs=True), within_reach(model):  # the `meta` network is one
        network = network.to_empty(device="cpu").train()
        weights = sum(weight.nbytes for weight in network.parameters())
        return weights, _kept(network, *example(model, data, images), steps, half)


def _kept(network: Network, images: Tensor, told: Tensor | None, steps: int, half: bool) -> int:
    """Bytes of the storages that autograd keeps, apart from the network's own."""
    kept: dict[int, Tensor] = {}  # by storage; holding a tensor keeps its storage's number from another
    own = {_storage(tensor) for tensor in (*network.parameters(), *network.buffers())}
    with _keeping(kept), torch.autocast("cpu", torch.bfloat16, enabled=half):
        carry = network.start(images, told)
        loss = torch.zeros(())
        for _ in range(steps):
            output, carry = network(images, carry)
            loss = loss + nn.functional.log_softmax(output.logits.float(), -1).sum()
            loss = loss if output.halt is None else loss + output.halt.float().sum()
    return sum(tensor.untyped_storage().nbytes() for storage, tensor in kept.items() if storage not in own)


def _keeping(kept: dict[int, Tensor]) -> AbstractContextManager[None]:
    def pack(tensor: Tensor) -> Tensor:
        kept.setdefault(_storage(tensor), tensor)
        return tensor

    return saved_tensors_hooks(pack, lambda tensor: tensor)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
