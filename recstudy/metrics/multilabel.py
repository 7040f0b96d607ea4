"""How good predictions of several labels an image are, from logits (N, K) and labels (N, K) of 1, 0 and -1 (unknown)."""

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from recstudy.config import UNKNOWN


def multilabel(logits: Tensor, labels: Tensor, names: Sequence[str]) -> tuple[dict[str, float], list[str]]:
    """AUROC and average precision in percent, mean and by name, with the mean NLL in nats a known label; and the undefined.

    A class is undefined where it has no known positive or no known negative image: it is named and left out of the means.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    each = {
        "auroc": _by_class(roc_auc_score, logits, labels, names),
        "average_precision": _by_class(average_precision_score, logits, labels, names),
    }
    known = labels != UNKNOWN
    nll = F.binary_cross_entropy_with_logits(logits[known].double(), labels[known].double()).item() if known.any() else None
    means = {metric: float(np.mean(list(values.values()))) for metric, values in each.items() if values}
    named = {f"{metric}.{name}": value for metric, values in each.items() for name, value in values.items()}
    undefined = [name for name in names if name not in each["auroc"]]
    return {**means, **({} if nll is None else {"nll": nll}), **named}, undefined


def auroc(logits: Tensor, labels: Tensor) -> float:
    """The mean AUROC over the defined classes, in percent; not a number where none is defined."""
    from sklearn.metrics import roc_auc_score

    values = _by_class(roc_auc_score, logits, labels, [str(at) for at in range(labels.shape[1])])
    return float(np.mean(list(values.values()))) if values else float("nan")


def _by_class(measure: Callable[..., float], logits: Tensor, labels: Tensor, names: Sequence[str]) -> dict[str, float]:
    """`measure` in percent of every class that has both a known positive and a known negative image."""
    scores, truth = logits.double().numpy(), labels.numpy()
    values = {}
    for at, name in enumerate(names):
        known = truth[:, at] != UNKNOWN
        if len(np.unique(truth[known, at])) == 2:
            values[name] = 100 * float(measure(truth[known, at], scores[known, at]))
    return values
