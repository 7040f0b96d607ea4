"""PEIR Gross, photographs of pathology."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from recstudy.config import DATASETS
from recstudy.data.captions import CaptionFiles, CaptionReader, Row
from recstudy.data.tables import as_text, json_object, utf8


@DATASETS.add("peir_gross")
class PeirGross(CaptionFiles):
    """PEIR Gross: pathology photographs, as the script of github.com/wang-zhanyu/medical-reports-datasets stores them.

    PATH/peir_gross_captions.json          image name to caption; without a split: drawn 7:1:2 as in MicarVLMoE
    PATH/peir_gross_images/IMAGE           or PATH/images/IMAGE
    """

    title: ClassVar[str] = "PEIR Gross"

    name: Literal["peir_gross"] = "peir_gross"
    path: str = "peir_gross"

    def reader(self) -> "PeirGrossReader":
        return PeirGrossReader(self)


class PeirGrossReader(CaptionReader):
    """Of one table."""

    tables = ("peir_gross_captions.json",)
    shares = (0.1, 0.2)  # MicarVLMoE, section IV.C

    def rows(self, place: Path) -> Iterator[Row]:
        file = place / "peir_gross_captions.json"
        for image, caption in json_object(file, utf8(file)):
            yield Row(file, f"key {image!r}", (f"peir_gross_images/{image}", f"images/{image}"), as_text(file, image, caption))
