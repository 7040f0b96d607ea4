"""COV-CTR, computed tomography of lungs with reports."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from recstudy.config import DATASETS
from recstudy.data.captions import CaptionFiles, CaptionReader, Row
from recstudy.data.tables import Rows


@DATASETS.add("cov_ctr")
class CovCtr(CaptionFiles):
    """COV-CTR (Li et al. 2022): lung CT with reports, github.com/mlii0117/COV-CTR, the archive with English reports unpacked.

    PATH/reports_ZH_EN.csv      columns `image_id` and `reports_En`, among others; without a split
    PATH/IMAGE                  or PATH/images/IMAGE

    Six images have two reports: the first is trained on, both are references. Parts of one figure, which share a name up
    to a `%`, are a group; the MicarVLMoE paper draws the split by image.
    """

    title: ClassVar[str] = "COV-CTR"

    name: Literal["cov_ctr"] = "cov_ctr"
    path: str = "COV-CTR"

    def reader(self) -> "CovCtrReader":
        return CovCtrReader(self)


class CovCtrReader(CaptionReader):
    """Of one table."""

    tables = ("reports_ZH_EN.csv",)
    several = True

    def rows(self, place: Path) -> Iterator[Row]:
        rows = Rows(place / "reports_ZH_EN.csv")
        for (line, image), (_, caption) in zip(rows.keys("image_id"), rows.column("reports_En"), strict=True):
            yield Row(rows.file, f"line {line}", (image, f"images/{image}"), caption, group=image.partition("%")[0])
