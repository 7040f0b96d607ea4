"""ROCOv2, more images of articles in PubMed Central, selected anew."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from recstudy.config import DATASETS
from recstudy.data.captions import CaptionFiles, CaptionReader, Row
from recstudy.data.tables import Rows

SPLITS = {"train": "train", "val": "valid", "test": "test"}


@DATASETS.add("rocov2")
class RocoV2(CaptionFiles):
    """ROCOv2 (Rückert et al. 2024): 59,958 + 9,904 + 9,927 radiology images, zenodo.org/records/10821435 unpacked.

    PATH/{train,valid,test}_captions.csv                columns `ID` and `Caption`
    PATH/{train,valid,test}/ID.jpg                      or below {train,valid,test}_images/, or both
    """

    title: ClassVar[str] = "ROCOv2"

    name: Literal["rocov2"] = "rocov2"
    path: str = "rocov2"

    def reader(self) -> "RocoV2Reader":
        return RocoV2Reader(self)


class RocoV2Reader(CaptionReader):
    """A table a split."""

    tables = tuple(f"{name}_captions.csv" for name in SPLITS.values())

    def rows(self, place: Path) -> Iterator[Row]:
        for split, name in SPLITS.items():
            rows = Rows(place / f"{name}_captions.csv")
            for (line, key), (_, caption) in zip(rows.keys("ID"), rows.column("Caption"), strict=True):
                images = tuple(f"{folder}/{key}" for folder in (name, f"{name}_images", f"{name}_images/{name}"))
                yield Row(rows.file, f"line {line}", images, caption, split)
