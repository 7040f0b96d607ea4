"""The tables of captioned sets: image, caption, split and group of each row, from the layouts that `captions.py` states.

What cannot be read is refused with its file and line. Whether the images are there is found by `caption_readers.py`.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from recstudy.data.chest_table import SPLITS, Rows
from recstudy.errors import DataError

GROUPS = ("group", "case_id", "patient_id")  # columns of captions.csv; the first that is there
MODALITIES = ("CFP", "FFA", "OCT")  # of MM-Retinal
ROCO = {"train": "train", "val": "validation", "test": "test"}
ROCO_V2 = {"train": "train", "val": "valid", "test": "test"}
MEDPIX = {"train": "train", "val": "dev", "test": "test"}
_PART = re.compile(r"(?<=\d)[A-Za-z]$")  # of a figure of MM-Retinal: 01-01A


class Row(NamedTuple):
    """One caption of one image."""

    file: Path
    where: str  # in the file, for messages
    images: tuple[str, ...]  # paths below PATH where the image may be, the likeliest first, with or without an ending
    caption: str
    split: str | None = None  # train, val or test; None where none is given
    group: str | None = None  # patient or case; None where it is unknown


class Layout(NamedTuple):
    """Where the tables are, and how to read them."""

    tables: tuple[str, ...]  # all of them below PATH
    rows: Callable[[Path], Iterator[Row]]
    several: bool = False  # an image named again has several captions; elsewhere that is a mistake
    shares: tuple[float, float] = (0.1, 0.1)  # of validation and test, where the split is drawn


def read_rows(layout: Layout, place: Path) -> list[Row]:
    """All rows of the tables below `place`; a DataError names the file and line of what is wrong."""
    rows = list(layout.rows(place))
    if not rows:
        raise DataError(f"{place / layout.tables[0]} has no rows.")
    return rows


def utf8(file: Path) -> str:
    """The text of `file`; a DataError names the byte and line that are no UTF-8."""
    try:
        data = file.read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise DataError(f"{file}, line {line}: the byte 0x{byte:02X} is not UTF-8. Save the file with that encoding.") from None


def _table(file: Path) -> Rows:
    utf8(file)
    return Rows(file)


def _folder(place: Path) -> Iterator[Row]:
    rows = _table(place / "captions.csv")
    images, captions = rows.keys("image"), rows.column("caption")
    group = next((name for name in GROUPS if name in rows.header), None)
    groups = (cell for _, cell in rows.column(group)) if group else iter([""] * len(rows.rows))
    for (line, image), (_, caption), split, patient in zip(images, captions, _splits(rows), groups, strict=True):
        yield Row(rows.file, f"line {line}", (f"images/{image}", image), caption, split, patient or None)


def _splits(rows: Rows) -> Iterator[str | None]:
    """Blank everywhere is as good as no column."""
    cells = list(rows.column("split")) if "split" in rows.header else []
    if not any(cell for _, cell in cells):
        yield from [None] * len(rows.rows)
        return
    for line, cell in cells:
        if cell not in SPLITS:
            raise rows.error(line, "split", f"must be {', '.join(SPLITS)} or blank in all rows, but got {cell!r}")
        yield cell


def _roco(place: Path) -> Iterator[Row]:
    for split, name in ROCO.items():
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


def _roco_v2(place: Path) -> Iterator[Row]:
    for split, name in ROCO_V2.items():
        rows = _table(place / f"{name}_captions.csv")
        for (line, key), (_, caption) in zip(rows.keys("ID"), rows.column("Caption"), strict=True):
            images = tuple(f"{folder}/{key}" for folder in (name, f"{name}_images", f"{name}_images/{name}"))
            yield Row(rows.file, f"line {line}", images, caption, split)


def _cov_ctr(place: Path) -> Iterator[Row]:
    rows = _table(place / "reports_ZH_EN.csv")
    for (line, image), (_, caption) in zip(rows.keys("image_id"), rows.column("reports_En"), strict=True):
        yield Row(rows.file, f"line {line}", (image, f"images/{image}"), caption, group=image.partition("%")[0])


def _mm_retinal(place: Path) -> Iterator[Row]:
    for modality in MODALITIES:
        rows = _table(place / f"{modality}_translated_v1.csv")
        for (line, key), (_, caption) in zip(rows.keys("Image_ID"), rows.column("en_caption"), strict=True):
            image = f"{modality}/{key}"
            yield Row(rows.file, f"line {line}", (image,), caption, group=_PART.sub("", image))


def _peir_gross(place: Path) -> Iterator[Row]:
    file = place / "peir_gross_captions.json"
    for image, caption in _json(file, utf8(file)):
        yield Row(file, f"key {image!r}", (f"peir_gross_images/{image}", f"images/{image}"), _text(file, image, caption))


def _medpix(place: Path) -> Iterator[Row]:
    for split, name in MEDPIX.items():
        file = place / f"splitted_dataset/descriptions_{name}.jsonl"
        for line, text in enumerate(utf8(file).split("\n"), 1):
            if text.strip():
                values = dict(_json(file, text, line))
                yield _medpix_row(file, line, values, split)


def _medpix_row(file: Path, line: int, values: dict[str, Any], split: str) -> Row:
    for name, kind in (("image", str), ("U_id", str), ("Description", list)):
        if not isinstance(values.get(name), kind):
            raise DataError(f"{file}, line {line}: {name!r} is missing. Give each image its name, case and description.")
    caption = dict(values["Description"]).get("Caption")
    return Row(file, f"line {line}", (f"images/{values['image']}",), _text(file, f"line {line}", caption), split, values["U_id"])


def _json(file: Path, text: str, line: int = 1) -> list[tuple[str, Any]]:
    """Keys and values of an object, with the keys that are there twice; an object within it comes likewise."""
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except json.JSONDecodeError as error:
        raise DataError(f"{file}, line {line + error.lineno - 1}: this is not JSON ({error.msg}).") from None
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise DataError(f"{file}, line {line}: must be a JSON object ({{...}}).")
    return pairs


def _text(file: Path, where: str, caption: Any) -> str:
    """A caption that is null is one that is missing."""
    if caption is not None and not isinstance(caption, str):
        raise DataError(f"{file}, {where}: a caption must be a text, but got {str(caption)[:40]!r}.")
    return caption or ""


LAYOUTS = {
    "captions": Layout(("captions.csv",), _folder),
    "roco": Layout(
        tuple(f"data/{name}/radiology/{file}.txt" for name in ROCO.values() for file in ("captions", "dlinks")), _roco
    ),
    "rocov2": Layout(tuple(f"{name}_captions.csv" for name in ROCO_V2.values()), _roco_v2),
    "cov_ctr": Layout(("reports_ZH_EN.csv",), _cov_ctr, several=True),
    "mm_retinal": Layout(tuple(f"{name}_translated_v1.csv" for name in MODALITIES), _mm_retinal),
    "peir_gross": Layout(("peir_gross_captions.json",), _peir_gross, shares=(0.1, 0.2)),  # 003, section IV.C
    "medpix": Layout(tuple(f"splitted_dataset/descriptions_{name}.jsonl" for name in MEDPIX.values()), _medpix),
}
