"""MM-Retinal, images of the fundus from books."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from recstudy.config import DATASETS
from recstudy.data.captions import CaptionFiles, CaptionReader, Row
from recstudy.data.tables import Rows

MODALITIES = ("CFP", "FFA", "OCT")
_PART = re.compile(r"(?<=\d)[A-Za-z]$")  # of a figure: 01-01A


@DATASETS.add("mm_retinal")
class MmRetinal(CaptionFiles):
    """MM-Retinal v1 (Wu et al. 2024): fundus images from books, github.com/lxirich/MM-Retinal.

    PATH/{CFP,FFA,OCT}_translated_v1.csv      columns `Image_ID` and `en_caption`, among others; without a split
    PATH/{CFP,FFA,OCT}/ID.*

    The parts of a figure (01-01A, 01-01B), often of one patient, are a group; the MicarVLMoE paper draws the split by
    image and modality.
    """

    title: ClassVar[str] = "MM-Retinal"

    name: Literal["mm_retinal"] = "mm_retinal"
    path: str = "MM_Retinal_dataset_v1"

    def reader(self) -> "MmRetinalReader":
        return MmRetinalReader(self)


class MmRetinalReader(CaptionReader):
    """A table a modality."""

    tables = tuple(f"{name}_translated_v1.csv" for name in MODALITIES)

    def rows(self, place: Path) -> Iterator[Row]:
        for modality in MODALITIES:
            rows = Rows(place / f"{modality}_translated_v1.csv")
            for (line, key), (_, caption) in zip(rows.keys("Image_ID"), rows.column("en_caption"), strict=True):
                image = f"{modality}/{key}"
                yield Row(rows.file, f"line {line}", (image,), caption, group=_PART.sub("", image))
