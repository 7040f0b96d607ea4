"""Metrics of classification, with one label or several labels per image.

Importing this module registers them. Shapes: N images, K classes.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from recstudy.base.lazy import np
from recstudy.programs.metric import METRICS, NotAvailable
from recstudy.recursive.config.answers import UNKNOWN, Answers, Scores
from recstudy.recursive.metrics.registry import metric, percent_metric

if TYPE_CHECKING:
    from recstudy.recursive.config.answers import Floats

BINS = 15  # bins of the calibration error, as in Guo et al. 2017


def right(answers: Answers) -> "Floats":
    """Return an array (N,): 100 if the most likely class is correct, otherwise 0."""
    return 100.0 * (answers.predicted == answers.labels)


@METRICS.add("top1_accuracy")
@percent_metric("Top-1 accuracy", short="top-1", ranks=True, share=True, each=right)
def top1_accuracy(answers: Answers) -> float:
    return 100 * float((answers.predicted == answers.labels).mean())


@METRICS.add("level_accuracy")
@percent_metric("Top-1 accuracy by level", of_levels=True, share=True)
def level_accuracy(answers: Answers) -> Scores:
    """Return the accuracy by level of difficulty."""
    if answers.levels is None:
        raise NotAvailable("the images have no levels of difficulty")
    is_right = answers.predicted == answers.labels
    levels = np.unique(answers.levels)
    return {str(level): 100 * float(is_right[answers.levels == level].mean()) for level in levels}


@METRICS.add("macro_f1")
@percent_metric("Macro F1")
def macro_f1(answers: Answers) -> float:
    """Return the unweighted mean of 2 TP / (2 TP + FP + FN) over the classes with a label or a prediction."""
    count = answers.logits.shape[1]
    predictions = np.bincount(answers.predicted, minlength=count)
    labels = np.bincount(answers.labels, minlength=count)
    hits = np.bincount(answers.labels[answers.predicted == answers.labels], minlength=count)
    totals = predictions + labels  # 2 TP + FP + FN, because each hit counts in both
    is_present = totals > 0
    return 100 * float((2 * hits[is_present] / totals[is_present]).mean())


@METRICS.add("ece")
@percent_metric("ECE", better="lower")
def calibration_error(answers: Answers) -> float:
    """Return the distance of confidence and accuracy, averaged over equal-width bins of confidence.

    Each bin is weighted by its number of images (Guo et al. 2017).
    """
    confidence = answers.probabilities.max(1)
    bins = (confidence * BINS).astype(np.int64).clip(max=BINS - 1)
    gaps = np.bincount(bins, weights=(answers.predicted == answers.labels) - confidence, minlength=BINS)
    return 100 * float(np.abs(gaps).sum() / len(confidence))


of_findings = partial(percent_metric, tasks=("multilabel",), by_finding=True)


@METRICS.add("auroc")
@of_findings("AUROC", ranks=True)
def auroc(answers: Answers) -> Scores:
    from sklearn.metrics import roc_auc_score

    return _by_class(roc_auc_score, answers)


@METRICS.add("average_precision")
@of_findings("Average precision")
def average_precision(answers: Answers) -> Scores:
    from sklearn.metrics import average_precision_score

    return _by_class(average_precision_score, answers)


def surprise(answers: Answers) -> "Floats":
    """Return an array (N,) with the negative log likelihood of each image's label, in nats.

    Raises:
        NotAvailable: The images have several labels each.
    """
    if answers.task != "multiclass":
        raise NotAvailable("the mean is over labels, not over images")
    return -answers.log_probabilities[np.arange(len(answers)), answers.labels]


@METRICS.add("nll")
@metric("NLL", unit="nats", better="lower", form=".3f", tasks=("multiclass", "multilabel"), each=surprise)
def nll(answers: Answers) -> float:
    """Return the mean over the images, or over the known labels if an image has several labels."""
    if answers.task == "multiclass":
        return float(surprise(answers).mean())
    is_known = answers.labels != UNKNOWN
    signed = np.where(answers.labels == 1, -answers.logits, answers.logits)[is_known]
    return float(np.logaddexp(0, signed).mean()) if is_known.any() else np.nan


def _by_class(measure: Callable[..., Any], answers: Answers) -> Scores:
    """Measure each class that has positive and negative images among its known labels."""
    values = {}
    for column, name in enumerate(answers.class_names):
        is_known = answers.labels[:, column] != UNKNOWN
        truth = answers.labels[is_known, column]
        if (truth == 1).any() and (truth == 0).any():
            values[name] = 100 * float(measure(truth, answers.logits[is_known, column]))
    return values
