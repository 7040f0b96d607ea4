"""What a run answered on a split, and what would have been right: all that a metric may look at. And the
tasks by name.

Shapes: N images, K classes, S cells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from recstudy.plugins import Registry

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from recstudy.tasks import Task

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

# Every task (`recstudy.tasks.Task`) by name. The registry stands here because configs, metrics and data ask
# it what a task is.
TASKS: "Registry[type[Task]]" = Registry("task")
UNKNOWN = -1  # a label that nobody gave, in data of several labels an image


def _none() -> Any:
    import numpy as np  # 0.1 s, which no command needs to start

    return np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Answers:
    """One label an image, several of them, captions, the cells of a grid, or what another task keeps
    (`kept`); what a task does not have is empty.

    `logits` are those of the network, or, where they were kept in half precision, logarithms of its
    probabilities: the same up to a constant an image.
    """

    task: str
    logits: "Floats" = field(default_factory=_none)  # (N, K)
    # (N,); (N, K) of 1, 0 and `UNKNOWN` where there are several an image; (N, S) tokens, 0 where not asked;
    # or the task's own.
    labels: "npt.NDArray[Any]" = field(default_factory=_none)
    class_names: Sequence[str] = ()
    groups: "Integers | None" = None  # (N,) the patient of each image; None for sets without patients
    rows: "Integers" = field(default_factory=_none)  # (N,) which of the data set's test images these are
    written: Sequence[str] = ()  # N captions of the model's own
    references: Sequence[Sequence[str]] = ()  # those of the data, one or more an image
    levels: "Integers | None" = None  # (N,) how hard each image is; None for sets without levels
    # (N, S) uint8, the token that the model puts in each cell of a grid
    cells: "npt.NDArray[Any]" = field(default_factory=_none)
    # (N,) 1 where an answer breaks no rule of its puzzle; None for puzzles without rules
    lawful: "Integers | None" = None
    kept: "Mapping[str, npt.NDArray[Any]]" = field(default_factory=dict)  # N rows each, by the task's names

    def __len__(self) -> int:
        return len(self.written) or len(self.labels)

    @cached_property
    def log_probabilities(self) -> "Floats":
        """(N, K) of one label an image, in nats."""
        import numpy as np

        shifted = self.logits - self.logits.max(1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))

    @cached_property
    def probabilities(self) -> "Floats":
        """(N, K): of each class; of each by itself where there are several labels an image."""
        import numpy as np

        if self.task == "multilabel":
            return np.exp(-np.logaddexp(0, -self.logits))
        return np.exp(self.log_probabilities)

    @cached_property
    def predicted(self) -> "Integers":
        """(N,) the most likely class."""
        return self.logits.argmax(1)
