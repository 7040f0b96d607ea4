"""Standard sets of small images: digits, MNIST, CIFAR-10 and CIFAR-100.

MNIST and CIFAR use torchvision's layout, are checked against their published md5s, and are downloaded on
request. The digits are part of scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import NonNegativeInt

from recstudy.base.errors import DataError
from recstudy.recursive.config.parts import DATASETS, DataConfig, Moments
from recstudy.recursive.config.reader import Arrays, DrawingReader, Reader, np

CIFAR10_NAMES = "airplane automobile bird cat deer dog frog horse ship truck"
CIFAR100_NAMES = (  # both in the order of the labels, as in the files `batches.meta` and `meta`
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel"
    " can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur"
    " dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion"
    " lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree"
    " pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea"
    " seal shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table"
    " tank telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman"
    " worm"
)
CIFAR10_MOMENTS = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # as published, and in ViTRM's code
# torchvision's class -> md5 of its unpacked files. They are torchvision's, except for MNIST, where
# torchvision only has the md5 of the archives.
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


@DATASETS.add("digits")
class Digits(DataConfig):
    """1,797 scanned digits of 8x8 pixels from scikit-learn: 1,437 for training, 360 for test."""

    shape: ClassVar = (1, 8, 8)
    classes: ClassVar = 10
    train_size: ClassVar = 1437
    test_size: ClassVar = 360

    name: Literal["digits"] = "digits"
    drawing_seed: NonNegativeInt = 0
    """random seed of the test split, stratified by class"""

    def reader(self) -> DrawingReader:
        return DrawingReader(
            self, lambda folder: digits(self.drawing_seed), "scikit-learn", version("scikit-learn")
        )


def digits(seed: int) -> Arrays:
    """Load and split the digits. Values are scaled from 0..16 to 0..255."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    values_NHW, labels = load_digits(return_X_y=True)
    images = np.round(values_NHW.reshape(-1, 1, 8, 8) * 255 / 16).astype(np.uint8)
    train, test, train_labels, test_labels = train_test_split(
        images, labels, test_size=360, stratify=labels, random_state=seed
    )
    return Arrays(train, train_labels.astype(np.int64), test, test_labels.astype(np.int64))


class TorchvisionReader(Reader):
    """Reader of a set by its class in `torchvision.datasets`, which has the set's name in capitals."""

    ignores = frozenset({"statistics"})

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.kind = config.name.upper()
        self.official = OFFICIAL[self.kind]
        self.archives = ["cifar-10-python.tar.gz"] if self.kind == "CIFAR10" else []

    def sources(self, folder: Path) -> Sequence[str]:
        return list(self.official)

    def fetch(self, folder: Path) -> None:
        """Download the set with a progress bar.

        Raises:
            DataError: If the download fails.
        """
        try:
            self._torchvision(folder, download=True)
        except (OSError, RuntimeError) as error:
            reason = str(error).splitlines()[0].rstrip(":")
            raise DataError(
                f"cannot download {self.config.title} into {folder}: {reason}. Unpack it there by hand, or"
                " pass --data DIR."
            ) from None

    def decode(self, folder: Path) -> Arrays:
        parts: list[Any] = []
        for train in (True, False):
            part = self._torchvision(folder, train=train)
            images = np.asarray(part.data)
            parts.append(images.transpose(0, 3, 1, 2) if images.ndim == 4 else images[:, None])
            parts.append(np.asarray(part.targets, np.int64))
        return Arrays(*parts)

    def _torchvision(self, folder: Path, **options: bool) -> Any:
        from torchvision import datasets

        return getattr(datasets, self.kind)(folder, **options)


@DATASETS.add("mnist")
class Mnist(DataConfig):
    """60,000 + 10,000 handwritten digits of 28x28 pixels, in torchvision's layout (`MNIST/raw`)."""

    reader_type: ClassVar = TorchvisionReader
    title: ClassVar = "MNIST"
    shape: ClassVar = (1, 28, 28)
    classes: ClassVar = 10
    train_size: ClassVar = 60_000
    test_size: ClassVar = 10_000

    name: Literal["mnist"] = "mnist"


class _Cifar(DataConfig):
    statistics: Literal["own", "cifar10"] = "own"
    """mean and deviation that standardize the images: own or CIFAR-10's, which the ViTRM paper also uses for
    CIFAR-100"""
    reader_type: ClassVar = TorchvisionReader
    train_size: ClassVar = 50_000
    test_size: ClassVar = 10_000
    shape: ClassVar = (3, 32, 32)

    @property
    def moments(self) -> Moments | None:
        return CIFAR10_MOMENTS if self.statistics == "cifar10" else None


@DATASETS.add("cifar10")
class Cifar10(_Cifar):
    """50,000 + 10,000 colour photographs of 32x32 pixels in 10 classes (`cifar-10-batches-py`)."""

    title: ClassVar = "CIFAR-10"
    classes: ClassVar = 10
    class_names: ClassVar = tuple(CIFAR10_NAMES.split())

    name: Literal["cifar10"] = "cifar10"


@DATASETS.add("cifar100")
class Cifar100(_Cifar):
    """50,000 + 10,000 colour photographs of 32x32 pixels in 100 fine classes (`cifar-100-python`)."""

    title: ClassVar = "CIFAR-100"
    classes: ClassVar = 100
    class_names: ClassVar = tuple(CIFAR100_NAMES.split())

    name: Literal["cifar100"] = "cifar100"
