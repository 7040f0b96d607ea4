"""Read and write `answers.npz`, the saved answers of a run, so that new metrics need no training.

The file is compressed and of limited size. `recstudy.recursive.train` writes it; reports and
`recstudy.recursive.reevaluate` read it. It has these arrays for N test images and K classes:

    about              JSON: format, task, names of the classes, number of images of the complete test split
    answers (N, K)     float16: log probabilities of the classes, or logits if an image has several labels
    labels, rows       as in `Answers`
    groups, levels     as in `Answers`, if the data set has patients or levels of difficulty
    captions           JSON, for the task `caption`: `written` and `references`
    cells, lawful      for the task `grid`, which has no `answers`
    kept.NAME          the arrays of other tasks, in their own precision
"""

import io
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from recstudy.base import opened
from recstudy.base.errors import StorageError
from recstudy.base.lazy import np
from recstudy.programs.metric import METRICS
from recstudy.recursive.config.answers import Answers, Scores
from recstudy.recursive.metrics.classification import BINS
from recstudy.recursive.metrics.registry import measured

if TYPE_CHECKING:
    import numpy.typing as npt

LIMIT = 4 * 2**20  # bytes of the file; about 2,000 of ImageNet's 50,000 x 1,000 answers fit
FORMAT = 1
KEPT_PREFIX = "kept."  # of the arrays in `Answers.task_arrays`
# Smaller types of the arrays that are int64 in `Answers`.
INTEGERS = {"rows": "int32", "groups": "int32", "levels": "int32", "lawful": "uint8"}


class SavedAnswers(NamedTuple):
    """The saved answers of a run.

    Args:
        answers: The answers for the first test images, as many as fit the size limit.
        total: The number of test images of the complete split.
    """

    answers: Answers
    total: int

    @property
    def is_truncated(self) -> bool:
        return len(self.answers) < self.total


def pack_answers(answers: Answers, limit: int = LIMIT) -> tuple[bytes, int]:
    """Pack answers into the content of `answers.npz`.

    Args:
        answers: The answers.
        limit: Largest size of the file in bytes.

    Returns:
        The content, and the number of images in it: all of them, or the first that fit the limit.
    """
    count = len(answers)
    content = _archive(answers, count, count)
    while len(content) > limit and count:
        # Compression varies between images, so 5 % less than the proportional number is tried.
        count = min(count - 1, int(0.95 * count * limit / len(content)))
        content = _archive(answers, count, len(answers))
    return content, count


def unpack_answers(path: Path) -> SavedAnswers:
    """Read a file that `pack_answers` wrote.

    Raises:
        StorageError: The file is damaged or was written by a newer recstudy.
    """
    try:
        arrays = opened.arrays(path)
        about = _text(arrays["about"])
        if about["format"] > FORMAT:
            raise StorageError(
                f"{path} was written by a newer recstudy (format {about['format']}). Update this one."
            )
        captions, labels = _text(arrays["captions"]), arrays["labels"]
        _check(about, arrays, captions)
        integers: dict[str, Any] = {
            name: arrays[name].astype(np.int64) for name in INTEGERS if name in arrays
        }
        answers = Answers(
            about["task"],
            arrays["answers"].astype(np.float64),
            labels.astype(np.float64 if labels.dtype.kind == "f" else np.int64),
            tuple(about["class_names"]),
            written=captions["written"],
            references=captions["references"],
            cells=arrays.get("cells", np.empty(0, np.uint8)),
            task_arrays={
                name.removeprefix(KEPT_PREFIX): array
                for name, array in arrays.items()
                if name.startswith(KEPT_PREFIX)
            },
            **integers,
        )
        return SavedAnswers(answers, about["images"])
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        RecursionError,
        OverflowError,
    ) as error:
        raise StorageError(
            f"{path} is damaged ({error}). Remove it, and the answers are computed again from the weights."
        ) from None


def _check(
    about: Mapping[str, Any], arrays: "Mapping[str, npt.NDArray[Any]]", captions: Mapping[str, Any]
) -> None:
    """Check that all arrays have the same number of images, and that texts are texts.

    Without the check, an error of a metric on a damaged file would look like an error in the metric.

    Raises:
        ValueError: The file is damaged.
    """
    image_arrays = {name: array for name, array in arrays.items() if name not in ("about", "captions")}
    lengths = {name: len(array) if array.ndim else -1 for name, array in image_arrays.items()}
    lengths |= {name: len(list(captions[name])) for name in ("written", "references")}
    count = max(lengths.values())
    if wrong_lengths := {name: length for name, length in lengths.items() if length not in (0, count)}:
        raise ValueError(f"the arrays {wrong_lengths} do not have {count} images")
    texts = [about["task"], *about["class_names"], *captions["written"]]
    for references in captions["references"]:
        texts += references
    if not isinstance(about["images"], int) or not all(isinstance(text, str) for text in texts):
        raise ValueError("a name or a caption is not a string, or the number of images is not an integer")


def _archive(answers: Answers, count: int, total: int) -> bytes:
    first_answers = _first(answers, count)
    labels = first_answers.labels
    about = {
        "format": FORMAT,
        "task": answers.task,
        "class_names": list(answers.class_names),
        "images": total,
    }
    if labels.dtype.kind == "f":
        label_type = np.dtype(np.float32)
    else:
        # The smallest integer type that holds all labels and UNKNOWN, which is -1.
        label_type = np.min_scalar_type(-1 - int(labels.max(initial=0)))
    captions = {
        "written": list(first_answers.written),
        "references": [list(references) for references in first_answers.references],
    }
    arrays: dict[str, Any] = {
        "about": _bytes(about),
        "answers": _halved(first_answers),
        "labels": labels.astype(label_type),
        "captions": _bytes(captions),
    }
    for name, kind in INTEGERS.items():
        value = getattr(first_answers, name)
        if value is not None:
            arrays[name] = value.astype(kind)
    if first_answers.task == "grid":
        arrays["cells"] = first_answers.cells.astype(np.uint8, copy=False)
    arrays |= {KEPT_PREFIX + name: array for name, array in first_answers.task_arrays.items()}
    return archived(arrays)


def archived(arrays: Mapping[str, Any]) -> bytes:
    """Return the content of a compressed .npz file with these arrays."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _first(answers: Answers, count: int) -> Answers:
    """Return the answers for the first `count` images."""
    arrays = {}
    for field in fields(answers):
        value = getattr(answers, field.name)
        if value is not None and field.name not in ("task", "class_names", "task_arrays"):
            arrays[field.name] = value[:count]
    return replace(
        answers, **arrays, task_arrays={name: array[:count] for name, array in answers.task_arrays.items()}
    )


def _halved(answers: Answers) -> "npt.NDArray[np.float16]":
    """Return the outputs of the network in half precision, with the same most likely classes."""
    is_multiclass = answers.task == "multiclass"
    # Half precision keeps four digits of a log probability of any size. Of probabilities it would lose the
    # small ones, which determine likelihoods, and those near 1.
    values = answers.log_probabilities if is_multiclass else answers.logits
    largest = float(np.finfo(np.float16).max)
    half = values.clip(-largest, largest).astype(np.float16)
    if is_multiclass and len(answers):
        # If rounding makes the most likely class tie with another one, it gets the next larger number.
        is_tied = half.argmax(1) != answers.predicted
        tied = is_tied.nonzero()[0], answers.predicted[is_tied]
        half[tied] = np.nextafter(half[tied], np.float16(np.inf))
    return half


def rounding_errors(answers: Answers, values: Mapping[str, float]) -> Scores:
    """Return the largest errors of metrics that come from half precision.

    Shares depend only on the most likely class, which half precision keeps, and captions and cells are not
    rounded. So only the other metrics have an error.

    Args:
        answers: Answers from `unpack_answers`.
        values: Metric -> its value on these answers.

    Returns:
        Metric -> the largest difference to its value before half precision.
    """
    names = [name for name in values if name in METRICS and not METRICS[name].share]
    if not answers.logits.size or not names:
        return {}
    # Each logit is rounded by at most half a unit in the last place.
    rounding = np.abs(np.spacing(answers.logits.astype(np.float16))).astype(np.float64) / 2
    right = answers.labels == 1
    if answers.task == "multiclass":
        classes = np.arange(answers.logits.shape[1])
        right, top = answers.labels[:, None] == classes, answers.predicted[:, None] == classes
        # `_halved` may have raised the most likely class above a second one that tied with it.
        second = np.sort(answers.logits, 1)[:, -2:][:, 0]
        rounding[top & (answers.logits - second[:, None] <= 2 * rounding)] *= 3
    # Logits that are equal in half precision may have differed, with a lower average precision.
    uneven_rounding = rounding * np.linspace(1, 1.001, len(answers))[:, None]
    # NLL, AUROC and average precision are extreme if the correct classes are rounded in one direction and all
    # other classes in the other direction.
    extreme_values = []
    for step in (rounding, -uneven_rounding):
        extreme_answers = replace(answers, logits=answers.logits + np.where(right, step, -step))
        extreme_values.append(measured(extreme_answers, names).values)
    errors = {
        name: max(abs(extreme[name] - value) for extreme in extreme_values)
        for name, value in values.items()
        if name in extreme_values[0]
    }
    if "ece" in errors:
        # These extremes do not bound the calibration error, because gaps within a bin cancel out. A rounded
        # confidence moves the gap of its bin by its own rounding error. Near the border of two bins it may
        # also change its bin and take its complete gap along.
        confidence = answers.probabilities[top]
        lower_answers = replace(answers, logits=answers.logits + np.where(top, -rounding, rounding))
        upper_answers = replace(answers, logits=answers.logits + np.where(top, rounding, -rounding))
        low, high = lower_answers.probabilities[top], upper_answers.probabilities[top]
        changes_bin = (low * BINS).astype(int) != (high * BINS).astype(int)
        gaps = changes_bin * np.abs((answers.predicted == answers.labels) - confidence)
        errors["ece"] = 100 * float((high - low + 2 * gaps).mean())
    # A metric such as the AUROC reaches its extreme exactly, and its sums have rounding errors, too.
    return {name: 1.001 * error + 1e-9 for name, error in errors.items()}


def _bytes(value: Mapping[str, Any]) -> "npt.NDArray[np.uint8]":
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _text(array: "npt.NDArray[np.uint8]") -> dict[str, Any]:
    return dict(json.loads(array.tobytes()))
