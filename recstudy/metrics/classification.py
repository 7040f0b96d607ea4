"""How good class predictions are, from logits (N, K) and labels (N,)."""

import torch
from torch import Tensor

BINS = 15  # of the calibration error, as in Guo et al. 2017


def classification(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Top-1 accuracy, macro F1 and expected calibration error in percent, negative log-likelihood in nats."""
    return {
        "top1_accuracy": 100 * (logits.argmax(-1) == labels).double().mean().item(),
        "macro_f1": 100 * macro_f1(logits.argmax(-1), labels, logits.shape[-1]),
        "nll": torch.nn.functional.cross_entropy(logits.double(), labels).item(),
        "ece": 100 * calibration_error(logits, labels),
    }


def macro_f1(predicted: Tensor, labels: Tensor, classes: int) -> float:
    """Unweighted mean over the classes present of 2 TP / (2 TP + FP + FN)."""
    confusion = torch.zeros(classes, classes, dtype=torch.float64)
    confusion.index_put_((labels, predicted), torch.ones(len(labels), dtype=torch.float64), accumulate=True)
    right, wrong = confusion.diag(), confusion.sum(0) + confusion.sum(1)  # wrong counts each hit twice
    present = wrong > 0
    return (2 * right[present] / wrong[present]).mean().item()


def calibration_error(logits: Tensor, labels: Tensor) -> float:
    """Mean distance of confidence and accuracy over equal-width bins of confidence, weighted by their size."""
    confidence, predicted = logits.double().softmax(-1).max(-1)
    correct = (predicted == labels).double()
    bins = (confidence * BINS).long().clamp(max=BINS - 1)
    gap = torch.zeros(BINS, dtype=torch.float64).index_add_(0, bins, correct - confidence)
    return (gap.abs().sum() / len(labels)).item()
