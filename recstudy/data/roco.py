"""ROCO, images of articles in PubMed Central."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from recstudy.config import DATASETS
from recstudy.data.captions import CaptionFiles, CaptionReader, Row
from recstudy.data.tables import utf8
from recstudy.errors import DataError

SPLITS = {"train": "train", "val": "validation", "test": "test"}


@DATASETS.add("roco")
class Roco(CaptionFiles):
    """ROCO (Pelka et al. 2018), its radiology part: a checkout of github.com/razorx89/roco-dataset with fetched images.

    PATH/data/{train,validation,test}/radiology/captions.txt          lines of ID, tab, caption
    PATH/data/{train,validation,test}/radiology/dlinks.txt            lines of ID, tab, command with PMC*.tar.gz, tab, NAME
    PATH/data/{train,validation,test}/radiology/images/PMC*_NAME      as its scripts/fetch.py names them; or ID.jpg
    """

    title: ClassVar[str] = "ROCO"

    name: Literal["roco"] = "roco"
    path: str = "roco-dataset"

    def reader(self) -> "RocoReader":
        return RocoReader(self)


class RocoReader(CaptionReader):
    """Two tables a split: what the images are called, and where they came from."""

    tables = tuple(f"data/{name}/radiology/{file}.txt" for name in SPLITS.values() for file in ("captions", "dlinks"))

    def rows(self, place: Path) -> Iterator[Row]:
        for split, name in SPLITS.items():
            folder = place / f"data/{name}/radiology"
            files = {key: _roco_image(line, cells) for line, key, cells in _tabbed(folder / "dlinks.txt", 3)}
            for line, key, cells in _tabbed(folder / "captions.txt", 2):
                at = f"data/{name}/radiology/images"
                images = tuple(f"{at}/{file}" for file in (files.get(key), key) if file)
                yield Row(folder / "captions.txt", f"line {line}", images, cells[1].strip(), split)


def _roco_image(line: int, cells: list[str]) -> str:
    """`PMC1_a.jpg` of the command that fetches `.../PMC1.tar.gz` and the name `a.jpg` in it (scripts/fetch.py)."""
    archive = re.search(r"([^/\s]+)\.tar\.gz", cells[1])
    return f"{archive[1] if archive else ''}_{cells[2].strip()}"


def _tabbed(file: Path, count: int) -> Iterator[tuple[int, str, list[str]]]:
    """Line number, first cell and all cells of each line that is not blank."""
    for number, line in enumerate(utf8(file).split("\n"), 1):
        cells = line.rstrip("\r").split("\t", count - 1)
        if len(cells) == count:
            yield number, cells[0].strip(), cells
        elif line.strip():
            raise DataError(f"{file}, line {number}: must be {count} cells with a tab between, but got {len(cells)}.")
