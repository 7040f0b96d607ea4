"""The digits that scikit-learn holds: the smallest set, there on every machine."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import DATASETS, DataConfig, Shape
from recstudy.data.decoded import Decoded
from recstudy.data.reader import Reader


@DATASETS.add("digits")
class Digits(DataConfig):
    """1,797 scanned digits of 8x8 pixels, embedded in scikit-learn; 1,437 train, 360 test, split here."""

    shape: ClassVar[Shape] = (1, 8, 8)
    classes: ClassVar[int] = 10
    train_size: ClassVar[int | None] = 1437

    name: Literal["digits"] = "digits"
    drawing_seed: int = Field(0, ge=0, description="draws the images that test, classes in proportion")

    def reader(self) -> "DigitsReader":
        return DigitsReader(self)


class DigitsReader(Reader):
    """Values 0..16 become 0..255."""

    config: Digits

    def sources(self, folder: Path) -> Sequence[str]:
        return ()

    def program(self) -> Sequence[str | int]:
        return "scikit-learn", version("scikit-learn")

    def decode(self, folder: Path) -> Decoded:
        import numpy as np
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        values_NHW, labels = load_digits(return_X_y=True)
        images = np.round(values_NHW.reshape(-1, 1, 8, 8) * 255 / 16).astype(np.uint8)
        train, test, train_labels, test_labels = train_test_split(
            images, labels, test_size=360, stratify=labels, random_state=self.config.drawing_seed
        )
        return Decoded(train, train_labels.astype(np.int64), test, test_labels.astype(np.int64))
