"""Several workers that share each batch: sums and means over all of them, and nothing to do for one.

Every worker computes its share of the global batch; gradients are summed once a step in one flat message.
With the share weighted by its part of the global batch, k workers take the step that one worker would take,
but for what is drawn or computed within a share: dropout masks; batch norm, which sees its worker's images
alone; the pairs of a contrastive loss, where a caption is told apart from its share's other images only; and
the balance of experts, whose loads are a share's.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from recstudy.programs.base import Group
from recstudy.train.optim import batch_statistics

_alone = False  # in a `solo` block


@contextmanager
def solo() -> Iterator[None]:
    """Leave this worker alone within the block: it waits for no other one, and none waits for it.

    For what one worker makes and the others find: they may wait for its file, and would never answer a
    message.
    """
    global _alone
    before, _alone = _alone, True
    try:
        yield
    finally:
        _alone = before


def rank_and_world() -> tuple[int, int]:
    """Return this worker's number and how many there are; (0, 1) alone."""
    return (dist.get_rank(), dist.get_world_size()) if _several() else (0, 1)


def total(values: Tensor) -> Tensor:
    """Return the sum of `values` over the workers, on each of them."""
    if _several():
        dist.all_reduce(values)
    return values


@torch.no_grad()
def sum_gradients(weights: Iterable[torch.nn.Parameter]) -> None:
    """Replace each gradient by its sum over the workers, in one message for all that are dense."""
    if not _several():
        return
    gradients: list[Tensor] = []
    for weight in weights:
        if weight.grad is not None and weight.grad.is_sparse:
            rows = weight.grad.coalesce()
            ids, values = concatenated(rows.indices()[0]), concatenated(rows.values())
            # rows of equal ids stay apart
            weight.grad = torch.sparse_coo_tensor(ids[None], values, rows.shape)
        elif weight.grad is not None:
            gradients.append(weight.grad)
    flat = total(torch.cat([gradient.flatten() for gradient in gradients]))
    for gradient, summed in zip(
        gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True
    ):
        gradient.copy_(summed.view_as(gradient))


def concatenated(share: Tensor) -> Tensor:
    """Return all workers' shares one after the other along the first dimension, on each of them."""
    if not _several():
        return share
    rank, world = rank_and_world()
    sizes = torch.zeros(world, dtype=torch.int64, device=share.device)
    sizes[rank] = len(share)
    start, count = int(total(sizes)[:rank].sum()), int(sizes.sum())
    whole = torch.zeros(count, *share.shape[1:], dtype=share.dtype, device=share.device)
    whole[start : start + len(share)] = share
    return total(whole)


@torch.no_grad()
def average_buffers(network: nn.Module) -> None:
    """Replace batch norm's running statistics by their mean over the workers."""
    if _several():
        for buffer in batch_statistics(network):
            total(buffer).div_(dist.get_world_size())


class Workers(Group):
    """The group of Ray Train workers that this process belongs to; without Ray Train, a group of one."""

    def __init__(self) -> None:
        self.rank, self.world = rank_and_world()

    def broadcast_flag(self, value: bool) -> bool:
        return self.any_true(value and rank_and_world()[0] == 0)

    def broadcast_result(self, value: Callable[[], Any]) -> Any:
        given = [value() if rank_and_world()[0] == 0 else None]
        if _several():
            dist.broadcast_object_list(given, device=torch.device("cpu"))
        return given[0]

    def any_true(self, value: bool) -> bool:
        return bool(total(torch.tensor(int(value))))


def wait_for_all() -> None:
    if _several():
        dist.barrier()


def _several() -> bool:
    return not _alone and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
