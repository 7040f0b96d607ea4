"""Base classes of model families and data sets, and the registries that map a name to its class.

A family or a data set is a config class. It states its fields, and what a run asks of it as properties and
methods: shapes, sizes, the task, and how to build the network or read the files.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt

from recstudy.base.errors import ConfigError
from recstudy.base.values import digest
from recstudy.plugins import Registry, check_call, import_object
from recstudy.programs.settings import Config, Range

if TYPE_CHECKING:
    from torch import Tensor, nn

    from recstudy.recursive.config.reader import Labels, Reader

# Field types that several families share: their bounds, and the ranges that a search tries.
Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(ge=0, lt=1)]
Weight = Annotated[float, Field(ge=0)]  # of a loss
Depth = Annotated[int, Field(ge=1, le=48)]  # layers
Repeats = Annotated[int, Field(ge=1, le=64)]  # updates by the same weights
LevelLayers = Annotated[Depth, Range(1, 6)]  # of one level of a hierarchy
Layers = Annotated[Depth, Range(1, 4)]  # of one network for all updates
Cycles = Annotated[Repeats, Range(1, 4)]
Steps = Annotated[Repeats, Range(1, 8)]
# The updates of a recursion that have a gradient (`models/networks/recursion.py`).
GradientMode = Literal["full_bptt", "last_cycle", "one_step"]
Shape = tuple[int, int, int]  # channels, height, width of an image
# Mean and deviation of each channel: on a scale of 0 to 1 for integer images, in the unit of the values for
# float32 images.
Moments = tuple[tuple[float, ...], tuple[float, ...]]
PAD = 0  # the padding token of every tokenizer


def check_heads(width: int, heads: int, part: str = "model.") -> None:
    """Raise a ValueError if the heads do not divide the width."""
    if width % heads:
        raise ValueError(f"{part}width must be a multiple of {part}heads, but got {width} and {heads}")


def patches_and_heads(shape: Shape, patch: int, width: int, heads: int) -> None:
    """Raise a ValueError if the patches do not tile the image or the heads do not divide the width."""
    check_heads(width, heads)
    if shape[1] % patch or shape[2] % patch:
        raise ValueError(f"model.patch must divide the image's {shape[1]}x{shape[2]} pixels, but got {patch}")


class ModelConfig(Config):
    """Settings of one model family. Its network is in `recstudy.recursive.models.networks`."""

    # The network's location as `module:Class`. It is called with this config, the image shape and the number
    # of classes.
    network: ClassVar[str] = ""
    recursive: ClassVar[bool] = False  # can take several supervision steps: its carry is not empty
    halts: ClassVar[bool] = False  # has a halting head, which predicts whether an answer is correct
    casts_states: ClassVar[bool] = False  # its sums between layers have the precision of its states
    outputs: ClassVar[tuple[str, ...]] = ("image",)  # kinds of answers that it can give: `Task.output`
    task: ClassVar[str] = ""  # the task that it learns, if that is not the task of its data
    # Fields of a small run for `recstudy check`, by part of the run config: {"model": {"width": 16}}.
    example: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    family: str

    @property
    def title(self) -> str:
        """The name a paper's table gives this model, such as `ViT-Small`."""
        return type(self).__name__

    @property
    def bootstraps(self) -> bool:
        """Whether its halting head also learns the value of continuing from the next step (HRM)."""
        return False

    @property
    def rotates(self) -> bool:
        """Whether its tokens have rotary positions."""
        return False

    @property
    def leaks(self) -> bool:
        """Whether its input contains the answer: pages mark such a model and never compare it."""
        return False

    @property
    def batch_norm(self) -> bool:
        """Whether it has batch norm. Each of several workers normalises by its own share of a batch."""
        return False

    @property
    def reads_pixels(self) -> bool:
        """Whether the network reads the pixels' 256 grey levels instead of standardised values."""
        return False

    @property
    def frozen_params(self) -> int:
        """The number of frozen parameters that are used in addition to the network's."""
        return 0

    @property
    def exact_halt(self) -> bool:
        """Whether the halting target is an entirely correct answer, and not the share of correct tokens."""
        return True

    def input_shape(self, shape: Shape) -> tuple[int, ...]:
        """Return the shape of one image as the network reads it."""
        return shape

    @property
    def unseen_steps(self) -> int:
        """The number of first supervision steps in which the network has not seen the whole image."""
        return 0

    @property
    def silent_steps(self) -> int:
        """The number of unseen steps that have no loss."""
        return 0

    @property
    def stages(self) -> tuple[tuple[float, Self], ...]:
        """The depth curriculum: shares of the training updates, each with the model at its depth then.

        The last model is the one that is evaluated.
        """

        return ((1.0, self),)

    def check(self, data: "DataConfig") -> None:
        """Check that this model can read a data set.

        Raises:
            ValueError: It cannot.
        """

    def check_groups(self, count: int, data: str) -> None:
        """Check that this model has an embedding for each group of a data set.

        Args:
            count: Number of groups, which is known only after the files are read.
            data: Title of the data set.

        Raises:
            ConfigError: There are more groups than embeddings.
        """

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        """Build the network with random initial weights.

        Args:
            shape: Channels, height and width of one image.
            classes: Number of classes.
        """
        if not self.network:
            raise ConfigError(
                f"the family {self.family!r} has no network. Name it: network = 'module:Class', or define"
                " build"
            )
        network = import_object(self.network)
        check_call(network, "config", "shape", "classes")
        return network(self, shape, classes)


class DataConfig(Config):
    """One data set: which images, how many of them, and which are held out."""

    synthetic: ClassVar[bool] = False  # generated data: pages say so at each number from it
    reader_type: ClassVar["type[Reader] | None"] = None  # reads its files; or define `reader`

    name: str
    limit: int | None = Field(None, ge=16)
    """maximum number of images of each split, stratified by class"""
    validation: float = Field(0.1, gt=0, lt=1)
    """share of the training images held out for selection"""
    split_seed: NonNegativeInt = 0
    """random seed of the validation split and of a limit's subset"""
    resample: Literal["fixed", "per seed"] = "fixed"
    """whether generated data, a limit's subset and the validation split are fixed across the seeds of a study
    or sampled per seed"""

    @property
    def is_regenerated(self) -> bool:
        """Whether each seed of a study generates its own images, and not only its own subset or split."""
        return self.resample == "per seed" and "drawing_seed" in type(self).model_fields

    def for_seed(self, seed: int) -> Self:
        """Return the data set for one run: with `resample` "per seed", it gets its own random seeds.

        `split_seed`, and `drawing_seed` if the data set has one, become a digest of the stated value and the
        run's seed.
        """
        if self.resample == "fixed":
            return self
        changes: dict[str, Any] = {"resample": "fixed"}
        # A digest of the name, the stated value and the run's seed: independent of other runs and fields.
        for name in ("split_seed", "drawing_seed") if self.is_regenerated else ("split_seed",):
            changes[name] = int(digest([name, getattr(self, name), seed], 8), 16)
        return self.model_copy(update=changes)

    @property
    def title(self) -> str:
        """The data set's name as papers print it."""
        return type(self).__name__

    @property
    def shape(self) -> Shape:
        """Channels, height and width of one image."""
        raise ConfigError(f"the data set {self.name!r} has no shape. Define the property `shape`")

    @property
    def classes(self) -> int:
        """The number of classes."""
        raise ConfigError(f"the data set {self.name!r} has no classes. Define the property `classes`")

    @property
    def task(self) -> str:
        """The name of its task, a registered `recstudy.recursive.Task`."""
        return "multiclass"

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes; their numbers by default."""
        return tuple(map(str, range(self.classes)))

    @property
    def tokens(self) -> int:
        """The number of tokens of a caption, with BOS and EOS; 0 if images have no captions."""
        return 0

    @property
    def special_tokens(self) -> tuple[int, int, int]:
        """The ids of PAD, BOS and EOS of a data set with captions."""
        raise ConfigError(
            f"the data set {self.name!r} has no special tokens. Define the property `special_tokens`"
        )

    @property
    def counts(self) -> tuple[int, int] | None:
        """The sizes of the official training and validation splits.

        None if there are no such splits, or if their sizes are known only after the files are read.
        """
        return None

    @property
    def train_size(self) -> int | None:
        """The number of official training images, with those of an official validation split.

        None if it is known only after the files are read.
        """
        return self.counts and sum(self.counts)

    @property
    def test_size(self) -> int | None:
        """The number of official test images; None if it is known only after the files are read."""
        return None

    @property
    def held_share(self) -> float:
        """The share of the training images that is held out if a validation split selects epochs."""
        return self.counts[1] / sum(self.counts) if self.counts else self.validation

    @property
    def showings(self) -> int:
        """The number of times that an epoch shows each training image."""
        return 1

    @property
    def cells(self) -> int:
        """The number of pixels or grid cells of an image: rows x columns."""
        return self.shape[1] * self.shape[2]

    def transform(
        self, seed: int, images: "Tensor", labels: "Tensor", rows: "Labels", turns: "Labels"
    ) -> "tuple[Tensor, Tensor]":
        """Transform a batch of training images and their labels by the data set's own symmetries.

        The default returns them unchanged.

        Args:
            seed: The run's random seed.
            images: Images (B, C, H, W), uint8.
            labels: Their labels.
            rows: Indices of the images in the training split (B,).
            turns: How often each image was shown before (B,).
        """
        return images, labels

    @property
    def moments(self) -> Moments | None:
        """The moments that standardise the images; None for those of the training images."""
        return None

    def levels(self, rows: "Labels") -> "Labels | None":
        """Return the difficulty level of the images in these rows of a split; None if it is unknown."""
        return None

    def reader(self) -> "Reader":
        """Return the reader that loads the data set from files or generates it."""
        if self.reader_type is None:
            raise ConfigError(
                f"the data set {self.name!r} has no reader. Define `reader`, which returns a"
                " recstudy.recursive.Reader"
            )
        return self.reader_type(self)


FAMILIES: Registry[type[ModelConfig]] = Registry("model family")
DATASETS: Registry[type[DataConfig]] = Registry("data set")
