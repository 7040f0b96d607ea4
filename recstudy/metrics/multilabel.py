"""How good answers are where an image has several labels, and the likelihood, which those with one label have too.

AUROC and average precision are in percent of every class that has both a known positive and a known negative image.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from recstudy.metrics.answers import UNKNOWN, Answers
from recstudy.metrics.classification import PERCENT
from recstudy.metrics.missing import NotAvailable
from recstudy.metrics.registry import METRICS, metric

if TYPE_CHECKING:
    from recstudy.metrics.answers import Floats

of_findings = partial(metric, unit="%", better="higher", form=".1f", bounds=PERCENT, tasks=("multilabel",), by_finding=True)


@METRICS.add("auroc")
@of_findings("AUROC", ranks=True)
def auroc(answers: Answers) -> dict[str, float]:
    from sklearn.metrics import roc_auc_score

    return _by_class(roc_auc_score, answers)


@METRICS.add("average_precision")
@of_findings("Average precision")
def average_precision(answers: Answers) -> dict[str, float]:
    from sklearn.metrics import average_precision_score

    return _by_class(average_precision_score, answers)


def surprise(answers: Answers) -> "Floats":
    """(N,) nats of each image's one label.

    Raises:
        NotAvailable: images have several, of which some may be unknown.
    """
    import numpy as np

    if answers.task != "multiclass":
        raise NotAvailable("the mean is over labels, not over images")
    return -answers.log_probabilities[np.arange(len(answers)), answers.labels]


@METRICS.add("nll")
@metric("NLL", unit="nats", better="lower", form=".3f", tasks=("multiclass", "multilabel"), each=surprise)
def nll(answers: Answers) -> float:
    """The mean over the images; over the known labels where an image has several."""
    import numpy as np

    if answers.task == "multiclass":
        return float(surprise(answers).mean())
    known = answers.labels != UNKNOWN
    signed = np.where(answers.labels == 1, -answers.logits, answers.logits)[known]
    return float(np.logaddexp(0, signed).mean()) if known.any() else np.nan


def _by_class(measure: Callable[..., Any], answers: Answers) -> dict[str, float]:
    values = {}
    for at, name in enumerate(answers.class_names):
        known = answers.labels[:, at] != UNKNOWN
        truth = answers.labels[known, at]
        if (truth == 1).any() and (truth == 0).any():
            values[name] = 100 * float(measure(truth, answers.logits[known, at]))
    return values
