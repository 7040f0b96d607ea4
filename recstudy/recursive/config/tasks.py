"""What configs, metrics and data know of a task, and the registry of tasks.

The tasks themselves are subclasses in `recstudy.recursive.tasks`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from recstudy.plugins import Registry
from recstudy.recursive.config.parts import DataConfig

if TYPE_CHECKING:
    from torch import Tensor

    from recstudy.recursive.config.answers import Answers


@dataclass(frozen=True)
class Labels:
    """The labels of a split: an array of N rows.

    A word as a side or a bound is a property of the data set: `classes`, `tokens` (of a caption) or `cells`
    (rows x columns of an image).

    Attributes:
        dtype: type of the array.
        shape: shape of one label, without the first dimension of the array.
        least: the lowest allowed label.
        below: every label is less than this.
    """

    dtype: str
    shape: tuple[int | str, ...] = ()
    least: float | None = None
    below: float | str | None = None

    def sides(self, data: DataConfig) -> tuple[int, ...]:
        """Return the shape of one label of this data set."""
        return tuple(getattr(data, side) if isinstance(side, str) else side for side in self.shape)

    def bound(self, data: DataConfig) -> float | None:
        """Return the upper bound of the labels of this data set, which is not a label itself."""
        return getattr(data, self.below) if isinstance(self.below, str) else self.below


class TaskKind(ABC):
    """The labels, outputs and scores of a task.

    Attributes:
        labels: the labels; data with other labels are refused before training.
        output: the kind of output that a network must have (`ModelConfig.outputs`): `image` has logits
            (B, K), `cells` (B, S, V), `caption` (B, T, V). A task and a model family of your own may define
            another.
        score: the metric that selects epochs, unless `train.score` names another. It must be computed from
            answers.
        metrics: further metrics of the answers, which do not name the task themselves.
        takes: parts of the data in addition to images, labels and groups: `captions` (required), `puzzles`,
            `ids`.
        mixes: whether Mixup and CutMix can mix its labels.
        augments: why its images cannot be augmented; empty if they can.
        registered_loss: whether its loss is the registered one that `train.loss` names.
        evaluation: the module of recstudy whose `selection_scores`, `answered` and `findings` evaluate a
            network.
        example: the parts of a small run with which `recstudy check` checks the task.
    """

    name: ClassVar[str] = ""
    labels: ClassVar[Labels]
    output: ClassVar[str] = "image"
    score: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]] = ()
    takes: ClassVar[tuple[str, ...]] = ()
    mixes: ClassVar[bool] = False
    augments: ClassVar[str] = ""
    registered_loss: ClassVar[bool] = False
    evaluation: ClassVar[str] = "recstudy.recursive.train.evaluate"
    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @staticmethod
    def context(labels: "Tensor", groups: "Tensor | None", ids: "Tensor | None") -> "Tensor | None":
        """Return what a network reads in addition to the image: by default its group (patient), if any."""
        return groups

    @staticmethod
    def cut_by(name: str, answers: "Answers") -> str:
        """Return the name of the tokenizer of a metric that compares texts; empty for other metrics."""
        return ""

    @classmethod
    @abstractmethod
    def check(cls, config: Any) -> None:
        """Check that the settings of a `RunConfig` fit the task (ValueError if one does not)."""

    @classmethod
    @abstractmethod
    def check_score(cls, config: Any) -> None:
        """Check that `train.score` can select epochs of this task (ValueError if it cannot)."""


TASKS: Registry[type[TaskKind]] = Registry("task")  # name -> task
