"""What a task's predictions are judged by."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from recstudy.config import SCORES as SCORES
from recstudy.config import Task
from recstudy.metrics.classification import classification
from recstudy.metrics.multilabel import auroc, multilabel


def score(task: Task, logits: Tensor, labels: Tensor) -> float:
    """`SCORES[task]` of logits (N, K) on any device; not a number where nothing can be judged."""
    if task == "multilabel":
        return auroc(logits.cpu(), labels.cpu())
    return 100 * (logits.argmax(-1) == labels).double().mean().item()


def measures(task: Task, logits: Tensor, labels: Tensor, names: Sequence[str]) -> dict[str, Any]:
    """Everything that is measured on the test set: `metrics`, and `undefined` classes where there are several labels."""
    if task == "multilabel":
        metrics, undefined = multilabel(logits.cpu(), labels.cpu(), names)
        return {"metrics": metrics, "undefined": undefined}
    return {"metrics": classification(logits.cpu(), labels.cpu())}
