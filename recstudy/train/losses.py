"""The loss of one supervision step, for each sample.

    L = CE(p, target) + w_halt BCE(halt, right) [+ w_halt BCE(proceed, target of halting.py)]      (1)  002 equation 5; HRM
    CE of one label an image:  -sum_k target_k log p_k                                             (2)
    CE of several:             mean over the known labels of BCE(logit_k, label_k)                 (3)

p is softmax(logits), or stablemax: p_k = s(l_k) / sum s(l), s(l) = l + 1 for l >= 0, else 1 / (1 - l), in float64 (4).
A sample is right when its arg max is its label or, of several labels, when every known one is on its side of 0. Halting
targets are not differentiated through.

Shapes: B samples, K classes, V >= K logits (a token's vocabulary may be larger than the classes).
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from recstudy.config import UNKNOWN, TrainConfig
from recstudy.data.batches import Batch
from recstudy.models.networks.contract import Output


def step_loss(output: Output, batch: Batch, config: TrainConfig, proceed_target: Tensor | None = None) -> Tensor:
    """Equation (1), (B,) in nats."""
    logits = output.logits.float()
    targets = batch.labels if batch.targets is None else F.pad(batch.targets, (0, logits.shape[-1] - batch.targets.shape[-1]))
    loss = answer_loss(logits, targets, config.loss, config.label_smoothing)
    if output.halt is None or config.halt_weight == 0:
        return loss
    correct = right(logits.detach(), _halting_label(batch, config)).float()
    halting = F.binary_cross_entropy_with_logits(output.halt.float(), correct, reduction="none")
    if output.proceed is not None and proceed_target is not None:
        halting = halting + F.binary_cross_entropy_with_logits(output.proceed.float(), proceed_target, reduction="none")
    return loss + config.halt_weight * halting


def answer_loss(logits: Tensor, targets: Tensor, kind: str = "softmax", smoothing: float = 0.0) -> Tensor:
    """Equations (2)-(4), (B,): targets are labels (B,), shares that sum to 1 (B, V), or several labels (B, K) of 0, 1, -1."""
    if targets.dim() == 2 and not targets.is_floating_point():
        return _several(logits, targets, smoothing)
    if kind == "softmax":
        return F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="none")
    shares = targets if targets.is_floating_point() else F.one_hot(targets, logits.shape[-1])
    shares = (1 - smoothing) * shares + smoothing / logits.shape[-1]
    return -(shares * log_stablemax(logits)).sum(-1).to(logits.dtype)


def log_stablemax(logits: Tensor) -> Tensor:
    """Equation (4) in float64."""
    logits = logits.double()
    s = torch.where(logits < 0, 1 / (1 - logits.clamp(max=0)), logits + 1)
    return s.log() - s.sum(-1, keepdim=True).log()


def right(logits: Tensor, labels: Tensor) -> Tensor:
    """Which samples are answered exactly, (B,)."""
    if labels.dim() == 1:
        return logits.argmax(-1) == labels
    return (((logits > 0) == (labels == 1)) | (labels == UNKNOWN)).all(-1)


def _several(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    known = (labels != UNKNOWN).float()
    targets = (1 - smoothing) * labels.clamp(min=0).float() + smoothing / 2
    each = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return (each * known).sum(-1) / known.sum(-1).clamp(min=1)


def _halting_label(batch: Batch, config: TrainConfig) -> Tensor:
    if config.halting_target == "original" or batch.targets is None:
        return batch.labels
    return batch.targets.argmax(-1)
