"""The captioned sets of medical images as their authors give them: what can be set, and how their tables are read.

Each is one class: its `tables` lie below PATH, and `rows` yields what they say of each caption.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from recstudy.config import DATASETS
from recstudy.data.captions import CaptionFiles, CaptionReader, CaptionRow
from recstudy.data.tables import Rows, as_text, json_object, utf8
from recstudy.errors import DataError

MEDPIX_SPLITS = {"train": "train", "val": "dev", "test": "test"}  # of ours, what the files call it
ROCO_SPLITS = {"train": "train", "val": "validation", "test": "test"}
ROCO_V2_SPLITS = {"train": "train", "val": "valid", "test": "test"}
MODALITIES = ("CFP", "FFA", "OCT")  # of MM-Retinal
FIGURE_PART = re.compile(r"(?<=\d)[A-Za-z]$")  # 01-01A


class OfficialCaptions(CaptionFiles):
    """A captioned set in a layout of its own."""

    tables: ClassVar[tuple[str, ...]]
    several: ClassVar[bool] = False
    shares: ClassVar[tuple[float, float]] = (0.1, 0.1)

    @abstractmethod
    def rows(self, place: Path) -> Iterator[CaptionRow]:
        """Yield all rows of the tables below `place`; a DataError names the file and line of what is wrong."""

    def reader(self) -> OfficialCaptionReader:
        return OfficialCaptionReader(self)


class OfficialCaptionReader(CaptionReader):
    """Reads the tables as the set's config says."""

    config: OfficialCaptions

    def __init__(self, config: OfficialCaptions) -> None:
        super().__init__(config)
        self.tables, self.several, self.shares = config.tables, config.several, config.shares

    def rows(self, place: Path) -> Iterator[CaptionRow]:
        return self.config.rows(place)


@DATASETS.add("cov_ctr")
class CovCtr(OfficialCaptions):
    """COV-CTR (Li et al. 2022): lung CT with reports, github.com/mlii0117/COV-CTR, the archive with English reports unpacked.

    PATH/reports_ZH_EN.csv      columns `image_id` and `reports_En`, among others; without a split
    PATH/IMAGE                  or PATH/images/IMAGE

    Six images have two reports: the first is trained on, both are references. Parts of one figure, which share a name up
    to a `%`, are a group; the MicarVLMoE paper draws the split by image.
    """

    title: ClassVar[str] = "COV-CTR"

    name: Literal["cov_ctr"] = "cov_ctr"
    path: str = "COV-CTR"

    tables: ClassVar = ("reports_ZH_EN.csv",)
    several: ClassVar = True

    def rows(self, place: Path) -> Iterator[CaptionRow]:
        rows = Rows(place / "reports_ZH_EN.csv")
        for (line, image), (_, caption) in zip(rows.keys("image_id"), rows.column("reports_En"), strict=True):
            yield CaptionRow(rows.file, f"line {line}", (image, f"images/{image}"), caption, group=image.partition("%")[0])


@DATASETS.add("medpix")
class MedPix(OfficialCaptions):
    """MedPix 2.0 (Siragusa et al. 2025): 2,050 CT and MR images of 671 cases, the folder of github.com/CHILab1/MedPix-2.0.

    PATH/splitted_dataset/descriptions_{train,dev,test}.jsonl      `image`, `U_id` (case) and `Description.Caption` a line
    PATH/images/IMAGE.png
    """

    title: ClassVar[str] = "MedPix 2.0"

    name: Literal["medpix"] = "medpix"
    path: str = "medpix2"

    tables: ClassVar = tuple(f"splitted_dataset/descriptions_{name}.jsonl" for name in MEDPIX_SPLITS.values())

    def rows(self, place: Path) -> Iterator[CaptionRow]:
        for split, name in MEDPIX_SPLITS.items():
            file = place / f"splitted_dataset/descriptions_{name}.jsonl"
            for line, text in enumerate(utf8(file).split("\n"), 1):
                if text.strip():
                    values = dict(json_object(file, text, line))
                    for key, kind in (("image", str), ("U_id", str), ("Description", list)):
                        if not isinstance(values.get(key), kind):
                            fix = "Give each image its name, case and description."
                            raise DataError(f"{file}, line {line}: {key!r} is missing. {fix}")
                    caption = as_text(file, f"line {line}", dict(values["Description"]).get("Caption"))
                    yield CaptionRow(file, f"line {line}", (f"images/{values['image']}",), caption, split, values["U_id"])


@DATASETS.add("mm_retinal")
class MmRetinal(OfficialCaptions):
    """MM-Retinal v1 (Wu et al. 2024): fundus images from books, github.com/lxirich/MM-Retinal.

    PATH/{CFP,FFA,OCT}_translated_v1.csv      columns `Image_ID` and `en_caption`, among others; without a split
    PATH/{CFP,FFA,OCT}/ID.*

    The parts of a figure (01-01A, 01-01B), often of one patient, are a group; the MicarVLMoE paper draws the split by
    image and modality.
    """

    title: ClassVar[str] = "MM-Retinal"

    name: Literal["mm_retinal"] = "mm_retinal"
    path: str = "MM_Retinal_dataset_v1"

    tables: ClassVar = tuple(f"{name}_translated_v1.csv" for name in MODALITIES)

    def rows(self, place: Path) -> Iterator[CaptionRow]:
        for modality in MODALITIES:
            rows = Rows(place / f"{modality}_translated_v1.csv")
            for (line, key), (_, caption) in zip(rows.keys("Image_ID"), rows.column("en_caption"), strict=True):
                image = f"{modality}/{key}"
                yield CaptionRow(rows.file, f"line {line}", (image,), caption, group=FIGURE_PART.sub("", image))


@DATASETS.add("peir_gross")
class PeirGross(OfficialCaptions):
    """PEIR Gross: pathology photographs, as the script of github.com/wang-zhanyu/medical-reports-datasets stores them.

    PATH/peir_gross_captions.json          image name to caption; without a split: drawn 7:1:2 as in MicarVLMoE
    PATH/peir_gross_images/IMAGE           or PATH/images/IMAGE
    """

    title: ClassVar[str] = "PEIR Gross"

    name: Literal["peir_gross"] = "peir_gross"
    path: str = "peir_gross"

    tables: ClassVar = ("peir_gross_captions.json",)
    shares: ClassVar = (0.1, 0.2)  # MicarVLMoE, section IV.C

    def rows(self, place: Path) -> Iterator[CaptionRow]:
        file = place / "peir_gross_captions.json"
        for image, caption in json_object(file, utf8(file)):
            yield CaptionRow(
                file, f"key {image!r}", (f"peir_gross_images/{image}", f"images/{image}"), as_text(file, image, caption)
            )


@DATASETS.add("roco")
class Roco(OfficialCaptions):
    """ROCO (Pelka et al. 2018), its radiology part: a checkout of github.com/razorx89/roco-dataset with fetched images.

    PATH/data/{train,validation,test}/radiology/captions.txt          lines of ID, tab, caption
    PATH/data/{train,validation,test}/radiology/dlinks.txt            lines of ID, tab, command with PMC*.tar.gz, tab, NAME
    PATH/data/{train,validation,test}/radiology/images/PMC*_NAME      as its scripts/fetch.py names them; or ID.jpg
    """

    title: ClassVar[str] = "ROCO"

    name: Literal["roco"] = "roco"
    path: str = "roco-dataset"

    tables: ClassVar = tuple(
        f"data/{name}/radiology/{file}.txt" for name in ROCO_SPLITS.values() for file in ("captions", "dlinks")
    )

    def rows(self, place: Path) -> Iterator[CaptionRow]:
        for split, name in ROCO_SPLITS.items():
            folder = place / f"data/{name}/radiology"
            files = {}
            for _, key, (_, command, file) in _tabbed(folder / "dlinks.txt", 3):
                archive = re.search(
                    r"([^/\s]+)\.tar\.gz", command
                )  # `PMC1_a.jpg` of PMC1.tar.gz and a.jpg in it (scripts/fetch.py)
                files[key] = f"{archive[1] if archive else ''}_{file.strip()}"
            for line, key, cells in _tabbed(folder / "captions.txt", 2):
                at = f"data/{name}/radiology/images"
                images = tuple(f"{at}/{file}" for file in (files.get(key), key) if file)
                yield CaptionRow(folder / "captions.txt", f"line {line}", images, cells[1].strip(), split)


def _tabbed(file: Path, count: int) -> Iterator[tuple[int, str, list[str]]]:
    """Yield line number, first cell and all cells of each line that is not blank."""
    for number, line in enumerate(utf8(file).split("\n"), 1):
        cells = line.rstrip("\r").split("\t", count - 1)
        if len(cells) == count:
            yield number, cells[0].strip(), cells
        elif line.strip():
            raise DataError(f"{file}, line {number}: must be {count} cells with a tab between, but got {len(cells)}.")


@DATASETS.add("rocov2")
class RocoV2(OfficialCaptions):
    """ROCOv2 (Rückert et al. 2024): 59,958 + 9,904 + 9,927 radiology images, zenodo.org/records/10821435 unpacked.

    PATH/{train,valid,test}_captions.csv                columns `ID` and `Caption`
    PATH/{train,valid,test}/ID.jpg                      or below {train,valid,test}_images/, or both
    """

    title: ClassVar[str] = "ROCOv2"

    name: Literal["rocov2"] = "rocov2"
    path: str = "rocov2"

    tables: ClassVar = tuple(f"{name}_captions.csv" for name in ROCO_V2_SPLITS.values())

    def rows(self, place: Path) -> Iterator[CaptionRow]:
        for split, name in ROCO_V2_SPLITS.items():
            rows = Rows(place / f"{name}_captions.csv")
            for (line, key), (_, caption) in zip(rows.keys("ID"), rows.column("Caption"), strict=True):
                images = tuple(f"{folder}/{key}" for folder in (name, f"{name}_images", f"{name}_images/{name}"))
                yield CaptionRow(rows.file, f"line {line}", images, caption, split)
