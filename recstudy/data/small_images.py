"""The standard sets of small images: digits, MNIST, CIFAR-10 and CIFAR-100; and boards of dominoes, which are generated.

MNIST and CIFAR are in torchvision's layout, checked against their published md5s, and downloaded where that is asked for;
scikit-learn holds the digits. On the boards each further step of reasoning answers harder images, for quick presets,
demonstrations and tests:

    domino 0 and 1       end in a colour each; the marked chain leads to 0
    domino 2 to 1 + k    the marked chain, each leads to the one before it: k steps from the mark to the colour
    domino 2 + k         leads to 1
    all others           lead to any domino before them

Then signs, places and colours are dealt. Everything but noise is drawn in integers.

Shapes: N images, M dominoes of a board, P pixels a side of a domino.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from recstudy.config import DATASETS, DataConfig, Moments, Shape
from recstudy.data.reader import Decoded, DrawingReader, Labels, Mask, Pixels, Reader, np
from recstudy.errors import DataError

CIFAR10_NAMES = "airplane automobile bird cat deer dog frog horse ship truck"
CIFAR100_NAMES = (
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle "
    "caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish "
    "forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle "
    "mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine "
    "possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar "
    "sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree "
    "wolf woman worm"
)  # both in the order of their labels, which is that of `batches.meta` and `meta`
CIFAR10_MOMENTS = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # as published, and in the code of ViTRM
# By torchvision's classes: the md5s of the unpacked files, which are those of its tables but for MNIST's archives.
OFFICIAL = {
    "MNIST": {
        "MNIST/raw/train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "MNIST/raw/train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "MNIST/raw/t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "MNIST/raw/t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
    "CIFAR10": {
        "cifar-10-batches-py/data_batch_1": "c99cafc152244af753f735de768cd75f",
        "cifar-10-batches-py/data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "cifar-10-batches-py/data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "cifar-10-batches-py/data_batch_4": "634d18415352ddfa80567beed471001a",
        "cifar-10-batches-py/data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "cifar-10-batches-py/test_batch": "40351d587109b95175f43aff81a1287e",
        "cifar-10-batches-py/batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
    },
    "CIFAR100": {
        "cifar-100-python/train": "16019d7e3df5f24257cddd939b257f8d",
        "cifar-100-python/test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        "cifar-100-python/meta": "7973b15100ade9c7d40fb424638fde48",
    },
}
COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255)}
ENDS = len(COLOURS)
DOMINO = 6  # pixels a side
SEED = 9
TRAIN_IMAGES, TEST_IMAGES = 10_000, 2000
HALF = DOMINO * DOMINO // 2  # pixels of half a domino, which the signs share


@DATASETS.add("digits")
class Digits(DataConfig):
    """1,797 scanned digits of 8x8 pixels, embedded in scikit-learn; 1,437 train, 360 test, split here."""

    shape: ClassVar[Shape] = (1, 8, 8)
    classes: ClassVar[int] = 10
    train_size: ClassVar[int | None] = 1437

    name: Literal["digits"] = "digits"
    drawing_seed: int = Field(0, ge=0, description="draws the images that test, classes in proportion")

    def reader(self) -> DrawingReader:
        return DrawingReader(self, lambda folder: digits(self.drawing_seed), "scikit-learn", version("scikit-learn"))


def digits(seed: int) -> Decoded:
    """Return the digits, whose values 0..16 become 0..255."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    values_NHW, labels = load_digits(return_X_y=True)
    images = np.round(values_NHW.reshape(-1, 1, 8, 8) * 255 / 16).astype(np.uint8)
    train, test, train_labels, test_labels = train_test_split(images, labels, test_size=360, stratify=labels, random_state=seed)
    return Decoded(train, train_labels.astype(np.int64), test, test_labels.astype(np.int64))


class TorchvisionReader(Reader):
    """Reads a set by its class in `torchvision.datasets`, whose unpacked files have the md5s of `OFFICIAL`."""

    ignores = frozenset({"statistics"})

    def __init__(self, config: Any, kind: str) -> None:
        super().__init__(config)
        self.kind, self.official = kind, OFFICIAL[kind]

    def sources(self, folder: Path) -> Sequence[str]:
        return list(self.official)

    def fetch(self, folder: Path) -> None:
        """Download the set with a progress bar; a DataError says why that failed."""
        try:
            self._torchvision(folder, download=True)
        except (OSError, RuntimeError) as error:
            reason = str(error).splitlines()[0].rstrip(":")
            raise DataError(
                f"cannot download {self.config.title} into {folder}: {reason}. Unpack it there yourself, or pass --data DIR."
            ) from None

    def decode(self, folder: Path) -> Decoded:
        parts: list[Any] = []
        for train in (True, False):
            part = self._torchvision(folder, train=train)
            images = np.asarray(part.data)
            parts.append(images.transpose(0, 3, 1, 2) if images.ndim == 4 else images[:, None])
            parts.append(np.asarray(part.targets, dtype=np.int64))
        return Decoded(*parts)

    def _torchvision(self, folder: Path, **options: bool) -> Any:
        from torchvision import datasets

        return getattr(datasets, self.kind)(folder, **options)


@DATASETS.add("mnist")
class Mnist(DataConfig):
    """60,000 + 10,000 handwritten digits of 28x28 pixels, in torchvision's layout (`MNIST/raw`)."""

    title: ClassVar[str] = "MNIST"
    shape: ClassVar[Shape] = (1, 28, 28)
    classes: ClassVar[int] = 10
    train_size: ClassVar[int | None] = 60_000

    name: Literal["mnist"] = "mnist"

    def reader(self) -> TorchvisionReader:
        return TorchvisionReader(self, "MNIST")


class _Cifar(DataConfig):
    statistics: Literal["own", "cifar10"] = Field(
        "own", description="mean and deviation that standardise the images; the ViTRM paper uses CIFAR-10's for CIFAR-100 too"
    )
    train_size: ClassVar[int | None] = 50_000
    shape: ClassVar[Shape] = (3, 32, 32)

    @property
    def moments(self) -> Moments | None:
        return CIFAR10_MOMENTS if self.statistics == "cifar10" else None


@DATASETS.add("cifar10")
class Cifar10(_Cifar):
    """50,000 + 10,000 colour photographs of 32x32 pixels in 10 classes (`cifar-10-batches-py`)."""

    title: ClassVar[str] = "CIFAR-10"
    classes: ClassVar[int] = 10
    class_names: ClassVar[tuple[str, ...]] = tuple(CIFAR10_NAMES.split())

    name: Literal["cifar10"] = "cifar10"

    def reader(self) -> TorchvisionReader:
        return TorchvisionReader(self, "CIFAR10")


@DATASETS.add("cifar100")
class Cifar100(_Cifar):
    """50,000 + 10,000 colour photographs of 32x32 pixels in 100 classes, the fine labels (`cifar-100-python`)."""

    title: ClassVar[str] = "CIFAR-100"
    classes: ClassVar[int] = 100
    class_names: ClassVar[tuple[str, ...]] = tuple(CIFAR100_NAMES.split())

    name: Literal["cifar100"] = "cifar100"

    def reader(self) -> TorchvisionReader:
        return TorchvisionReader(self, "CIFAR100")


@DATASETS.add("dominoes")
class Dominoes(DataConfig):
    """10,000 + 2,000 generated boards: which colour ends the chain that begins at the marked domino? Synthetic.

    A domino has a sign of its own in its upper half, and in its lower half the sign of the domino that comes next, or, where a
    chain ends, one of two colours. All chains end in a colour, and each of the two has one.
    From the mark it is `least_steps` to `most_steps` steps, each number equally often: the level of an image. Every step is by
    the same rule, which a weight-tied recursion can repeat.
    """

    synthetic: ClassVar[bool] = True
    title: ClassVar[str] = "Dominoes (synthetic)"
    classes: ClassVar[int] = len(COLOURS)
    class_names: ClassVar[tuple[str, ...]] = tuple(COLOURS)
    train_size: ClassVar[int | None] = 10_000

    name: Literal["dominoes"] = "dominoes"
    columns: int = Field(3, ge=3, le=9, description="of the board, which has two rows; a domino is 6x6 pixels, for one patch")
    least_steps: int = Field(0, ge=0, description="from the marked domino to the colour")
    most_steps: int = Field(3, ge=0)
    noise: float = Field(0.0, ge=0, lt=0.5, description="share of the pixels that are inverted, so that signs are misread")
    drawing_seed: int = Field(0, ge=0, description="draws the boards")

    @model_validator(mode="after")
    def _chains_fit(self) -> Self:
        most = 2 * self.columns - len(COLOURS) - 1  # one more leads to the other colour
        if not self.least_steps <= self.most_steps <= most:
            raise ValueError(
                f"least_steps <= most_steps <= {most} must hold on {2 * self.columns} dominoes, but got {self.least_steps} and "
                f"{self.most_steps}"
            )
        return self

    @property
    def shape(self) -> Shape:
        return (3, 2 * DOMINO, self.columns * DOMINO)

    def levels(self, rows: Labels) -> Labels:
        return self.least_steps + rows % (self.most_steps - self.least_steps + 1)

    def reader(self) -> DrawingReader:
        return DrawingReader(self, lambda folder: draw_set(self), "dominoes", 1)


class Boards(NamedTuple):
    """Dominoes in the order of their places."""

    signs: Labels  # (N, M) of the upper halves
    following: Labels  # (N, M) of the lower halves: the sign of the next domino, or -1 - COLOUR
    marked: Mask  # (N, M) where the chain begins


def draw_set(config: Dominoes) -> Decoded:
    """Draw a set in which no two images are the same."""
    own = filter(None, [config.drawing_seed])  # 0: as before there was such a seed
    random = np.random.default_rng([SEED, config.columns, config.least_steps, config.most_steps, *own])
    steps = config.levels(np.concatenate([np.arange(TRAIN_IMAGES), np.arange(TEST_IMAGES)]))
    images, labels = draw(2 * config.columns, steps, random)
    while len(again := repeated(images)):
        images[again], labels[again] = draw(2 * config.columns, steps[again], random)
    if config.noise:
        count, _, height, width = images.shape
        images[np.broadcast_to(random.random((count, 1, height, width)) < config.noise, images.shape)] ^= 255
    return Decoded.cut(TRAIN_IMAGES, images=images, labels=labels)


def repeated(images: Pixels) -> Labels:
    """Return the rows of images that came before."""
    _, first = np.unique(images.reshape(len(images), -1), axis=0, return_index=True)
    return np.delete(np.arange(len(images)), first)


def draw(dominoes: int, steps: Labels, random: np.random.Generator) -> tuple[Pixels, Labels]:
    """Draw images of so many steps each, and the colours that their marked chains end in."""
    count = len(steps)
    leads = chains(dominoes, steps, random)
    signs, order, colours = (dealt(count, cards, random) for cards in (dominoes, dominoes, ENDS))
    following = np.take_along_axis(signs, leads, 1)
    following[:, :ENDS] = -1 - colours
    signs, following = (np.take_along_axis(part, order, 1) for part in (signs, following))  # `order`: the domino of each place
    marked = order == np.where(steps > 0, ENDS - 1 + steps, 0)[:, None]
    return picture(Boards(signs, following, marked)), colours[:, 0]


def chains(dominoes: int, steps: Labels, random: np.random.Generator) -> Labels:
    """Return which domino comes next, (N, M)."""
    leads = np.zeros((len(steps), dominoes), np.int64)
    for at in range(ENDS, dominoes):
        own = 0 if at == ENDS else at - 1
        beyond = at - ENDS - steps  # below 0: of the marked chain
        leads[:, at] = np.select([beyond < 0, beyond == 0], [own, 1], random.integers(0, at, len(steps)))
    return leads


def dealt(count: int, cards: int, random: np.random.Generator) -> Labels:
    """Deal the cards 0, 1, ... in another order for each image, (N, cards)."""
    return random.permuted(np.tile(np.arange(cards), (count, 1)), axis=1)


def picture(boards: Boards) -> Pixels:
    """Draw (N, 3, 2 P, M P / 2): a sign is a dash at its own place, a colour fills its half, the mark a negative upper half."""
    count, dominoes = boards.signs.shape
    shown = np.stack([boards.signs, boards.following], 2)
    dashes = np.arange(HALF) // (HALF // dominoes) == shown[..., None]  # (N, M, 2, HALF)
    halves = np.repeat(np.where(dashes, 255, 0).astype(np.uint8)[..., None], 3, axis=-1)
    ends = boards.following < 0
    halves[ends, 1] = np.array(list(COLOURS.values()), np.uint8)[-1 - boards.following[ends], None]
    halves[boards.marked, 0] ^= 255
    pixels = halves.reshape(count, 2, dominoes // 2, DOMINO, DOMINO, 3)
    return pixels.transpose(0, 5, 1, 3, 2, 4).reshape(count, 3, 2 * DOMINO, dominoes // 2 * DOMINO)
