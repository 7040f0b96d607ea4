"""The answers of a run on a split with the correct answers, from which metrics are computed.

`recstudy.recursive.tasks` makes `Answers`, and the functions in `METRICS` read them.

Shapes: N images, K classes, S cells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from recstudy.base.lazy import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

Scores = dict[str, float]  # metric, class or depth -> value
UNKNOWN = -1  # missing label, in data with several labels per image


def _empty_array() -> Any:
    return np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of a run on a split. The fields that a task does not use are empty.

    Args:
        task: The task.
        logits: Array (N, K) of logits. Answers that were saved in half precision have log probabilities,
            which differ only by a constant per image.
        labels: Array (N,) of classes; (N, K) of 1, 0 and `UNKNOWN` if an image has several labels; (N, S) of
            tokens with 0 in cells that are not scored; or an array of the task's own.
        class_names: The names of the K classes.
        groups: Array (N,) with the patient of each image. None for data sets without patients.
        rows: Array (N,) with the index of each image in the test split.
        written: The N captions that the model wrote.
        references: The captions of the data, one or more per image.
        levels: Array (N,) with the difficulty of each image. None for data sets without levels.
        cells: Array (N, S) of uint8 with the model's token in each cell of a grid.
        lawful: Array (N,), 1 if an answer breaks no rule of its puzzle. None for puzzles without rules.
        task_arrays: Other arrays with N rows each, by the names of the task.
    """

    task: str
    logits: "Floats" = field(default_factory=_empty_array)
    labels: "npt.NDArray[Any]" = field(default_factory=_empty_array)
    class_names: Sequence[str] = ()
    groups: "Integers | None" = None
    rows: "Integers" = field(default_factory=_empty_array)
    written: Sequence[str] = ()
    references: Sequence[Sequence[str]] = ()
    levels: "Integers | None" = None
    cells: "npt.NDArray[Any]" = field(default_factory=_empty_array)
    lawful: "Integers | None" = None
    task_arrays: "Mapping[str, npt.NDArray[Any]]" = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.written) or len(self.labels)

    @cached_property
    def log_probabilities(self) -> "Floats":
        """Array (N, K) of log probabilities in nats, for one label per image."""
        shifted = self.logits - self.logits.max(1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))

    @cached_property
    def probabilities(self) -> "Floats":
        """Array (N, K) of class probabilities; independent ones if an image has several labels."""
        if self.task == "multilabel":
            return np.exp(-np.logaddexp(0, -self.logits))
        return np.exp(self.log_probabilities)

    @cached_property
    def predicted(self) -> "Integers":
        """Array (N,) with the most likely class."""
        return self.logits.argmax(1)
