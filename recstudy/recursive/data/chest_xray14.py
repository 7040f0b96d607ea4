"""NIH ChestX-ray14 and sets in its layouts: settings, reader, and the choice of images and splits.

`ChestReader.choose` finds every error of the table, the splits and the folder before an image is opened and
before a run starts. On a set as large as NIH's (112,120 images) it takes about a second, most of it for the
table.

Labels are 1 (yes), 0 (no) and -1 (unknown: a blank cell, or a finding without a column). Any other cell is an
error with line and column, because a guessed label would only show up as a strange score.

Shapes: N images, K findings, H height and width.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from difflib import get_close_matches
from functools import partial
from itertools import compress
from pathlib import Path, PurePath
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field

from recstudy.base.errors import DataError, choices, nearest
from recstudy.recursive.config.answers import UNKNOWN
from recstudy.recursive.config.parts import DATASETS, DataConfig, Shape
from recstudy.recursive.config.reader import Arrays, Labels, TableReader, np
from recstudy.recursive.data.images import (
    decode_all,
    decode_image,
    image_notes,
    images_are,
    is_image,
    missing_notes,
)
from recstudy.recursive.data.splits import (
    Rows,
    check_filled,
    check_whole,
    draw_splits,
    letters,
    number_groups,
    utf8,
    validation_mask,
)

# torchxrayvision's default_pathologies, in its order. NIH labels only the first 14.
NIH_FINDINGS = (
    "Atelectasis", "Consolidation", "Infiltration", "Pneumothorax", "Edema", "Emphysema", "Fibrosis",
    "Effusion", "Pneumonia", "Pleural_Thickening", "Cardiomegaly", "Nodule", "Mass", "Hernia",
)  # fmt: skip
FINDINGS = (*NIH_FINDINGS, "Lung Lesion", "Fracture", "Lung Opacity", "Enlarged Cardiomediastinum")
LISTS = {"train_val_list.txt": "train", "test_list.txt": "test"}  # split files of the official layout
VALUES = {"0": 0, "1": 1, "": UNKNOWN, "0.0": 0, "1.0": 1}  # spreadsheets write 0.0 in a column with blanks
OTHER_COLUMNS = ("id", "patient_id", "split")  # columns of labels.csv that are not findings
# Training images: the lines of NIH's train_val_list.txt, and about 60 % of its 36,024 lines with a finding.
NIH = {"multilabel": 86_524, "single": 21_500}
NIH_PATH = "ChestX-ray14"  # all images of NIH (docs/data/chest_xray14.md); other folders may have any set
SAMPLE_PATH = "nih_cxr64"  # 1,000 of NIH's images at 64 pixels
SAMPLE = {"multilabel": (658, 142), "single": (198, 41)}  # training and validation images of the sample
TEST_SHARE = 0.2  # share of test images if no split is given; chosen with seed 0, whatever `split_seed` is


class ChestFindings(DataConfig):
    """Labels of chest X-rays: 18 findings of 1 (yes), 0 (no) or -1 (unknown), or one finding as the class."""

    classes: ClassVar = len(FINDINGS)
    class_names: ClassVar = FINDINGS

    findings: Literal["multilabel", "single"] = "multilabel"
    """multilabel: all findings of every image; single: only images with exactly one known finding, which is
    the class (a single classification token needs that: contradiction HRM-ChestXRay-2)"""

    @property
    def task(self) -> str:
        return "multilabel" if self.findings == "multilabel" else "multiclass"


class ChosenXrays(NamedTuple):
    """The chosen images, with the test images last and otherwise in the order of the table."""

    files: list[str]  # paths in PATH
    labels: Labels  # (N, 18), or (N,) for single findings
    groups: Labels  # (N,) patients, numbered in order of appearance
    splits: list[str]  # train, val or test
    notes: list[str]
    sources: list[str]  # relative to the data folder: the table, the lists of splits and the images


class ChestReader(TableReader):
    """Reader of chest X-rays."""

    config: ChestXray14

    def choose(self, folder: Path) -> ChosenXrays:
        """Choose the images of each split. This reads the table and lists the folders, but opens no image.

        Raises:
            DataError: If the table is missing or damaged, images are missing, a label is invalid, a patient
                is in two splits, or a split is empty.
        """
        config, place = self.config, folder / self.config.path
        tables = [*place.glob("labels.csv"), *sorted(place.glob("Data_Entry_2017*.csv"))]
        if not tables:
            either = f"{config.path}/labels.csv or Data_Entry_2017*.csv"
            raise self.not_found(folder, either if place.is_dir() else config.path)
        if len(tables) > 1:
            raise DataError(f"{place} has {' and '.join(table.name for table in tables)}. Keep one of them.")
        rows, paths = Rows(tables[0]), _images(place)
        images, patients, labels, given_splits = read_table(rows, paths)
        table_name = rows.file.name
        split_files = table_name if table_name == "labels.csv" else " and ".join(LISTS)
        missing_images = [f"images/{name}" for name in images if name not in paths]
        images_named = f"{len(images):,} images named in {table_name}"
        notes = missing_notes(place, missing_images, images_named, table_name, config.allow_missing)
        groups = number_groups(patients)
        if not given_splits and groups.max() == 0:
            raise DataError(
                f"{rows.file} has only one patient, who cannot be in both train and test. Add other patients,"
                " or give a split."
            )
        # `load` holds out the validation split.
        splits = given_splits or draw_splits(groups, validation=0, test=TEST_SHARE).tolist()
        check_whole("patient", patients, splits, f"{place}: by {split_files}, ")
        is_chosen = np.array([name in paths for name in images])
        if config.findings == "single":
            is_single = (labels == 1).sum(1) == 1
            if other_count := int((is_chosen & ~is_single).sum()):
                notes.append(f"{images_are(other_count)} without exactly one known finding: left out")
            is_chosen &= is_single
        if not given_splits:
            notes.append(
                "the table gives no splits: 20 % of the images are the test split, chosen at random by"
                " patient"
            )
        is_known = (labels[is_chosen] != UNKNOWN).any(0)
        if not is_known.all():
            notes.append(f"no image has a label of {', '.join(compress(FINDINGS, ~is_known))}")
        order = sorted(np.flatnonzero(is_chosen).tolist(), key=lambda row: splits[row] == "test")
        chosen_splits = [splits[row] for row in order]
        check_filled(splits, chosen_splits, place, f"none is named in {split_files}")
        files = [paths[images[row]] for row in order]
        lists = [name for name in LISTS if (place / name).exists()]
        return ChosenXrays(
            files=files,
            labels=labels[order].argmax(1) if config.findings == "single" else labels[order],
            groups=number_groups(groups[order]),
            splits=chosen_splits,
            notes=notes,
            sources=[f"{config.path}/{name}" for name in (table_name, *lists, *files)],
        )

    def decode(self, folder: Path) -> Arrays:
        """Decode the chosen images.

        The memory needed is that of the uint8 images and of the files that the threads have open.
        """
        chosen, config = self.chosen(folder), self.config
        paths = [folder / config.path / file for file in chosen.files]
        decode = partial(decode_image, size=config.size, mode="L")
        pixels, images = decode_all(partial(decode, grey_bits=16), paths, config.shape)
        notes = [*chosen.notes, *image_notes(images)]
        if deep_rows := [row for row, image in enumerate(images) if image.depth]:
            # One depth for the whole set, so that equal values stay equal.
            bits = max(image.depth for image in images)
            scale = "value / 257"
            if bits < 16:
                scale = f"value * 255 / {2**bits - 1:,}, because no value has more than {bits} bits"
                for row in deep_rows:
                    pixels[row] = decode(paths[row], grey_bits=bits).pixels
            notes.append(f"{images_are(len(deep_rows))} of 16 bits: scaled to 8 by {scale}")
        train = len(chosen.splits) - chosen.splits.count("test")
        decoded = Arrays.cut(train, images=pixels, labels=chosen.labels, groups=chosen.groups)
        return decoded._replace(train_held=validation_mask(chosen.splits), notes=tuple(notes))


@DATASETS.add("chest_xray14")
class ChestXray14(ChestFindings):
    """NIH ChestX-ray14 (Wang et al. 2017) with labels for 14 of 18 findings, or any set in its layout.

    The folder PATH has either NIH's files,

        PATH/Data_Entry_2017*.csv    columns `Image Index`, `Finding Labels` (joined by |) and `Patient ID`
        PATH/train_val_list.txt      the official split, with test_list.txt; both files or none
        PATH/images/*.png            or images_001/images/*.png to images_012/images/*.png

    or a table with one column per finding:

        PATH/labels.csv              columns `id`, `patient_id`, one per finding (0, 1 or blank), and `split`
                                     (train, val, test)
        PATH/images/ID.png           or another file ending

    If the files give splits, they are used, and `validation` and `split_seed` have no effect on a given `val`
    split. Otherwise 20 % of the images are the test split, and the share `validation` of the rest is held
    out. All images of a patient are in the same split. Given splits that divide a patient are an error.
    `limit` takes whole patients and keeps the proportion of a given validation split.

    Colour images become grey. Images of 16 bits are scaled to 8 bits by value / 257, or by the 8, 10, 12 or
    14 bits of the largest value in all images. The notes of the data set count both.
    """

    reader_type: ClassVar = ChestReader
    title: ClassVar = "NIH ChestX-ray14"

    name: Literal["chest_xray14"] = "chest_xray14"
    path: str = SAMPLE_PATH
    """folder of the set, relative to the data folder"""
    size: int = Field(64, ge=16, le=1024)
    """images are resized and centre-cropped to this many pixels per side"""
    allow_missing: bool = False
    """leave out images of the table that are missing"""

    @property
    def shape(self) -> Shape:
        return (1, self.size, self.size)

    @property
    def counts(self) -> tuple[int, int] | None:
        return SAMPLE[self.findings] if self.path == SAMPLE_PATH else None

    @property
    def train_size(self) -> int | None:
        return NIH[self.findings] if self.path == NIH_PATH else super().train_size


def _images(place: Path) -> dict[str, str]:
    """Return the path in `place` of each image file, by file name."""
    # Each folder is listed once, because a look-up of each of NIH's 112,120 files takes long.
    paths: dict[str, str] = {}
    for folder in [place / "images", *sorted(place.glob("images_*/images"))]:
        for entry in list(os.scandir(folder)) if folder.is_dir() else ():
            path = f"{folder.relative_to(place)}/{entry.name}"
            if entry.is_file() and paths.setdefault(entry.name, path) != path:
                raise DataError(
                    f"{place} has {entry.name} twice: {paths[entry.name]} and {path}. Keep one of the two."
                )
    return paths


def read_table(rows: Rows, files: Collection[str]) -> tuple[list[str], list[str], Labels, list[str] | None]:
    """Read the table and check it row by row.

    Args:
        rows: Rows of the table.
        files: Image files in the folder. They complete an `id` without an ending.

    Returns:
        File names, patients, labels (N, K), and splits or None if the files give no splits.

    Raises:
        DataError: If a cell is wrong. The message names line and column.
    """
    has_columns = rows.file.name == "labels.csv"  # one column per finding
    key, patient = ("id", "patient_id") if has_columns else ("Image Index", "Patient ID")
    file_names = {PurePath(name).stem: name for name in files if is_image(name)} | dict(
        zip(files, files, strict=True)
    )
    # A file in two rows is an error, because it could be in two splits.
    first_lines: dict[str, int] = {}
    for line, cell in rows.column(key, is_key=True):
        name = cell
        if has_columns:
            name = file_names.get(cell, cell if is_image(cell) else f"{cell}.png")
        if first_lines.setdefault(name, line) != line:
            problem = f"names {name!r} again, after line {first_lines[name]}. Keep one of the two"
            raise rows.error(line, key, problem)
    images, patients = list(first_lines), [cell for _, cell in rows.column(patient, is_key=True)]
    if has_columns:
        return images, patients, _columns(rows), rows.splits()
    return images, patients, _cells(rows), _listed(rows.file.parent, images)


def _columns(rows: Rows) -> Labels:
    """Return the labels (N, K) of a table with one column per finding. Others are unknown."""
    for name in rows.header:
        if name not in OTHER_COLUMNS and (finding := near_finding(name)):
            raise DataError(
                f"{rows.file} has a column {name!r}, which is not a finding. Did you mean {finding!r}? Rename"
                " or remove it."
            )
    labels = np.full((len(rows.rows), len(FINDINGS)), UNKNOWN, np.int64)
    if not set(FINDINGS) & set(rows.header):
        raise DataError(f"{rows.file} has no column of a finding. Findings are {choices(FINDINGS)}.")
    for column, name in enumerate(FINDINGS):
        for row, (line, cell) in enumerate(rows.column(name) if name in rows.header else ()):
            if cell not in VALUES:
                raise rows.error(line, name, f"must be 0, 1 or blank (unknown), but got {cell!r}")
            labels[row, column] = VALUES[cell]
    return labels


def _cells(rows: Rows) -> Labels:
    """Return the labels (N, K) of cells such as `Effusion|Mass`, `No Finding` or a blank.

    Findings that NIH does not label are unknown.
    """
    column = "Finding Labels"
    labels_by_cell = {"": [UNKNOWN] * len(FINDINGS)}  # NIH's 112,120 rows have only 836 different cells
    cells = list(rows.column(column))
    for line, cell in cells:
        if cell not in labels_by_cell:
            names = [] if cell == "No Finding" else cell.split("|")
            for name in names:
                if name not in NIH_FINDINGS:
                    allowed = f"'No Finding' alone or names of {', '.join(NIH_FINDINGS)}"
                    problem = f"must be {allowed}, but got {name!r}"
                    raise rows.error(line, column, problem, nearest(name, NIH_FINDINGS))
            labels_by_cell[cell] = [
                int(name in names) if name in NIH_FINDINGS else UNKNOWN for name in FINDINGS
            ]
    return np.array([labels_by_cell[cell] for _, cell in cells], np.int64)


def near_finding(name: str) -> str:
    """Return the finding that a misspelt column probably means, or "".

    The name has all words of the finding, as `Pleural Effusion` has those of `Effusion`, or similar letters.
    The result is "" if the name is itself a finding, or is similar to none.
    """
    if name in FINDINGS:
        return ""
    words = set(re.split(r"[\W_]+", name.lower()))
    for finding in FINDINGS:
        if words.issuperset(re.split(r"[\W_]+", finding.lower())):
            return finding
    by_letters = {letters(finding): finding for finding in FINDINGS}
    matches = get_close_matches(letters(name), by_letters, n=1, cutoff=0.8)
    return by_letters[matches[0]] if matches else ""


def _listed(place: Path, images: list[str]) -> list[str] | None:
    """Return the split of each image from the official lists, or None if both lists are missing."""
    existing_lists = [name for name in LISTS if (place / name).exists()]
    if not existing_lists:
        return None
    split_by_image: dict[str, str] = {}
    for name, split in LISTS.items():
        if name not in existing_lists:
            raise DataError(
                f"{place / name} is missing, but {existing_lists[0]} exists. Provide both or none."
            )
        for image in utf8(place / name).split():
            if split_by_image.setdefault(image, split) != split:
                raise DataError(
                    f"{place / name} and train_val_list.txt both name {image}. Remove it from one of them."
                )
    for image in images:
        if image not in split_by_image:
            raise DataError(f"{image} of {place} is in neither {' nor '.join(LISTS)}. Add it to one of them.")
    return [split_by_image[image] for image in images]
