"""Compute the loss of one supervision step, for each item.

    L = task's loss + w_halt BCE(halt, right) [+ w_halt BCE(proceed, target of halting.py)]          (1)
    cross-entropy = -sum_k target_k log p_k                                                          (2)
    p = softmax(logits), or stablemax: p_k = s(l_k) / sum_j s(l_j), in float64,                      (3)
        with s(l) = l + 1 for l >= 0, and 1 / (1 - l) for l < 0
    for tokens: the mean of (2) over all tokens but PAD                                              (4)

(1) is ViTRM, Eq. 5, and with `proceed` the loss of HRM.

The tasks (`recstudy.recursive.tasks`) define their loss and when an item is correct. Halting targets have no
gradient.

Shapes: B items, V logits, T tokens.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from recstudy.base.errors import ConfigError
from recstudy.recursive.config.functions import LOSSES
from recstudy.recursive.config.parts import PAD
from recstudy.recursive.config.train import TrainConfig
from recstudy.recursive.data.batches import Batch
from recstudy.recursive.models.networks.contract import Output
from recstudy.recursive.models.networks.layers import in_float64
from recstudy.recursive.train.task import Task

Loss = Callable[[Tensor, Tensor, float], Tensor]


def step_loss(output: Output, batch: Batch, task: Task, proceed_target: Tensor | None = None) -> Tensor:
    """Compute the loss of one supervision step, Eq. 1.

    Args:
        output: The network's output.
        batch: The batch.
        task: The task, which defines the loss of an answer and whether it is correct.
        proceed_target: Target of `proceed` (B,), Eq. 3 of halting.py; None for a model without it.

    Returns:
        The loss of each item (B,) in nats, or the model's own loss.

    Raises:
        ConfigError: The task does not return one loss, or one correctness, per item.
    """
    if output.loss is not None:
        return output.loss
    train = task.config.train
    loss, weight = item_loss(output, batch._replace(smoothing=train.label_smoothing), task), train.halt_weight
    if output.halt is None or weight == 0:
        return loss
    # Eq. 1: the halting head learns whether the answer is correct. The target has no gradient.
    correct = task.right(output._replace(logits=output.logits.detach()), batch)
    correct = _check_item_values("`right`", correct, batch, task).float()
    halting = F.binary_cross_entropy_with_logits(output.halt.float(), correct, reduction="none")
    if output.proceed is not None and proceed_target is not None:
        halting = halting + F.binary_cross_entropy_with_logits(
            output.proceed.float(), proceed_target, reduction="none"
        )
    return loss + weight * halting


def item_loss(output: Output, batch: Batch, task: Task) -> Tensor:
    """Return the task's loss of each item (B,) in nats.

    Raises:
        ConfigError: The task does not return one loss per item.
    """
    return _check_item_values("the loss", task.loss(output, batch), batch, task)


def _check_item_values(name: str, values: Tensor, batch: Batch, task: Task) -> Tensor:
    """Return a task's values for a batch (ConfigError: they are not one number per item)."""
    shape, expected_shape = tuple(values.shape), (len(batch.images),)
    if shape != expected_shape:
        raise ConfigError(
            f"{name} of the task {task.name!r} must have the shape {expected_shape}, one number per item, but"
            f" has {shape}"
        )
    return values


def loss_of(config: TrainConfig) -> Loss:
    """Return the registered loss of a config.

    The loss raises a ConfigError if it does not return one number per sample.
    """
    loss = LOSSES[config.loss]

    def checked_loss(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        losses = loss(logits, targets, smoothing)
        if losses.shape != logits.shape[:1]:
            raise ConfigError(
                f"the loss {config.loss!r} must return one number per sample, with the shape"
                f" {tuple(logits.shape[:1])}, but returns {tuple(losses.shape)}"
            )
        return losses

    return checked_loss


def softmax(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return the cross-entropy of softmax probabilities, Eq. 2, (N,) in nats."""
    return F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="none")


def stablemax(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return the cross-entropy of stablemax probabilities, Eqs. 2 and 3, (N,) in nats (HRM, TRM)."""
    log = log_stablemax(logits)
    return -(shares(logits, targets, smoothing).to(log.device) * log).sum(-1).to(logits)


def shares(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Return labels (N,) or shares of labels (N, V) as smoothed shares (N, V) that sum to 1."""
    if not targets.is_floating_point():  # F.one_hot would read the largest label
        targets = torch.zeros_like(logits, dtype=torch.float32).scatter_(1, targets.unsqueeze(1), 1.0)
    return (1 - smoothing) * targets + smoothing / logits.shape[-1]


def log_stablemax(logits: Tensor) -> Tensor:
    """Return the logarithm of stablemax, Eq. 3, in float64 as in the code of HRM and TRM."""
    logits = in_float64(logits)
    s = torch.where(logits < 0, 1 / (1 - logits.clamp(max=0)), logits + 1)
    return s.log() - s.sum(-1, keepdim=True).log()


def token_loss(logits: Tensor, tokens: Tensor, loss: Loss = softmax, smoothing: float = 0.0) -> Tensor:
    """Return the mean loss over the tokens of each item, Eq. 4.

    Args:
        logits: (B, T, V).
        tokens: (B, T), or a caption (B, T + 1) with its first token, which is given and not predicted.
        loss: The loss of one token.
        smoothing: The label smoothing.

    Returns:
        The loss (B,) in nats. PAD does not count.
    """
    tokens = _predicted_tokens(logits, tokens)
    is_token = tokens != PAD
    losses = loss(logits.flatten(0, 1), tokens.flatten(), smoothing).view_as(tokens)
    return (losses * is_token).sum(-1) / is_token.sum(-1).clamp(min=1)


def token_hits(logits: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of correctly predicted tokens and the number of tokens of each item, both (B,)."""
    tokens = _predicted_tokens(logits, tokens)
    is_token = tokens != PAD
    return ((logits.argmax(-1) == tokens) & is_token).sum(-1), is_token.sum(-1)


def token_share(logits: Tensor, tokens: Tensor, *, exact: bool) -> Tensor:
    """Return the share of correct tokens of each item (B,); if `exact`, whether all of them are correct."""
    hits, counts = token_hits(logits, tokens)
    return hits == counts if exact else hits / counts.clamp(min=1)


def _predicted_tokens(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return the tokens that the logits (B, T, V) predict: the last T of a caption."""

    return tokens[:, -logits.shape[1] :]
