"""Combine the values of several workers that share each batch. With one worker, these functions do nothing.

Every worker computes its share of the global batch. The gradients are summed once per step in one message.
Each share is weighted by its part of the global batch, so k workers take the step of a single worker, except
for values that depend on the share:

- dropout masks
- batch norm, which normalises by the worker's own images
- the pairs of a contrastive loss, whose negatives are the share's other images
- the balance loss of experts, which uses the loads of the share
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from recstudy.programs.attempt import Group
from recstudy.recursive.train.optim import batch_statistics

_is_solo = False  # whether this worker is in a `solo` block


@contextmanager
def solo() -> Iterator[None]:
    """Run the block as a single worker, without messages to the others.

    One worker uses it to make a file that the others wait for: they would never answer a message.
    """
    global _is_solo
    was_solo, _is_solo = _is_solo, True
    try:
        yield
    finally:
        _is_solo = was_solo


def rank_and_world() -> tuple[int, int]:
    """Return this worker's number and the number of workers; (0, 1) without other workers."""
    return (dist.get_rank(), dist.get_world_size()) if _several() else (0, 1)


def total(values: Tensor) -> Tensor:
    """Return the sum of `values` over the workers, on each worker."""
    if _several():
        dist.all_reduce(values)
    return values


@torch.no_grad()
def sum_gradients(weights: Iterable[torch.nn.Parameter]) -> None:
    """Replace each gradient by its sum over the workers, in one message for all dense gradients."""
    if not _several():
        return
    gradients: list[Tensor] = []
    for weight in weights:
        if weight.grad is not None and weight.grad.is_sparse:
            rows = weight.grad.coalesce()
            ids, values = concatenated(rows.indices()[0]), concatenated(rows.values())
            # Rows of equal ids are summed later, by the optimiser.
            weight.grad = torch.sparse_coo_tensor(ids[None], values, rows.shape)
        elif weight.grad is not None:
            gradients.append(weight.grad)
    flat = total(torch.cat([gradient.flatten() for gradient in gradients]))
    sizes = [gradient.numel() for gradient in gradients]
    for gradient, summed in zip(gradients, flat.split(sizes), strict=True):
        gradient.copy_(summed.view_as(gradient))


def concatenated(share: Tensor) -> Tensor:
    """Return the shares of all workers, concatenated along the first dimension, on each worker."""
    if not _several():
        return share
    rank, world = rank_and_world()
    sizes = torch.zeros(world, dtype=torch.int64, device=share.device)
    sizes[rank] = len(share)
    start, count = int(total(sizes)[:rank].sum()), int(sizes.sum())
    values = torch.zeros(count, *share.shape[1:], dtype=share.dtype, device=share.device)
    values[start : start + len(share)] = share
    return total(values)


@torch.no_grad()
def average_buffers(network: nn.Module) -> None:
    """Replace batch norm's running statistics by their mean over the workers."""
    if _several():
        for buffer in batch_statistics(network):
            total(buffer).div_(dist.get_world_size())


class Workers(Group):
    """The group of Ray Train workers of this process; a group of one without Ray Train."""

    def __init__(self) -> None:
        self.rank, self.world = rank_and_world()

    def broadcast_flag(self, value: bool) -> bool:
        return self.any_true(value and rank_and_world()[0] == 0)

    def broadcast_result(self, value: Callable[[], Any]) -> Any:
        values = [value() if rank_and_world()[0] == 0 else None]
        if _several():
            dist.broadcast_object_list(values, device=torch.device("cpu"))
        return values[0]

    def any_true(self, value: bool) -> bool:
        return bool(total(torch.tensor(int(value))))


def wait_for_all() -> None:
    if _several():
        dist.barrier()


def _several() -> bool:
    return not _is_solo and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
