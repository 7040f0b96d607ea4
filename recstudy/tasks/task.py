"""A task: what a label is, how an answer is scored against it, which answers are kept, what selects epochs,
what a reader sees.

The loop, the evaluation, the records and the pages ask the run's task, and know none by its name. One of your
own is a class with a `loss` and a `right`, registered as recstudy's are, in the study's file or in a module
beside it; docs/how-to/task.md has three.

Shapes: B items of a batch, N items of a split.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from recstudy.config import Augment, DataConfig, RunConfig
from recstudy.metrics import Answers
from recstudy.metrics.registry import is_for
from recstudy.plugins import named
from recstudy.programs.metric import METRICS

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch
    from torch import Tensor

    from recstudy.data.batches import Batch, Batches
    from recstudy.data.cache import DataSet, Split
    from recstudy.data.reader import Labels as Rows
    from recstudy.models.networks.contract import Network, Output

    Read = Callable[[Split], Split]
    Files = dict[str, Any]  # what a run's folder keeps, by name: JSON values, arrays by name, or bytes
    Judged = tuple[dict[str, Any], Files]  # what a result states, and what is kept to look at


@dataclass(frozen=True)
class Labels:
    """What the labels of a split are: an array of N rows, of this type, of this shape behind the first
    dimension.

    A word stands for what the data set states: `classes`, `tokens` (of a caption), `cells` (rows x columns of
    an image).
    """

    dtype: str
    shape: tuple[int | str, ...] = ()
    least: float | None = None
    below: float | str | None = None  # every label is less than this

    def sides(self, data: DataConfig) -> tuple[int, ...]:
        """Return the shape of one label of this data set."""
        return tuple(getattr(data, side) if isinstance(side, str) else side for side in self.shape)

    def bound(self, data: DataConfig) -> float | None:
        """Return what every label of this data set is below."""
        return getattr(data, self.below) if isinstance(self.below, str) else self.below


class Task(ABC):
    """What is asked of the items of a data set. One is made for a run, whose `config` it has.

    Attributes:
        labels: what the labels are; data of another kind are refused before anything is trained.
        output: what kind of answer a network must give (`ModelConfig.outputs`): `image` has logits (B, K),
            `cells` (B, S, V), `caption` (B, T, V); a task and a family of your own may name another.
        score: the metric that selects epochs, unless `train.score` names another; it follows from answers.
        metrics: further metrics that its answers are judged by, which do not name it themselves.
        takes: parts of the data beside images, labels and groups: `captions` (which must be there),
            `puzzles`, `ids`.
        mixes: whether Mixup and CutMix can mix its labels.
        augments: why its images cannot be augmented; empty where they can.
        registered_loss: whether its loss is the registered one that `train.loss` names.
        evaluation: the module of recstudy whose `selection_scores`, `answered` and `findings` judge a
            network.
        example: a small run, part by part, on which `recstudy check` checks it.
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
    evaluation: ClassVar[str] = "recstudy.train.evaluate"
    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def __init__(self, config: RunConfig) -> None:
        self.config = config

    # ------------------------------------------------------------------------------------------ a step on a
    # batch

    @abstractmethod
    def loss(self, output: "Output", batch: "Batch") -> "Tensor":
        """Return the loss of each item, (B,)."""

    @abstractmethod
    def right(self, output: "Output", batch: "Batch") -> "Tensor":
        """Return which items are answered exactly, (B,), or how far each is from 0 to 1: what a halting head
        learns.
        """

    def kept(self, output: "Output", batch: "Batch") -> dict[str, "Tensor"]:
        """Return what is kept of the answers, B rows each, by name, in the precision in which it is to be
        kept.

        `logits` and `cells` are fields of `Answers`; any other name is found under `Answers.kept`.
        """
        return {"logits": output.logits.float()}

    @staticmethod
    def context(labels: "Tensor", groups: "Tensor | None", ids: "Tensor | None") -> "Tensor | None":
        """Return what a network is told beside the image: by default its group (patient), where the data have
        such.
        """
        return groups

    @staticmethod
    def cut_by(name: str, answers: Answers) -> str:
        """Return what cut the texts that a metric compares into words; empty where nothing did."""
        return ""

    # ------------------------------------------------------------------------------------------ what goes
    # with it

    @classmethod
    def check(cls, config: RunConfig) -> None:
        """Refuse (ValueError) settings that do not go with the task."""
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
        """Refuse (ValueError) a `train.score` that cannot select this task's epochs."""
        name = config.train.score
        if name is None or name == cls.score:
            return
        known = METRICS[name]
        if not is_for(name, cls.name):
            tasks = " and ".join(known.tasks) or "no"
            raise ValueError(
                f"train.score {name!r} is for {tasks} data, but those of {config.data.title} are {cls.name}"
            )
        if known.of is None:
            raise ValueError(f"train.score {name!r} must follow from answers, which {known.title} does not")

    # ------------------------------------------------------------------------------------------ evaluation

    @property
    def shares_selection(self) -> bool:
        """Whether a group's workers share the selection split; else each is given the whole of it."""
        return True

    def reader(self, data: "DataSet", device: "torch.device") -> "tuple[Read, dict[str, Any]]":
        """Return how a split is read, and what the result must state of that (`tokenizer`): by default as it
        is.
        """
        return lambda split: split, {}

    def equip(  # noqa: B027  most tasks need nothing
        self,
        network: "Network",
        data: "DataSet",
        facts: dict[str, Any],
        trained: "Callable[[RunConfig], dict[str, Tensor]]",
    ) -> None:
        """Give a new network what it needs before it is trained.

        Args:
            network: with freshly drawn weights.
            data: of the run.
            facts: what `reader` states.
            trained: gives the weights of another run, which it trains on the same data.
        """

    def answers(self, kept: "Mapping[str, npt.NDArray[Any]]", rows: "Rows", split: "Split") -> Answers:
        """Return what metrics look at: what was `kept` of the items in these rows of a split, N of them."""
        data, known = self.config.data, {field.name for field in fields(Answers)}
        own: dict[str, Any] = {name: array for name, array in kept.items() if name in known}
        return Answers(
            self.name,
            labels=split.labels[rows],
            class_names=data.class_names,
            groups=None if split.groups is None else split.groups[rows],
            rows=rows,
            levels=data.levels(rows),
            kept={name: array for name, array in kept.items() if name not in known},
            **own,
        )

    def select(self, network: "Network", batches: "Batches", data: "DataSet") -> tuple[float, float]:
        """Return the loss and the score that selects epochs on the selection split, over all workers."""
        return named(f"{self.evaluation}:selection_scores")(self, network, batches, data)

    def answered(self, network: "Network", test: "Batches", data: "DataSet") -> Answers:
        """Return what metrics of the test set are computed from.

        Raises:
            DivergenceError: an answer is not finite.
        """
        return named(f"{self.evaluation}:answered")(self, network, test, data)

    def findings(self, network: "Network", test: "Batches", train: "Batches", data: "DataSet") -> "Judged":
        """Return what a result states of the answers, and what is kept to look at, by file.

        Raises:
            DivergenceError: an answer is not finite.
        """
        return named(f"{self.evaluation}:findings")(self, network, test, train, data)

    def assist(self, network: "Network", test: "Batches", data: "DataSet") -> None:  # noqa: B027
        """Do what the other workers of a group do while the first one calls `findings`: by default
        nothing.
        """

    def shown(self, answers: Answers, split: "Split") -> "Files":
        """Return what a reader is shown of the answers beside the metrics, by file."""
        return {}
