"""How much memory a training step needs, found without taking any: on torch's fake tensors, which have shapes alone.

Weights, their gradients, the optimiser's state and the copies that are kept of them; and what the forward pass saves for the
backward pass, each storage once. What a step takes for a moment beside that, such as one layer's gradients, is not in it:
measured peaks on a CPU lie between 0.8 and 1.25 times the estimate (tests/metrics/test_training_memory.py).
"""

from contextlib import AbstractContextManager
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks

from recstudy.config import DataConfig, ModelConfig, RunConfig
from recstudy.models.cost import steps_a_batch, within_reach
from recstudy.models.networks.contract import Network, build, example

KEPT = 4  # copies of the weights: themselves, their gradients and the two moments of Adam


def training_memory(config: RunConfig) -> int:
    """Bytes that one worker of a run needs to train, without the libraries' own."""
    train = config.train
    own = -(-train.batch_size // config.place.workers_per_run)  # images of this worker
    joined = 1 if train.detach_carry else steps_a_batch(config)  # supervision steps whose activations are kept at once
    weights, activations = _measured(config.model, config.data, own, joined, train.precision == "bfloat16")
    copies = KEPT + (train.ema_decay > 0) + (train.selection != "last")
    return copies * weights + activations


@lru_cache(maxsize=256)
def _measured(model: ModelConfig, data: DataConfig, images: int, steps: int, half: bool) -> tuple[int, int]:
    """Bytes of the weights, and of what `steps` forward passes on so many images save for the backward pass."""
    with torch.device("meta"), within_reach(model):
        network = build(model, data)
    with FakeTensorMode(allow_non_fake_inputs=True), within_reach(model):  # the `meta` network is one
        network = network.to_empty(device="cpu").train()
        weights = sum(weight.nbytes for weight in network.parameters())
        return weights, _saved(network, *example(model, data, images), steps, half)


def _saved(network: Network, images: Tensor, told: Tensor | None, steps: int, half: bool) -> int:
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
