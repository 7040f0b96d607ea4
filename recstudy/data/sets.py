"""The data sets: what can be set about each. Reading them stands in `readers.py`."""

from typing import Literal

from pydantic import Field

from recstudy.config import DATASETS, DataConfig, Shape


@DATASETS.add("digits")
class Digits(DataConfig):
    """1,797 scanned digits of 8x8 pixels, embedded in scikit-learn; 1,437 train, 360 test, split here once for all."""

    name: Literal["digits"] = "digits"

    @property
    def train_size(self) -> int:
        return 1437

    @property
    def shape(self) -> Shape:
        return (1, 8, 8)

    @property
    def classes(self) -> int:
        return 10


@DATASETS.add("mnist")
class Mnist(DataConfig):
    """60,000 + 10,000 handwritten digits of 28x28 pixels, in torchvision's layout (`MNIST/raw`)."""

    name: Literal["mnist"] = "mnist"

    @property
    def train_size(self) -> int:
        return 60_000

    @property
    def title(self) -> str:
        return "MNIST"

    @property
    def shape(self) -> Shape:
        return (1, 28, 28)

    @property
    def classes(self) -> int:
        return 10


class _Cifar(DataConfig):
    statistics: Literal["own", "cifar10"] = Field(
        "own", description="mean and deviation that standardise the images; 002 uses CIFAR-10's for CIFAR-100 too"
    )

    @property
    def train_size(self) -> int:
        return 50_000

    @property
    def shape(self) -> Shape:
        return (3, 32, 32)


@DATASETS.add("cifar10")
class Cifar10(_Cifar):
    """50,000 + 10,000 colour photographs of 32x32 pixels in 10 classes (`cifar-10-batches-py`)."""

    name: Literal["cifar10"] = "cifar10"

    @property
    def title(self) -> str:
        return "CIFAR-10"

    @property
    def classes(self) -> int:
        return 10


@DATASETS.add("cifar100")
class Cifar100(_Cifar):
    """50,000 + 10,000 colour photographs of 32x32 pixels in 100 classes (`cifar-100-python`)."""

    name: Literal["cifar100"] = "cifar100"

    @property
    def title(self) -> str:
        return "CIFAR-100"

    @property
    def classes(self) -> int:
        return 100


@DATASETS.add("folder")
class ImageFolder(DataConfig):
    """Any folder of images by class: `PATH/train/CLASS/*.png`, `PATH/test/CLASS/*.png`, below the data folder."""

    name: Literal["folder"] = "folder"
    path: str = Field(description="below the data folder, such as `cifar100_subset`")
    class_count: int = Field(ge=2, description="classes; checked against the folders")
    size: int = Field(32, ge=4, le=1024, description="images are resized and centre-cropped to this many pixels a side")
    channels: Literal[1, 3] = 3

    @property
    def title(self) -> str:
        return self.path

    @property
    def shape(self) -> Shape:
        return (self.channels, self.size, self.size)

    @property
    def classes(self) -> int:
        return self.class_count
