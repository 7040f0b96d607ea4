"""What a model family and a data set can be asked; each of them is a class of its own, known by its name."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field

from recstudy.config.base import Config, digest
from recstudy.errors import ConfigError
from recstudy.metrics import Task
from recstudy.plugins import Registry, named

if TYPE_CHECKING:
    from torch import nn

    from recstudy.data.images import Labels
    from recstudy.data.reader import Reader

Shape = tuple[int, int, int]  # channels, height, width of an image
Moments = tuple[tuple[float, ...], tuple[float, ...]]  # mean and deviation a channel, on a scale of 0 to 1
PAD = 0  # the token behind a caption's last, of every tokenizer


class ModelConfig(Config):
    """One model family: what can be set. What is computed stands in `recstudy.models.networks`."""

    network: ClassVar[str] = ""  # what computes it, as `module:Class`, called with this config, an image's shape and the classes
    recursive: ClassVar[bool] = False  # can take several supervision steps: its carry is not empty
    halts: ClassVar[bool] = False  # has a halting head: says of each answer whether it is right
    reads_captions: ClassVar[bool] = False  # is for images with captions, and for no others
    reads_puzzles: ClassVar[bool] = False  # can fill in the cells of a grid
    score: ClassVar[str] = ""  # what selects its epochs, where that is not its task's
    # A small run of it, part by part as in a run config, on which `recstudy contract` checks it: {"model": {"width": 16}}.
    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    family: str

    @property
    def title(self) -> str:
        """The name a paper's table gives this model, such as `ViT-Small`."""
        return type(self).__name__

    @property
    def bootstraps(self) -> bool:
        """Whether its halting head also values going on, which is learned from the next step (HRM)."""
        return False

    @property
    def leaks(self) -> bool:
        """Whether it is told what it is to say: shown for what it is, and never compared."""
        return False

    @property
    def batch_norm(self) -> bool:
        """Whether it is trained with batch norm: on several workers each normalises by its own share of a batch."""
        return False

    @property
    def reads_pixels(self) -> bool:
        """Whether the network wants the pixels' 256 grey levels as they are, and not standardised values."""
        return False

    @property
    def frozen_params(self) -> int:
        """Parameters that take part and are not trained, beside those of the network."""
        return 0

    @property
    def exact_halt(self) -> bool:
        """Whether halting is learned from answers that are right as a whole, or from the share of their tokens that are."""
        return True

    def input_shape(self, shape: Shape) -> tuple[int, ...]:
        """Of one image as the network reads it."""
        return shape

    @property
    def unseen_steps(self) -> int:
        """First supervision steps on an image that have not seen all of it."""
        return 0

    @property
    def silent_steps(self) -> int:
        """Those of them that give no loss."""
        return 0

    def check(self, data: "DataConfig") -> None:
        """Refuse (ValueError) a data set that this model cannot read."""

    def check_groups(self, count: int, data: str) -> None:
        """Refuse (ConfigError) more patients than this model knows, which only the files of the data set tell."""

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        """The network, with freshly drawn weights, for images of `shape` in `classes` classes."""
        if not self.network:
            raise ConfigError(f"the family {self.family!r} has no network. Name it: network = 'module:Class', or define build")
        return named(self.network)(self, shape, classes)


class DataConfig(Config):
    """One data set: which images, how many of them, and which are held out."""

    synthetic: ClassVar[bool] = False  # drawn by a program: said wherever a number from it appears

    name: str
    limit: int | None = Field(None, ge=16, description="at most this many images of each split, classes in proportion")
    validation: float = Field(0.1, gt=0, lt=1, description="share of the training images held out for selection")
    split_seed: int = Field(0, ge=0, description="draws the validation split and the subset of a limit")
    drawing: Literal["fixed", "per seed"] = Field(
        "fixed",
        description="what is generated, the subset of a limit and the validation split: the same for every seed of a study, or "
        "drawn anew by each",
    )

    @property
    def redrawn(self) -> bool:
        """Whether each seed of a study has images of its own, and not only a subset or a split of its own."""
        return self.drawing == "per seed" and "drawing_seed" in type(self).model_fields

    def drawn_by(self, seed: int) -> Self:
        """Return the data set as the run of this seed draws it: with its own `split_seed`, and `drawing_seed` where it has one.

        They follow from the run's seed and from what is stated for all of them.
        """
        if self.drawing == "fixed":
            return self
        drawn: dict[str, Any] = {"drawing": "fixed"}
        for name in ("split_seed", "drawing_seed") if self.redrawn else ("split_seed",):
            drawn[name] = int(digest([name, getattr(self, name), seed], 8), 16)
        return self.model_copy(update=drawn)

    @property
    def title(self) -> str:
        """The data set's name as a paper prints it."""
        return type(self).__name__

    @property
    def shape(self) -> Shape:
        """Channels, height and width of one image."""
        raise ConfigError(f"the data set {self.name!r} states no shape")

    @property
    def classes(self) -> int:
        """How many classes there are."""
        raise ConfigError(f"the data set {self.name!r} states no classes")

    @property
    def task(self) -> Task:
        """One label an image; one yes, no or unknown a class; the tokens of a caption; or a token a cell of a puzzle."""
        return "multiclass"

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called; numbers where nobody named them."""
        return tuple(map(str, range(self.classes)))

    @property
    def tokens(self) -> int:
        """Tokens of a caption, with BOS and EOS; 0 where images have none."""
        return 0

    @property
    def special_tokens(self) -> tuple[int, int, int]:
        """The ids of PAD, BOS and EOS, where images have captions."""
        raise ConfigError(f"the data set {self.name!r} states no tokens")

    @property
    def train_size(self) -> int | None:
        """Official training images; None where only the files tell."""
        return None

    @property
    def showings(self) -> int:
        """How often an epoch shows each training image."""
        return 1

    @property
    def moments(self) -> Moments | None:
        """What standardises the images; None: mean and deviation of the training images."""
        return None

    def levels(self, rows: "Labels") -> "Labels | None":
        """How hard the images in these rows of a split are, by a number each; None where nobody knows."""
        return None

    def reader(self) -> "Reader":
        """What reads it from its files, or draws it."""
        raise ConfigError(f"the data set {self.name!r} has no reader. Define `reader`, which gives a recstudy.data.Reader")


KINDS = ("family", "name")  # the fields that tell model families and data sets apart
FAMILIES: Registry[type[ModelConfig]] = Registry("model family")
DATASETS: Registry[type[DataConfig]] = Registry("data set")
