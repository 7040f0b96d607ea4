"""The table of a chest X-ray set: image, patient, findings and split of each row, from either layout of `ChestXray14`.

Labels are 1 (yes), 0 (no) and -1 (unknown: a blank cell, or a finding that the table has no column for). A cell that is
none of these is refused with its line and column, because a label that is guessed would only show as a strange score.

Shapes: N images, K findings.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recstudy.config import UNKNOWN
from recstudy.data.chest_xray14 import FINDINGS, NIH_FINDINGS
from recstudy.data.images import Labels
from recstudy.data.tables import Rows
from recstudy.errors import DataError, choices, nearest

LISTS = {"train_val_list.txt": "train", "test_list.txt": "test"}  # of the official layout
VALUES = {"0": 0, "1": 1, "": -1, "0.0": 0, "1.0": 1}  # spreadsheets write 0.0 in a column with blanks


class Table(NamedTuple):
    """What the table says, in its order."""

    file: Path
    images: list[str]  # file names
    patients: list[str]
    labels: Labels  # (N, K)
    splits: list[str] | None  # train, val or test; None where none are given
    split_files: str  # where the splits stand


def table_files(place: Path) -> list[Path]:
    """Return the tables that are there, of either layout."""
    return [*place.glob("labels.csv"), *sorted(place.glob("Data_Entry_2017*.csv"))]


def read_table(file: Path) -> Table:
    """Read the table, checked row by row; a DataError names the line and the column of what is wrong."""
    rows = Rows(file)
    return _own(rows) if file.name == "labels.csv" else _official(rows)


def _own(rows: Rows) -> Table:
    """Read one column a finding; those that are missing are unknown."""
    images = _unique(rows, "id", lambda name: name if name.lower().endswith(".png") else f"{name}.png")
    patients = [patient for _, patient in rows.keys("patient_id")]
    return Table(rows.file, images, patients, _columns(rows), rows.splits(), rows.file.name)


def _official(rows: Rows) -> Table:
    """Read one column of finding names; the findings that NIH does not label are unknown."""
    images = _unique(rows, "Image Index")
    patients = [patient for _, patient in rows.keys("Patient ID")]
    known: dict[str, list[int]] = {}  # 112,120 rows have 836 different cells
    for line, cell in rows.column("Finding Labels"):
        if cell not in known:
            known[cell] = _names(rows, line, cell)
    labels = np.array([known[cell] for _, cell in rows.column("Finding Labels")], np.int64)
    return Table(rows.file, images, patients, labels, _listed(rows.file.parent, images), " and ".join(LISTS))


def _unique(rows: Rows, column: str, file_name: Callable[[str], str] = str) -> list[str]:
    """Return the file of each row; a file in two rows could be in two splits."""
    first: dict[str, int] = {}
    for line, cell in rows.keys(column):
        name = file_name(cell)
        if first.setdefault(name, line) != line:
            raise rows.error(line, column, f"names {name!r} again, which line {first[name]} has. Keep one of the two")
    return list(first)


def _columns(rows: Rows) -> Labels:
    names = [name for name in FINDINGS if name in rows.header]
    if not names:
        raise DataError(f"{rows.file} has no column of a finding: of {choices(FINDINGS)}.")
    labels = np.full((len(rows.rows), len(FINDINGS)), UNKNOWN, np.int64)
    for name in names:
        labels[:, FINDINGS.index(name)] = [_value(rows, line, name, cell) for line, cell in rows.column(name)]
    return labels


def _value(rows: Rows, line: int, column: str, cell: str) -> int:
    if cell not in VALUES:
        raise rows.error(line, column, f"must be 0, 1 or blank (unknown), but got {cell!r}")
    return VALUES[cell]


def _names(rows: Rows, line: int, cell: str) -> list[int]:
    """Return (K,) the labels of `Effusion|Mass`, `No Finding` or a blank."""
    names = [] if cell == "No Finding" else cell.split("|")
    for name in names if cell else []:
        if name not in NIH_FINDINGS:
            known = f"'No Finding' alone or of {', '.join(NIH_FINDINGS)}"
            raise rows.error(line, "Finding Labels", f"must be {known}, but got {name!r}", nearest(name, NIH_FINDINGS))
    return [int(name in names) if cell and name in NIH_FINDINGS else UNKNOWN for name in FINDINGS]


def _listed(place: Path, images: list[str]) -> list[str] | None:
    """Return the split of each image by the official lists, where they are there."""
    there = [name for name in LISTS if (place / name).exists()]
    if not there:
        return None
    if lacks := [name for name in LISTS if name not in there]:
        raise DataError(f"{place / lacks[0]} is missing, but {there[0]} is there. Put both or none.")
    listed: dict[str, str] = {}
    for name, split in LISTS.items():
        for image in (place / name).read_text(encoding="utf-8", errors="replace").split():
            if listed.setdefault(image, split) != split:
                raise DataError(f"{place / name} names {image}, which train_val_list.txt names too. Keep one of the two.")
    for image in images:
        if image not in listed:
            raise DataError(f"{place}: neither {' nor '.join(LISTS)} names {image}. Add it to one of them.")
    return [listed[image] for image in images]
