"""The loss of one supervision step, for each sample.

    L = CE(p, target) + w_halt BCE(halt, right) [+ w_halt BCE(proceed, target of halting.py)]      (1)  002 equation 5; HRM
    CE of one label an image:  -sum_k target_k log p_k                                             (2)
    CE of several:             mean over the known labels of BCE(logit_k, label_k)                 (3)
    CE of a caption:           mean over its tokens of (2), each by the tokens before it           (5)
    CE of a puzzle:            mean over the cells that are asked for of (2)                       (7)
    with caption_mean `batch`: (5) times its tokens, over the mean number of tokens of a caption   (6)

p is softmax(logits), or stablemax: p_k = s(l_k) / sum s(l), s(l) = l + 1 for l >= 0, else 1 / (1 - l), in float64 (4).
A sample is right when its arg max is its label or, of several labels, when every known one is on its side of 0. A caption
is as right as the share of its tokens that are (or, for an exact model, right when all are). Halting targets are not
differentiated through.

Shapes: B samples, K classes, V >= K logits (a token's vocabulary may be larger than the classes), T tokens.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from recstudy.config import LOSSES, PAD, UNKNOWN, TrainConfig
from recstudy.data.batches import Batch
from recstudy.errors import ConfigError
from recstudy.models.networks.contract import Output
from recstudy.train.parallel import total

Loss = Callable[[Tensor, Tensor, float], Tensor]


def step_loss(
    output: Output, batch: Batch, config: TrainConfig, proceed_target: Tensor | None = None, exact: bool = True
) -> Tensor:
    """Equation (1), (B,) in nats, or the model's own loss; `exact`: a caption with one wrong token is wrong."""
    if output.loss is not None:
        return output.loss
    logits = output.logits.float()
    targets = batch.labels if batch.targets is None else F.pad(batch.targets, (0, logits.shape[-1] - batch.targets.shape[-1]))
    loss = answer_loss(logits, targets, loss_of(config), config.label_smoothing)
    if logits.dim() == 3 and config.caption_mean == "batch":
        loss = loss * _weights(targets, batch.total)
    if output.halt is None or config.halt_weight == 0:
        return loss
    correct = right(logits.detach(), _halting_label(batch, config), exact).float()
    halting = F.binary_cross_entropy_with_logits(output.halt.float(), correct, reduction="none")
    if output.proceed is not None and proceed_target is not None:
        halting = halting + F.binary_cross_entropy_with_logits(output.proceed.float(), proceed_target, reduction="none")
    return loss + config.halt_weight * halting


def loss_of(config: TrainConfig) -> Loss:
    """The registered loss that a config names, with its options; it is held to give a number a sample."""
    loss, options = LOSSES[config.loss], config.loss_options.model_dump()

    def each(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        found = loss(logits, targets, smoothing, **options)
        if found.shape != logits.shape[:1]:
            shape = tuple(found.shape)
            raise ConfigError(f"the loss {config.loss!r} must give one number a sample, {len(logits)} in all, but gives {shape}")
        return found

    return each


def softmax(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    return F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="none")


def stablemax(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    return -(shares(logits, targets, smoothing) * log_stablemax(logits)).sum(-1).to(logits.dtype)


def shares(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Labels (N,), or shares (N, V) of them, as smoothed shares (N, V) that sum to 1."""
    given = targets if targets.is_floating_point() else F.one_hot(targets, logits.shape[-1])
    return (1 - smoothing) * given + smoothing / logits.shape[-1]


def answer_loss(logits: Tensor, targets: Tensor, loss: Loss = softmax, smoothing: float = 0.0) -> Tensor:
    """Equations (2)-(5), (B,): targets are labels (B,), shares that sum to 1 (B, V), several labels (B, K) of 0, 1, -1, or the
    tokens of which logits (B, T, V) give the last T: all but the first of a caption (B, T + 1), all of a puzzle (B, T)."""
    if logits.dim() == 3:
        return _tokens(logits, _given(logits, targets), loss, smoothing)
    if targets.dim() == 2 and not targets.is_floating_point():
        return _several(logits, targets, smoothing)
    return loss(logits, targets, smoothing)


def log_stablemax(logits: Tensor) -> Tensor:
    """Equation (4) in float64."""
    logits = logits.double()
    s = torch.where(logits < 0, 1 / (1 - logits.clamp(max=0)), logits + 1)
    return s.log() - s.sum(-1, keepdim=True).log()


def right(logits: Tensor, labels: Tensor, exact: bool = True) -> Tensor:
    """Which samples are answered exactly, (B,); of captions the share of the tokens, where not `exact`."""
    if logits.dim() == 3:
        hits, tokens = token_hits(logits, labels)
        return hits == tokens if exact else hits / tokens
    if labels.dim() == 1:
        return logits.argmax(-1) == labels
    return (((logits > 0) == (labels == 1)) | (labels == UNKNOWN)).all(-1)


def token_hits(logits: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Of each caption or puzzle, (B,): how many of its tokens are the most likely ones, and how many there are."""
    tokens = _given(logits, tokens)
    there = tokens != PAD
    return ((logits.argmax(-1) == tokens) & there).sum(-1), there.sum(-1).clamp(min=1)


def _given(logits: Tensor, tokens: Tensor) -> Tensor:
    """The tokens that logits (B, T, V) give: the last T, where a caption's first is given."""
    return tokens[:, -logits.shape[1] :]


def _tokens(logits: Tensor, tokens: Tensor, loss: Loss, smoothing: float) -> Tensor:
    there = tokens != PAD
    each = loss(logits.flatten(0, 1), tokens.flatten(), smoothing).view_as(tokens)
    return (each * there).sum(-1) / there.sum(-1).clamp(min=1)


def _weights(tokens: Tensor, captions: int) -> Tensor:
    """Equation (6)'s weight of each of this worker's captions, out of so many of all workers'."""
    counts = (tokens[:, 1:] != PAD).sum(-1).float()
    return counts * captions / total(counts.sum())


def _several(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    known = (labels != UNKNOWN).float()
    targets = (1 - smoothing) * labels.clamp(min=0).float() + smoothing / 2
    each = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return (each * known).sum(-1) / known.sum(-1).clamp(min=1)


def _halting_label(batch: Batch, config: TrainConfig) -> Tensor:
    if config.halting_target == "original" or batch.targets is None:
        return batch.labels
    return batch.targets.argmax(-1)
