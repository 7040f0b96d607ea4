"""MedPix 2.0, clinical cases with their images."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

from recstudy.config import DATASETS
from recstudy.data.captions import CaptionFiles, CaptionReader, Row
from recstudy.data.tables import as_text, json_object, utf8
from recstudy.errors import DataError

SPLITS = {"train": "train", "val": "dev", "test": "test"}


@DATASETS.add("medpix")
class MedPix(CaptionFiles):
    """MedPix 2.0 (Siragusa et al. 2025): 2,050 CT and MR images of 671 cases, the folder of github.com/CHILab1/MedPix-2.0.

    PATH/splitted_dataset/descriptions_{train,dev,test}.jsonl      `image`, `U_id` (case) and `Description.Caption` a line
    PATH/images/IMAGE.png
    """

    title: ClassVar[str] = "MedPix 2.0"

    name: Literal["medpix"] = "medpix"
    path: str = "medpix2"

    def reader(self) -> "MedPixReader":
        return MedPixReader(self)


class MedPixReader(CaptionReader):
    """A table a split."""

    tables = tuple(f"splitted_dataset/descriptions_{name}.jsonl" for name in SPLITS.values())

    def rows(self, place: Path) -> Iterator[Row]:
        for split, name in SPLITS.items():
            file = place / f"splitted_dataset/descriptions_{name}.jsonl"
            for line, text in enumerate(utf8(file).split("\n"), 1):
                if text.strip():
                    values = dict(json_object(file, text, line))
                    yield _row(file, line, values, split)


def _row(file: Path, line: int, values: dict[str, Any], split: str) -> Row:
    for name, kind in (("image", str), ("U_id", str), ("Description", list)):
        if not isinstance(values.get(name), kind):
            raise DataError(f"{file}, line {line}: {name!r} is missing. Give each image its name, case and description.")
    caption = as_text(file, f"line {line}", dict(values["Description"]).get("Caption"))
    return Row(file, f"line {line}", (f"images/{values['image']}",), caption, split, values["U_id"])
