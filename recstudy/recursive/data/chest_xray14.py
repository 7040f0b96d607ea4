"""NIH ChestX-ray14 and sets in its layouts: settings, reader, and the choice of images and splits.

`choose` finds every error of the table, the splits and the folder before an image is opened and before a run
starts. On a set as large as NIH's (112,120 images) it takes about a second, most of it for the table.

Labels are 1 (yes), 0 (no) and -1 (unknown: a blank cell, or a finding without a column). Any other cell is an
error with line and column, because a guessed label would only show up as a strange score.

Shapes: N images, K findings, H height and width.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from functools import lru_cache, partial
from pathlib import Path, PurePath
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field

from recstudy.base.errors import DataError, choices, nearest
from recstudy.recursive.config.answers import UNKNOWN
from recstudy.recursive.config.parts import DATASETS, DataConfig, Shape
from recstudy.recursive.config.reader import PATH_ADVICE, Arrays, Labels, Reader, np
from recstudy.recursive.data.images import (
    DEPTHS,
    ENDINGS,
    decode_all,
    decode_image,
    image_notes,
    images_are,
    images_missing,
)
from recstudy.recursive.data.splits import (
    Rows,
    check_filled,
    check_whole,
    letters,
    number_groups,
    utf8,
    whole_groups,
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
SAMPLE_PATH = "nih_cxr64"  # 1,000 of NIH's images at 64 pixels
SAMPLE = {"multilabel": (658, 142), "single": (198, 41)}  # training and validation images of the sample
TEST_SHARE = 0.2  # share of test images if no split is given; chosen with seed 0, whatever `split_seed` is


class ChestFindings(DataConfig):
    """Labels of chest X-rays: 18 findings of 1 (yes), 0 (no) or -1 (unknown), or one finding as the class."""

    classes: ClassVar[int] = len(FINDINGS)
    class_names: ClassVar[tuple[str, ...]] = FINDINGS

    findings: Literal["multilabel", "single"] = Field(
        "multilabel",
        description=(
            "multilabel: all findings of every image; single: only images with exactly one known finding,"
            " which is the class (a single classification token needs that: contradiction HRM-ChestXRay-2)"
        ),
    )

    @property
    def task(self) -> str:
        return "multilabel" if self.findings == "multilabel" else "multiclass"


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

    title: ClassVar[str] = "NIH ChestX-ray14"

    name: Literal["chest_xray14"] = "chest_xray14"
    path: str = Field(SAMPLE_PATH, description="folder of the set, relative to the data folder")
    size: int = Field(
        64, ge=16, le=1024, description="images are resized and centre-cropped to this many pixels per side"
    )
    allow_missing: bool = Field(False, description="leave out images of the table that are missing")

    @property
    def shape(self) -> Shape:
        return (1, self.size, self.size)

    @property
    def counts(self) -> tuple[int, int] | None:
        return SAMPLE[self.findings] if self.path == SAMPLE_PATH else None

    @property
    def train_size(self) -> int | None:
        return sum(self.counts) if self.counts else NIH[self.findings]

    def reader(self) -> ChestReader:
        return ChestReader(self)


class ChestReader(Reader):
    """Reader of chest X-rays. `choose` checks everything except for the pixels before a run starts."""

    advice = PATH_ADVICE

    def __init__(self, config: ChestXray14) -> None:
        super().__init__(config)
        self._choose = lru_cache(maxsize=1)(partial(choose, self))

    def sources(self, folder: Path) -> Sequence[str]:
        return self._choose(folder).sources

    def check(self, folder: Path) -> None:
        self._choose(folder)

    def decode(self, folder: Path) -> Arrays:
        """Decode the chosen images.

        The memory needed is that of the uint8 images and of the files that the threads have open.
        """
        chosen, config = self._choose(folder), self.config
        paths = [folder / config.path / file for file in chosen.files]
        decode = partial(decode_image, size=config.size, mode="L")
        images, remarks = decode_all(partial(decode, bits=16), paths, config.shape)
        notes = [*chosen.notes, *image_notes(remarks)]
        # Row -> bit depth of the values, for images of 16 bits.
        depths = {
            row: depth for row, words in enumerate(remarks) for depth in DEPTHS if f"{depth}-bit" in words
        }
        if depths:
            bits = max(depths.values())  # one depth for the whole set, so that equal values stay equal
            scale = (
                "value / 257"
                if bits == 16
                else f"value * 255 / {2**bits - 1:,}, because no value has more than {bits} bits"
            )
            notes.append(f"{images_are(len(depths))} of 16 bits: scaled to 8 by {scale}")
            for row in depths if bits < 16 else ():
                images[row] = decode(paths[row], bits=bits).pixels
        train = len(chosen.splits) - chosen.splits.count("test")
        is_validation = np.array([split == "val" for split in chosen.splits[:train]])
        decoded = Arrays.cut(train, images=images, labels=chosen.labels, groups=chosen.groups)
        return decoded._replace(train_held=is_validation if is_validation.any() else None, notes=tuple(notes))


class ChosenXrays(NamedTuple):
    """The chosen images, with the test images last and otherwise in the order of the table."""

    files: list[str]  # paths in PATH
    labels: Labels  # (N, 18), or (N,) for single findings
    groups: Labels  # (N,) patients, numbered in order of appearance
    splits: list[str]  # train, val or test
    notes: list[str]
    sources: list[str]  # relative to the data folder: the table, the lists of splits and the images


def choose(reader: ChestReader, folder: Path) -> ChosenXrays:
    """Choose the images of each split. This reads the table and lists the folders, but opens no image.

    Raises:
        DataError: If the table is missing or damaged, images are missing, a label is invalid, a patient is in
            two splits, or a split is empty.
    """
    config: ChestXray14 = reader.config
    place = folder / config.path
    tables = [*place.glob("labels.csv"), *sorted(place.glob("Data_Entry_2017*.csv"))]
    if not tables:
        either = f"{config.path}/labels.csv or Data_Entry_2017*.csv"
        raise reader.not_found(folder, either if place.is_dir() else config.path)
    if len(tables) > 1:
        raise DataError(f"{place} has {' and '.join(table.name for table in tables)}. Keep one of them.")
    rows, paths = Rows(tables[0]), _images(place)
    images, patients, labels, given_splits = read_table(rows, paths)
    table_name = rows.file.name
    split_files = table_name if table_name == "labels.csv" else " and ".join(LISTS)
    notes = []
    if missing_images := [name for name in images if name not in paths]:
        if not config.allow_missing:
            of = f"{len(missing_images):,} of {len(images):,} images named in {table_name}"
            raise images_missing(place, len(missing_images), of, f"images/{missing_images[0]}")
        notes.append(f"{images_are(len(missing_images))} named in {table_name} but missing: left out")
    groups = number_groups(patients)
    splits = given_splits or draw_test_split(rows, groups)
    check_whole("patient", patients, splits, f"{place}: by {split_files}, ")
    chosen = np.array([name in paths for name in images])
    single = config.findings == "single"
    if single:
        several = chosen & ((labels == 1).sum(1) != 1)
        chosen &= ~several
        if several.any():
            notes.append(f"{images_are(several.sum())} without exactly one known finding: left out")
    if not given_splits:
        notes.append(
            "the table gives no splits: 20 % of the images are the test split, chosen at random by patient"
        )
    if unknown := [
        name for name, column in zip(FINDINGS, labels[chosen].T, strict=True) if (column == -1).all()
    ]:
        notes.append(f"no image has a label of {', '.join(unknown)}")
    order = sorted(np.flatnonzero(chosen).tolist(), key=lambda row: splits[row] == "test")
    chosen_splits = [splits[row] for row in order]
    check_filled(splits, chosen_splits, place, f"none is named in {split_files}")
    files = [paths[images[row]] for row in order]
    lists = [name for name in LISTS if (place / name).exists()]
    return ChosenXrays(
        files=files,
        labels=labels[order].argmax(1) if single else labels[order],
        groups=number_groups(groups[order]),
        splits=chosen_splits,
        notes=notes,
        sources=[f"{config.path}/{name}" for name in (table_name, *lists, *files)],
    )


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


def draw_test_split(rows: Rows, groups: Labels) -> list[str]:
    """Choose a random test split by patient, for sets without splits.

    The rest is training, from which `load` holds out the validation split.
    """
    if groups.max() == 0:
        raise DataError(
            f"{rows.file} has only one patient, who cannot be in both train and test. Add other patients, or"
            " give a split."
        )
    test = whole_groups(groups, max(1, round(TEST_SHARE * len(groups))), seed=0)
    return np.where(test, "test", "train").tolist()


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
    if rows.file.name == "labels.csv":  # one column per finding; findings without a column are unknown
        files_by_name = {
            PurePath(name).stem: name for name in files if PurePath(name).suffix.lower() in ENDINGS
        }
        files_by_name |= {name: name for name in files}

        def file_name(cell: str) -> str:
            return files_by_name.get(
                cell, cell if PurePath(cell).suffix.lower() in ENDINGS else f"{cell}.png"
            )

        images = _unique(rows, "id", file_name)
        return images, [patient for _, patient in rows.keys("patient_id")], _columns(rows), rows.splits()
    # One column with the names of all findings. Findings that NIH does not label are unknown.
    images = _unique(rows, "Image Index")
    patients = [patient for _, patient in rows.keys("Patient ID")]
    labels_by_cell: dict[str, list[int]] = {}  # NIH's 112,120 rows have only 836 different cells
    for line, cell in rows.column("Finding Labels"):
        if cell not in labels_by_cell:
            labels_by_cell[cell] = _names(rows, line, cell)
    labels = np.array([labels_by_cell[cell] for _, cell in rows.column("Finding Labels")], np.int64)
    return images, patients, labels, _listed(rows.file.parent, images)


def _unique(rows: Rows, column: str, file_name: Callable[[str], str] = str) -> list[str]:
    """Return the file of each row. A file in two rows is an error, because it could be in two splits."""
    first: dict[str, int] = {}
    for line, cell in rows.keys(column):
        name = file_name(cell)
        if first.setdefault(name, line) != line:
            raise rows.error(
                line, column, f"names {name!r} again, after line {first[name]}. Keep one of the two"
            )
    return list(first)


def _columns(rows: Rows) -> Labels:
    """Return the labels (N, K) of a table with one column per finding."""
    for name in rows.header:
        if name not in OTHER_COLUMNS and (finding := near_finding(name)):
            raise DataError(
                f"{rows.file} has a column {name!r}, which is not a finding. Did you mean {finding!r}? Rename"
                " or remove it."
            )
    labels = np.full((len(rows.rows), len(FINDINGS)), UNKNOWN, np.int64)
    names = [name for name in FINDINGS if name in rows.header]
    if not names:
        raise DataError(f"{rows.file} has no column of a finding. Findings are {choices(FINDINGS)}.")
    for name in names:
        for row, (line, cell) in enumerate(rows.column(name)):
            if cell not in VALUES:
                raise rows.error(line, name, f"must be 0, 1 or blank (unknown), but got {cell!r}")
            labels[row, FINDINGS.index(name)] = VALUES[cell]
    return labels


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


def _names(rows: Rows, line: int, cell: str) -> list[int]:
    """Return the labels (K,) of a cell such as `Effusion|Mass`, `No Finding` or a blank."""
    names = [] if cell == "No Finding" else cell.split("|")
    for name in names if cell else []:
        if name not in NIH_FINDINGS:
            allowed = f"'No Finding' alone or names of {', '.join(NIH_FINDINGS)}"
            raise rows.error(
                line, "Finding Labels", f"must be {allowed}, but got {name!r}", nearest(name, NIH_FINDINGS)
            )
    return [int(name in names) if cell and name in NIH_FINDINGS else UNKNOWN for name in FINDINGS]


def _listed(place: Path, images: list[str]) -> list[str] | None:
    """Return the split of each image from the official lists, or None if both lists are missing."""
    existing_lists = [name for name in LISTS if (place / name).exists()]
    if not existing_lists:
        return None
    if lacks := [name for name in LISTS if name not in existing_lists]:
        raise DataError(
            f"{place / lacks[0]} is missing, but {existing_lists[0]} exists. Provide both or none."
        )
    listed: dict[str, str] = {}
    for name, split in LISTS.items():
        for image in utf8(place / name).split():
            if listed.setdefault(image, split) != split:
                raise DataError(
                    f"{place / name} and train_val_list.txt both name {image}. Remove it from one of them."
                )
    for image in images:
        if image not in listed:
            raise DataError(f"{image} of {place} is in neither {' nor '.join(LISTS)}. Add it to one of them.")
    return [listed[image] for image in images]
