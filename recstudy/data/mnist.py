"""MNIST, the handwritten digits."""

from typing import ClassVar, Literal

from recstudy.config import DATASETS, DataConfig, Shape
from recstudy.data.torchvision_reader import TorchvisionReader


@DATASETS.add("mnist")
class Mnist(DataConfig):
    """60,000 + 10,000 handwritten digits of 28x28 pixels, in torchvision's layout (`MNIST/raw`)."""

    title: ClassVar[str] = "MNIST"
    shape: ClassVar[Shape] = (1, 28, 28)
    classes: ClassVar[int] = 10
    train_size: ClassVar[int | None] = 60_000

    name: Literal["mnist"] = "mnist"

    def reader(self) -> "MnistReader":
        return MnistReader(self)


class MnistReader(TorchvisionReader):
    """torchvision lists the md5s of the archives only; these are those of what is in them."""

    kind = "MNIST"
    official = {  # noqa: RUF012
        "MNIST/raw/train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "MNIST/raw/train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "MNIST/raw/t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "MNIST/raw/t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    }
