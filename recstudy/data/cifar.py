"""CIFAR-10 and CIFAR-100, small photographs in ten and a hundred classes."""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import DATASETS, DataConfig, Moments, Shape
from recstudy.data.torchvision_reader import TorchvisionReader

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

    def reader(self) -> "Cifar10Reader":
        return Cifar10Reader(self)


@DATASETS.add("cifar100")
class Cifar100(_Cifar):
    """50,000 + 10,000 colour photographs of 32x32 pixels in 100 classes (`cifar-100-python`)."""

    title: ClassVar[str] = "CIFAR-100"
    classes: ClassVar[int] = 100
    class_names: ClassVar[tuple[str, ...]] = tuple(CIFAR100_NAMES.split())

    name: Literal["cifar100"] = "cifar100"

    def reader(self) -> "Cifar100Reader":
        return Cifar100Reader(self)


class Cifar10Reader(TorchvisionReader):
    """The md5s are those of torchvision's tables."""

    kind = "CIFAR10"
    ignores = frozenset({"statistics"})
    official = {  # noqa: RUF012
        "cifar-10-batches-py/data_batch_1": "c99cafc152244af753f735de768cd75f",
        "cifar-10-batches-py/data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "cifar-10-batches-py/data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "cifar-10-batches-py/data_batch_4": "634d18415352ddfa80567beed471001a",
        "cifar-10-batches-py/data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "cifar-10-batches-py/test_batch": "40351d587109b95175f43aff81a1287e",
        "cifar-10-batches-py/batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
    }


class Cifar100Reader(TorchvisionReader):
    """The labels are the fine ones; the md5s are those of torchvision's tables."""

    kind = "CIFAR100"
    ignores = frozenset({"statistics"})
    official = {  # noqa: RUF012
        "cifar-100-python/train": "16019d7e3df5f24257cddd939b257f8d",
        "cifar-100-python/test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        "cifar-100-python/meta": "7973b15100ade9c7d40fb424638fde48",
    }
