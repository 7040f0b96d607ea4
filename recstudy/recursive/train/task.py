"""The base class of tasks: labels, loss, scores, the saved answers, and the examples that pages show.

The training loop, the evaluation, the records and the pages call the methods of a run's task and know no task
by name. A task of your own is a class with `loss` and `right` that is registered in the study's file or in a
module next to it. docs/how-to/task.md has three examples.

Shapes: B items of a batch, N items of a split.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from recstudy.plugins import import_object
from recstudy.programs.metric import METRICS
from recstudy.records.files import Json
from recstudy.recursive.config.answers import Answers
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.tasks import TASKS, TaskKind
from recstudy.recursive.config.train import Augment
from recstudy.recursive.metrics.registry import is_for

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch
    from torch import Tensor

    from recstudy.recursive.config.reader import Labels as Rows
    from recstudy.recursive.data.batches import Batch, Batches
    from recstudy.recursive.data.cache import DataSet, Split
    from recstudy.recursive.models.networks.contract import Network, Output

    Read = Callable[[Split], Split]

Files = dict[str, Any]  # files of a run's folder by name: JSON values, arrays by name, or bytes
Judged = tuple[Json, Files]  # the fields of the result, and the files


class Task(TaskKind):
    """What a network predicts for the items of a data set, and how predictions are scored.

    Each run has its own instance with the run's `config`.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config

    # ------------------------------------------------------------------------------------------ training step

    @abstractmethod
    def loss(self, output: "Output", batch: "Batch") -> "Tensor":
        """Return the loss of each item, (B,)."""

    @abstractmethod
    def right(self, output: "Output", batch: "Batch") -> "Tensor":
        """Return whether each item is answered exactly, or its share of right parts from 0 to 1, (B,).

        A halting head learns to predict this value.
        """

    def kept(self, output: "Output", batch: "Batch") -> dict[str, "Tensor"]:
        """Return the arrays of the answers that are saved, by name, with B rows each.

        `logits` and `cells` are fields of `Answers`. Arrays with other names are in `Answers.task_arrays`.
        """
        return {"logits": output.logits.float()}

    # ------------------------------------------------------------------------------------------ checks

    @classmethod
    def check(cls, config: RunConfig) -> None:
        """Check that the settings fit the task.

        Raises:
            ValueError: A setting is not possible for the task.
        """
        train, title = config.train, config.data.title
        if cls.augments and train.augment != Augment():
            raise ValueError(f"train.augment must be off for {cls.augments}")
        if not cls.mixes and (train.augment.mixup or train.augment.cutmix):
            raise ValueError(
                f"train.augment.mixup and cutmix must be 0 for {title}, whose labels cannot be mixed"
            )
        if not cls.registered_loss and train.loss != type(train).model_fields["loss"].default:
            raise ValueError(
                f"train.loss {train.loss!r} is for one label an image or token, but {title} has a loss of"
                " its own"
            )
        if train.at_test.on:
            raise ValueError(f"train.at_test must be off for {title}: it is for puzzles")

    @classmethod
    def check_score(cls, config: RunConfig) -> None:
        """Check that `train.score` can select epochs of this task.

        Raises:
            ValueError: The metric is for other tasks, or is not computed from answers.
        """
        name = config.train.score
        if name is None or name == cls.score:
            return
        metric = METRICS[name]
        if not is_for(name, cls.name):
            tasks = " and ".join(metric.tasks) or "no"
            raise ValueError(
                f"train.score {name!r} is for {tasks} data, but those of {config.data.title} are {cls.name}"
            )
        if metric.of is None:
            raise ValueError(f"train.score {name!r} must follow from answers, which {metric.title} does not")

    # ------------------------------------------------------------------------------------------ evaluation

    @property
    def shares_selection(self) -> bool:
        """Whether the workers of a group share the selection split instead of each evaluating all of it."""
        return True

    def reader(self, data: "DataSet", device: "torch.device") -> "tuple[Read, Json]":
        """Return a function that reads a split, and the facts about it for the result (`tokenizer`).

        By default a split is read unchanged.
        """
        return lambda split: split, {}

    def equip(
        self,
        network: "Network",
        data: "DataSet",
        facts: Json,
        trained: "Callable[[RunConfig], dict[str, Tensor]]",
    ) -> None:
        """Prepare a new network for training, for example with weights of another network.

        Args:
            network: a network with random initialization.
            data: the data of the run.
            facts: the facts that `reader` returned.
            trained: trains another run on the same data and returns its weights.
        """

    def answers(self, arrays: "Mapping[str, npt.NDArray[Any]]", rows: "Rows", split: "Split") -> Answers:
        """Return the answers that metrics are computed from.

        Args:
            arrays: the arrays that `kept` returned, with N rows each.
            rows: the N rows of the split.
            split: the split.
        """
        data = self.config.data
        field_names = {field.name for field in fields(Answers)}
        known_arrays: dict[str, Any] = {name: array for name, array in arrays.items() if name in field_names}
        return Answers(
            self.name,
            labels=split.labels[rows],
            class_names=data.class_names,
            groups=None if split.groups is None else split.groups[rows],
            rows=rows,
            levels=data.levels(rows),
            task_arrays={name: array for name, array in arrays.items() if name not in field_names},
            **known_arrays,
        )

    def select(self, network: "Network", batches: "Batches", data: "DataSet") -> tuple[float, float]:
        """Return the loss and the score that selects epochs on the selection split, over all workers."""
        return import_object(f"{self.evaluation}:selection_scores")(self, network, batches, data)

    def answered(self, network: "Network", test: "Batches", data: "DataSet") -> Answers:
        """Return the answers that the metrics of the test set are computed from.

        Raises:
            DivergenceError: an answer is not finite.
        """
        # By name, because an evaluation imports torch and this module must not.
        return import_object(f"{self.evaluation}:answered")(self, network, test, data)

    def findings(self, network: "Network", test: "Batches", train: "Batches", data: "DataSet") -> "Judged":
        """Evaluate the test set at the end of a run.

        Returns:
            The fields of the result, and the files of the run's folder by name.

        Raises:
            DivergenceError: an answer is not finite.
        """
        return import_object(f"{self.evaluation}:findings")(self, network, test, train, data)

    def assist(self, network: "Network", test: "Batches", data: "DataSet") -> None:
        """Help the first worker, which calls `findings`: by default the other workers do nothing."""

    def shown(self, answers: Answers, split: "Split") -> "Files":
        """Return the files with examples of the answers that pages show in addition to the metrics."""
        return {}


def task_of(config: RunConfig) -> Task:
    """Return the task of a run."""
    kind = TASKS[config.task]
    assert issubclass(kind, Task)
    return kind(config)
