"""Captioned images: their settings, the reader of any folder with a table of captions, and the choice of
images.

The public sets are in `caption_sets.py`, and tokenizers are in `text.py`. `CaptionReader.choose` finds every
error of the tables, the splits and the folder before an image is opened and before a run starts. On a set as
large as ROCOv2 (79,789 images) it takes about a second.

Shapes: N images, S pixels per side.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from recstudy.base.errors import DataError, choices
from recstudy.recursive.config.parts import DATASETS
from recstudy.recursive.config.reader import Arrays, Labels, TableReader, np
from recstudy.recursive.data.images import (
    DecodedImage,
    decode_all,
    decode_image,
    image_notes,
    images_are,
    is_image,
    missing_notes,
)
from recstudy.recursive.data.splits import (
    SPLITS,
    Rows,
    caption_text,
    check_filled,
    check_whole,
    draw_splits,
    is_object,
    json_object,
    number_groups,
    surrogate_half,
    utf8,
    validation_mask,
)
from recstudy.recursive.data.text import (
    CLEANERS,
    Captioned,
    clip_files,
    collapse_spaces,
    with_tokens,
)

NONE = "the tables name none"  # why a split has no images
# Folder -> number of training and validation images. The CT images of COVID-CT have captions.
SAMPLES = {"covid_ct": (260, 27)}
# File endings of possible tables of captions.
TABLES = frozenset({".csv", ".tsv", ".txt", ".json", ".jsonl", ".parquet", ".xlsx"})
GROUPS = ("group", "case_id", "patient_id")  # columns of captions.csv; the first existing one is used


class CaptionFiles(Captioned):
    """A captioned set in files, in its official layout or in the layout of `CaptionFolder`.

    If the folder has both layouts, `captions.csv` is read. If the tables give splits, they are used, and
    `validation` and `split_seed` have no effect on a given validation split. Otherwise images are split at
    random by `split_by`, independently of the run's seed: 80 % training, 10 % validation, 10 % test. A group
    (patient or case) in two splits is an error, unless images are split one by one.
    """

    path: str
    """folder of the set, relative to the data folder"""
    allow_missing: bool = False
    """leave out images that are missing or unreadable, and rows without a caption"""
    split_by: Literal["group", "image"] = "group"
    """group: all images of a patient or case are in one split; image: each image by itself (MicarVLMoE), so
    that images of one patient may be in training and in test, which overestimates the model"""


class CaptionRow(NamedTuple):
    """One caption of one image."""

    file: Path
    position: str  # position in the file, for messages
    # Possible paths of the image in PATH, most likely first, with or without an ending.
    images: tuple[str, ...]
    caption: str
    split: str | None = None  # train, val or test; None if not given
    group: str | None = None  # patient or case; None if unknown


class CaptionedImage(NamedTuple):
    """An image with all its captions."""

    row: CaptionRow  # the first row that names the image
    file: str  # path in PATH
    captions: list[str]  # "" for a missing caption
    split: str  # train, val or test


class ChosenImages(NamedTuple):
    """The chosen images, with the test images last and otherwise in the order of the tables."""

    images: list[CaptionedImage]
    notes: list[str]
    sources: list[str]  # relative to the data folder: CLIP's files, the tables and the images


class CaptionReader(TableReader):
    """Reader of captioned images in files. A subclass defines a layout: its tables and how rows are read."""

    config: CaptionFiles
    tables: tuple[str, ...]  # names of all tables in PATH
    several: bool = False  # whether an image may have several rows, one per caption
    shares: tuple[float, float] = (0.1, 0.1)  # shares of validation and test if splits are not given

    @abstractmethod
    def rows(self, place: Path) -> Iterator[CaptionRow]:
        """Yield all rows of the tables in the folder `place`.

        Raises:
            DataError: If a row is wrong. The message names file and line.
        """

    def choose(self, folder: Path) -> ChosenImages:
        """Choose the images of each split. This reads the tables and lists the folder, but opens no image.

        Raises:
            DataError: If a table is missing or damaged, a caption or image is missing, an image is named
                twice, a group is in two splits, a split is empty, or CLIP's files are missing.
        """
        config, place, layout = self.config, folder / self.config.path, _layout(self, folder)
        clip = clip_files(config, folder) if config.tokenizer == "clip" else ()
        paths = _files(place)
        rows_by_file = _by_file(layout, place, paths)
        firsts = [rows[0] for rows in rows_by_file.values()]
        splits = [row.split for row in firsts if row.split is not None]
        are_drawn = len(splits) < len(firsts)
        if are_drawn:
            groups = _numbers(firsts) if config.split_by == "group" else np.arange(len(firsts))
            if groups.max() < len(SPLITS) - 1:
                raise DataError(
                    f"{firsts[0].file} has fewer than 3 {config.split_by}s, too few for three splits. Add"
                    f" {config.split_by}s, or a column `split`."
                )
            splits = draw_splits(groups, *layout.shares).tolist()
        else:
            check_whole("group", [row.group for row in firsts], splits, f"{place}: ")
        missing_images = [
            f"{row.images[0]} ({row.file.name}, {row.position})"
            for file, row in zip(rows_by_file, firsts, strict=True)
            if file not in paths
        ]
        images_named = f"{len(firsts):,} images"
        notes = missing_notes(place, missing_images, images_named, "a table", config.allow_missing)
        images = []
        for (file, rows), split in zip(rows_by_file.items(), splits, strict=True):
            captions = [collapse_spaces(row.caption) for row in rows]
            images.append(CaptionedImage(rows[0], file, captions, split))
        captioned = self._with_captions(images, "the caption is missing")
        if empty_count := len(images) - len(captioned):
            notes.append(f"{images_are(empty_count)} without a caption: left out")
        if several := sum(len(image.captions) > 1 for image in images):
            notes.append(
                f"{several:,} of {len(images):,} images have several captions: training uses the first one,"
                " and all are references"
            )
        if are_drawn:
            leak = ", so images of one patient may be in training and in test" * (config.split_by == "image")
            notes.append(f"the tables give no splits: split at random by {config.split_by}{leak}")
        chosen = [image for image in captioned if image.file in paths]
        check_filled(splits, [image.split for image in chosen], place, NONE)
        sources = [str(file.relative_to(folder)) for file in clip if file.is_relative_to(folder)]
        files = [file for file in rows_by_file if file in paths]
        sources += [f"{config.path}/{name}" for name in (*layout.tables, *files)]
        return ChosenImages(sorted(chosen, key=lambda image: image.split == "test"), notes, sources)

    def _with_captions(self, images: list[CaptionedImage], problem: str) -> list[CaptionedImage]:
        """Return the images whose captions are complete. Others are an error unless they may be left out."""
        for image in images:
            if not all(image.captions) and not self.config.allow_missing:
                raise DataError(
                    f"{image.row.file}, {image.row.position}: {problem}. Write one, remove the row, or pass"
                    " --allow-missing to leave out such images."
                )
        return [image for image in images if all(image.captions)]

    def decode(self, folder: Path) -> Arrays:
        """Clean the captions, decode the images and compute the tokens.

        The memory needed is that of the uint8 images and of the files that the threads have open.
        """
        config, place, clean = self.config, folder / self.config.path, CLEANERS[self.config.clean]
        chosen, notes, _ = self.chosen(folder)
        cleaned = [image._replace(captions=list(map(clean, image.captions))) for image in chosen]
        images = self._with_captions(cleaned, f"the caption is empty after data.clean {config.clean!r}")
        if empty_count := len(cleaned) - len(images):
            notes = [*notes, f"{images_are(empty_count)} without a caption after cleaning: left out"]

        def decode(image: CaptionedImage) -> DecodedImage:
            try:
                return decode_image(place / image.file, config.size, "RGB")
            except DataError as error:
                if config.allow_missing:
                    return DecodedImage(np.zeros(1, np.uint8), ("unreadable",))
                position = f"{image.row.file.name}, {image.row.position}"
                raise DataError(
                    f"{error} {position} names it. Pass --allow-missing to leave it out."
                ) from None

        pixels, decoded = decode_all(decode, images, config.shape)
        readable = ["unreadable" not in image.remarks for image in decoded]
        images = list(compress(images, readable))
        splits = [image.split for image in images]
        check_filled([image.split for image in chosen], splits, place, NONE)
        rows = [image.row for image in images]
        arrays = with_tokens(
            config,
            folder,
            pixels if all(readable) else pixels[readable],
            [image.captions for image in images],
            len(splits) - splits.count("test"),
            None if config.split_by == "image" or all(row.group is None for row in rows) else _numbers(rows),
            validation_mask(splits),
            (*notes, *image_notes(decoded)),
        )
        return arrays._replace(test_names=[image.file for image in images if image.split == "test"])


class CaptionFolderReader(CaptionReader):
    """Reader of `captions.csv`."""

    tables = ("captions.csv",)
    several = True

    def rows(self, place: Path) -> Iterator[CaptionRow]:
        rows = Rows(place / self.tables[0])
        column = next((name for name in GROUPS if rows.has(name)), None)
        groups = [cell or None for _, cell in rows.column(column)] if column else [None] * len(rows.rows)
        splits: Sequence[str | None] = rows.splits() or [None] * len(rows.rows)
        for (position, image, caption), split, group in zip(
            rows.pairs("image", "caption"), splits, groups, strict=True
        ):
            yield CaptionRow(rows.file, position, _places(image), caption, split, group)


@DATASETS.add("captions")
class CaptionFolder(CaptionFiles):
    """Any images with a table of captions. The first existing table of these three is read.

    PATH/captions.csv      columns `image` and `caption`. Optional are `split` (train, val, test), else
                           splits are random, and the group as `group`, `case_id` or `patient_id`, else
                           each image is its own group. An image may have several rows: its first caption
                           is used for training, and all captions are references
    PATH/captions.txt      the same table, as in Flickr8k
    PATH/annotation.json   as in R2Gen: `train`, `val` and `test` are lists of objects with `id`, `report`
                           and `image_path`. Each image of a report is an item, and its group is
                           `subject_id`, else `id`

    PATH/images/IMAGE      or PATH/Images/IMAGE or PATH/IMAGE; the table may omit the file ending
    """

    reader_type: ClassVar = CaptionFolderReader

    name: Literal["captions"] = "captions"

    @property
    def title(self) -> str:
        return self.path

    @property
    def counts(self) -> tuple[int, int] | None:
        return SAMPLES.get(self.path)


class CaptionTextReader(CaptionFolderReader):
    """Reader of `captions.txt`, the same table under Flickr8k's name."""

    tables = ("captions.txt",)


class AnnotationReader(CaptionReader):
    """Reader of `annotation.json` as in R2Gen (Chen et al. 2020, github.com/zhjohnchan/R2Gen)."""

    tables = ("annotation.json",)

    def rows(self, place: Path) -> Iterator[CaptionRow]:
        file = place / self.tables[0]
        for split, entries in json_object(file, utf8(file)):
            if split not in SPLITS or not isinstance(entries, list):
                raise DataError(f"{file} must only have lists named {', '.join(SPLITS)}, but has {split!r}.")
            for number, entry in enumerate(entries):
                values = dict(entry) if is_object(entry) else {}
                position, paths = f"{split}[{number}]", values.get("image_path")
                paths = [paths] if isinstance(paths, str) else paths
                if (
                    not isinstance(paths, list)
                    or not paths
                    or not all(isinstance(path, str) for path in paths)
                ):
                    raise DataError(
                        f"{file}, {position}: 'image_path' must be a list of the report's images."
                    )
                caption = caption_text(file, position, values.get("report"))
                group = values.get("subject_id", values.get("id"))
                name = None if group is None else str(group)
                for path in paths:
                    yield CaptionRow(file, position, _places(path), caption, split, name)


def _places(image: str) -> tuple[str, ...]:
    return (f"images/{image}", f"Images/{image}", image)


def _layout(reader: CaptionReader, folder: Path) -> CaptionReader:
    """Return the reader of the first layout whose tables exist.

    The order is: `captions.csv`, the set's own layout, the other tables of `CaptionFolder`.
    """
    config, place = reader.config, folder / reader.config.path
    layouts = [CaptionFolderReader(config), reader, CaptionTextReader(config), AnnotationReader(config)]
    for layout in layouts:
        if all((place / name).exists() for name in layout.tables):
            return layout
    if isinstance(reader, CaptionFolderReader):
        _refuse_other_tables(place, [name for layout in layouts[1:] for name in layout.tables])
    missing_table = next(name for name in reader.tables if not (place / name).exists())
    raise reader.not_found(folder, f"{config.path}/{missing_table}" if place.is_dir() else config.path)


def _refuse_other_tables(place: Path, table_names: Sequence[str]) -> None:
    """Raise a DataError if the folder has tables, but none of the supported ones."""
    files = [file for file in (*place.glob("*"), *place.glob("*/*")) if file.suffix.lower() in TABLES]
    tables = [
        file.relative_to(place).as_posix()
        for file in files
        if not file.stem.lower().startswith(("readme", "license"))
    ]
    if tables:
        raise DataError(
            f"{place} has none of the tables {choices(table_names)}, but has"
            f" {choices(sorted(tables), limit=3)}. Write captions.csv with the columns image and caption, one"
            " row per caption. The columns split and group are optional."
        )


def _by_file(layout: CaptionReader, place: Path, paths: Mapping[str, str]) -> dict[str, list[CaptionRow]]:
    """Return the rows of each image by its path in `place`; a missing image has its first possible path."""
    rows_by_file: dict[str, list[CaptionRow]] = {}
    for row in layout.rows(place):
        for text in (row.caption, row.images[0], row.group or ""):
            if half := surrogate_half(text):
                raise DataError(f"{row.file}, {row.position}: {half}.")
        file = next((paths[image] for image in row.images if image in paths), row.images[0])
        rows = rows_by_file.setdefault(file, [])
        first = rows[0] if rows else row
        # A table may name an image once with its ending and once without.
        if rows and not (layout.several and row.images == first.images):
            first_position = first.position
            if first.file != row.file:
                first_position = f"{first.file.name}, {first.position}"
            raise DataError(
                f"{row.file}, {row.position}: names {row.images[-1]!r} again, after {first_position}. Keep"
                " one of the two."
            )
        if (row.split, row.group) != (first.split, first.group):
            raise DataError(
                f"{row.file}, {row.position}: {row.images[-1]!r} has a different split or group than in"
                f" {first.position}. Give all captions of an image the same split and group."
            )
        rows.append(row)
    if not rows_by_file:
        raise DataError(f"{place / layout.tables[0]} has no rows.")
    return rows_by_file


def _numbers(rows: list[CaptionRow]) -> Labels:
    """Number the groups (N,). An image without a group is its own group."""
    return number_groups(
        f"image {row.images[0]}" if row.group is None else f"group {row.group}" for row in rows
    )


def _files(place: Path) -> dict[str, str]:
    """Return all files in `place` and its folders, by path and by path without ending. Links are followed."""
    paths: dict[str, str] = {}
    inside: dict[str, set[str]] = {}  # folder -> real paths of the folder and its parents
    for folder, folders, names in os.walk(place, followlinks=True):
        around, real = inside.get(os.path.dirname(folder), set()), os.path.realpath(folder)  # noqa: PTH120
        if real in around:  # a link to a parent would be followed forever
            folders.clear()
            continue
        inside[folder] = around | {real}
        relative_folder = Path(folder).relative_to(place).as_posix()
        # Images come first, so a name without ending means the image and not another file of that name.
        for name in sorted(names, key=lambda name: (not is_image(name), name)):
            path = name if relative_folder == "." else f"{relative_folder}/{name}"
            paths[path] = path
            paths.setdefault(os.path.splitext(path)[0], path)  # noqa: PTH122
    return paths
