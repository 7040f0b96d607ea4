"""The loss of one supervision step, for each item.

    L = task's loss + w_halt BCE(halt, right) [+ w_halt BCE(proceed, target of halting.py)]        (1)  002 equation 5; HRM
    cross-entropy  -sum_k target_k log p_k                                                         (2)
    p = softmax(logits), or stablemax: p_k = s(l_k) / sum s(l), s(l) = l + 1 for l >= 0, else 1 / (1 - l), in float64   (3)
    of tokens, the mean over those that are asked for of (2): all but PAD                          (4)

What a task's loss is and when an item is right stands in `recstudy.tasks`. Halting targets are not
differentiated through.

Shapes: B items, V logits, T tokens.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from recstudy.config import LOSSES, PAD, TrainConfig
from recstudy.data.batches import Batch
from recstudy.errors import ConfigError
from recstudy.models.networks.contract import Output
from recstudy.models.networks.layers import in_float64

if TYPE_CHECKING:
    from recstudy.tasks import Task

Loss = Callable[[Tensor, Tensor, float], Tensor]


def step_loss(output: Output, batch: Batch, task: "Task", proceed_target: Tensor | None = None) -> Tensor:
    """Return (1), (B,) in nats, or the model's own loss.

    Raises:
        ConfigError: the task gives no loss an item, or does not say of each whether it is right.
    """
    if output.loss is not None:
        return output.loss
    train = task.config.train
    loss, weight = item_loss(output, batch._replace(smoothing=train.label_smoothing), task), train.halt_weight
    if output.halt is None or weight == 0:
        return loss
    correct = an_item(
        "`right`", task.right(output._replace(logits=output.logits.detach()), batch), batch, task
    ).float()
    halting = F.binary_cross_entropy_with_logits(output.halt.float(), correct, reduction="none")
    if output.proceed is not None and proceed_target is not None:
        halting = halting + F.binary_cross_entropy_with_logits(
            output.proceed.float(), proceed_target, reduction="none"
        )
    return loss + weight * halting


def item_loss(output: Output, batch: Batch, task: "Task") -> Tensor:
    """Return the task's loss of each item, (B,) in nats (ConfigError: it gives none an item)."""
    return an_item("the loss", task.loss(output, batch), batch, task)


def an_item(what: str, found: Tensor, batch: Batch, task: "Task") -> Tensor:
    """Return what a task gives of a batch (ConfigError: it is not one number an item)."""
    wanted = (len(batch.images),)
    if found.shape != wanted:
        raise ConfigError(
            f"{what} of the task {task.name!r} must be {wanted}, one an item, but is {tuple(found.shape)}"
        )
    return found


def loss_of(config: TrainConfig) -> Loss:
    """Return the registered loss that a config names, with its options; it is held to give a number an
    item.
    """
    loss, options = LOSSES[config.loss], config.loss_options.model_dump()

    def each(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        found = loss(logits, targets, smoothing, **options)
        if found.shape != logits.shape[:1]:
            shape = tuple(found.shape)
            raise ConfigError(
                f"the loss {config.loss!r} must give one number a sample, {len(logits)} in all, but gives"
                f" {shape}"
            )
        return found

    return each


def softmax(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return (2) of softmax's probabilities, (N,)."""
    return F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="none")


def stablemax(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return (2) of stablemax's probabilities, (N,) (HRM, TRM)."""
    log = log_stablemax(logits)
    return -(shares(logits, targets, smoothing).to(log.device) * log).sum(-1).to(logits)


def shares(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Labels (N,), or shares (N, V) of them, as smoothed shares (N, V) that sum to 1."""
    given = targets if targets.is_floating_point() else F.one_hot(targets, logits.shape[-1])
    return (1 - smoothing) * given + smoothing / logits.shape[-1]


def log_stablemax(logits: Tensor) -> Tensor:
    """Equation (3) in float64."""
    logits = in_float64(logits)
    s = torch.where(logits < 0, 1 / (1 - logits.clamp(max=0)), logits + 1)
    return s.log() - s.sum(-1, keepdim=True).log()


def token_loss(logits: Tensor, tokens: Tensor, loss: Loss = softmax, smoothing: float = 0.0) -> Tensor:
    """Return (4), (B,), of logits (B, T, V): tokens (B, T), or those of a caption (B, T + 1), of which the
    first is given.
    """
    tokens = _given(logits, tokens)
    there = tokens != PAD
    each = loss(logits.flatten(0, 1), tokens.flatten(), smoothing).view_as(tokens)
    return (each * there).sum(-1) / there.sum(-1).clamp(min=1)


def token_hits(logits: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return of each caption or puzzle, (B,), how many of its tokens are the most likely ones, and how many
    there are.
    """
    tokens = _given(logits, tokens)
    there = tokens != PAD
    return ((logits.argmax(-1) == tokens) & there).sum(-1), there.sum(-1)


def token_share(logits: Tensor, tokens: Tensor, *, exact: bool) -> Tensor:
    """Return which captions or puzzles have all of their tokens right, (B,); the share of them that are,
    where not `exact`.
    """
    hits, there = token_hits(logits, tokens)
    return hits == there if exact else hits / there.clamp(min=1)


def _given(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return the tokens that logits (B, T, V) give: the last T, where a caption's first is given."""
    return tokens[:, -logits.shape[1] :]
