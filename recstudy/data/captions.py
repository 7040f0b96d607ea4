"""Captioned images: what can be set about them, any folder of them with a table, and which images are read.

The official sets stand in `caption_sets.py`, what a token is in `text.py`. Everything that can be wrong with
the tables, the splits or the folder is found by `choose`, before an image is opened and before a run starts;
on a set as large as ROCOv2 (79,789 images) that takes about a second.

Shapes: N images, S pixels a side.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import compress
from pathlib import Path, PurePath
from typing import ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from recstudy.config import DATASETS, PAD, DataConfig, Shape
from recstudy.data.checking import check_encodable
from recstudy.data.images import (
    ENDINGS,
    DecodedImage,
    decode_all,
    decode_image,
    image_notes,
    images_are,
    images_missing,
)
from recstudy.data.reader import PATH_ADVICE, Arrays, Labels, Reader, np
from recstudy.data.splits import (
    SPLITS,
    Rows,
    caption_text,
    check_filled,
    check_whole,
    draw_splits,
    json_object,
    number_groups,
    utf8,
)
from recstudy.data.text import (
    BYTES,
    CLEANERS,
    CLIP_BOS,
    CLIP_EOS,
    CLIP_VOCABULARY,
    SPECIALS,
    clip_files,
    collapse_spaces,
    with_tokens,
)
from recstudy.errors import DataError, choices

NONE = "the tables name none"  # of the images of a split
# folder -> images that train and validate: the CT images of COVID-CT with captions
SAMPLES = {"covid_ct": (260, 27)}
# endings of tables of captions
TABLES = frozenset({".csv", ".tsv", ".txt", ".json", ".jsonl", ".parquet", ".xlsx"})
GROUPS = ("group", "case_id", "patient_id")  # columns of captions.csv; the first that is there


class Captioned(DataConfig):
    """Colour images with a text each. The labels are the tokens of an image's first caption: BOS, words, EOS,
    PAD.
    """

    task: ClassVar[str] = "caption"

    tokenizer: Literal["byte", "word", "bpe", "clip"] = Field(
        "byte",
        description=(
            "a token a byte; a word of the training captions, where it is there 3 times (MicarVLMoE); a piece"
            " of a word, by byte pairs of the training captions; or by CLIP's (FuseLIP), from its files"
        ),
    )
    vocabulary: int = Field(
        1000, ge=16, le=100_000, description="V of 'word' and 'bpe': most ids, with the 4 special ones"
    )
    length: int = Field(
        512,
        ge=4,
        le=4096,
        description="tokens of a caption with BOS and EOS; a longer one is cut, and counted",
    )
    size: int = Field(
        224, ge=16, le=1024, description="images are resized and centre-cropped to this many pixels a side"
    )
    clean: Literal["none", "report"] = Field(
        "none",
        description=(
            "captions as they are, but for white space; or as MicarVLMoE cleans reports: see `text.py`"
        ),
    )
    clip_files: str = Field(
        "clip",
        description=(
            "below the data folder: CLIP's vocab.json and merges.txt; else the Hugging Face cache is asked"
        ),
    )

    @property
    def shape(self) -> Shape:
        return (3, self.size, self.size)

    @property
    def classes(self) -> int:
        """Ids that a model can give; a tokenizer of few training captions may use fewer."""
        fixed = {"byte": BYTES + SPECIALS, "clip": CLIP_VOCABULARY}
        return fixed.get(self.tokenizer, self.vocabulary)

    @property
    def tokens(self) -> int:
        return self.length

    @property
    def special_tokens(self) -> tuple[int, int, int]:
        return (PAD, CLIP_BOS, CLIP_EOS) if self.tokenizer == "clip" else (PAD, 1, 2)

    @model_validator(mode="after")
    def _bytes_have_ids(self) -> Self:
        if self.tokenizer == "bpe" and self.vocabulary < BYTES + SPECIALS:
            raise ValueError(
                f"vocabulary must be at least {BYTES + SPECIALS} with tokenizer 'bpe', but got"
                f" {self.vocabulary}"
            )
        return self


class CaptionFiles(Captioned):
    """A set in files, in the official layout that its reader states or in that of `CaptionFolder`, which
    comes first.

    Given splits are used, and then a validation split is the one that is given, whatever `validation` and
    `split_seed` say. Without them they are drawn by group, the same for every seed: 80 % of the images for
    training, 10 % for validation, 10 % for test. A group (patient, case) in two splits is refused.
    """

    path: str = Field(description="below the data folder")
    allow_missing: bool = Field(
        False,
        description=(
            "leave out what the table names and the folder lacks, what is no image, and rows without a"
            " caption"
        ),
    )


class CaptionRow(NamedTuple):
    """One caption of one image."""

    file: Path
    position: str  # in the file, for messages
    # paths below PATH where the image may be, the likeliest first, with or without an ending
    images: tuple[str, ...]
    caption: str
    split: str | None = None  # train, val or test; None where none is given
    group: str | None = None  # patient or case; None where it is unknown


class CaptionReader(Reader):
    """Reads captioned images in files. A layout is the tables it has, and how their rows are read."""

    config: CaptionFiles
    advice = PATH_ADVICE
    tables: tuple[str, ...]  # all of them below PATH
    several: bool = False  # an image named again has several captions; elsewhere that is a mistake
    shares: tuple[float, float] = (0.1, 0.1)  # of validation and test, where the split is drawn

    def __init__(self, config: CaptionFiles) -> None:
        super().__init__(config)
        self._choose = lru_cache(maxsize=1)(partial(choose, self))

    @abstractmethod
    def rows(self, place: Path) -> Iterator[CaptionRow]:
        """Yield all rows of the tables below `place`; a DataError names the file and line of what is
        wrong.
        """

    def sources(self, folder: Path) -> Sequence[str]:
        return self._choose(folder)[2]

    def check(self, folder: Path) -> None:
        self._choose(folder)

    def decode(self, folder: Path) -> Arrays:
        """Clean captions, pixels, tokens. Memory: the uint8 images, and what the threads have open."""
        config, place, clean = self.config, folder / self.config.path, CLEANERS[self.config.clean]
        chosen, chosen_notes, _ = self._choose(folder)
        notes = list(chosen_notes)
        cleaned = [
            image._replace(captions=[clean(caption) for caption in image.captions]) for image in chosen
        ]
        check_captions(config, cleaned, f"nothing is left of the caption with data.clean {config.clean!r}")
        images = [image for image in cleaned if all(image.captions)]
        if empty_count := len(cleaned) - len(images):
            notes.append(f"{images_are(empty_count)} without a caption once it is cleaned: left out")

        def decode(image: CaptionedImage) -> DecodedImage:
            try:
                return decode_image(place / image.file, config.size, "RGB")
            except DataError as error:
                if config.allow_missing:
                    return DecodedImage(np.zeros(1, np.uint8), ("unreadable",))
                position = f"{image.row.file.name}, {image.row.position}"
                raise DataError(f"{error} {position} names it; --allow-missing leaves it out.") from None

        pixels, remarks = decode_all(decode, images, config.shape)
        notes += image_notes(remarks)
        readable = ["unreadable" not in words for words in remarks]
        if not all(readable):
            pixels, images = pixels[readable], list(compress(images, readable))
        check_filled([image.split for image in chosen], [image.split for image in images], place, NONE)
        train = sum(image.split != "test" for image in images)
        is_validation = np.array([image.split == "val" for image in images[:train]])
        rows = [image.row for image in images]
        groups = None if all(row.group is None for row in rows) else _numbers(rows)
        captions = [image.captions for image in images]
        return with_tokens(
            config,
            folder,
            pixels,
            captions,
            train,
            groups,
            is_validation if is_validation.any() else None,
            tuple(notes),
        )


@DATASETS.add("captions")
class CaptionFolder(CaptionFiles):
    """Any images with a table of one of these three names. The first table is read.

    PATH/captions.csv      columns `image` and `caption`; `split` (train, val, test), else it is drawn; and the group:
                           `group`, `case_id` or `patient_id`, else each image is its own. An image may have
                           several rows: the first caption is trained on, all are references
    PATH/captions.txt      the same, as Flickr8k names it
    PATH/annotation.json   R2Gen's: `train`, `val` and `test`, each a list of objects with `id`, `report` and `image_path`. Each
                           image of a report is an item; the group is `subject_id`, else `id`

    PATH/images/IMAGE      or PATH/Images/IMAGE or PATH/IMAGE; the ending may be left out in the table
    """

    name: Literal["captions"] = "captions"

    @property
    def title(self) -> str:
        return self.path

    @property
    def counts(self) -> tuple[int, int] | None:
        return SAMPLES.get(self.path)

    def reader(self) -> CaptionFolderReader:
        return CaptionFolderReader(self)


class CaptionFolderReader(CaptionReader):
    """Reads a single `captions.csv`."""

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


class CaptionTextReader(CaptionFolderReader):
    """Reads the same table as Flickr8k names it."""

    tables = ("captions.txt",)


class AnnotationReader(CaptionReader):
    """Reads the reports of R2Gen (Chen et al. 2020, github.com/zhjohnchan/R2Gen)."""

    tables = ("annotation.json",)

    def rows(self, place: Path) -> Iterator[CaptionRow]:
        file = place / self.tables[0]
        for split, entries in json_object(file, utf8(file)):
            if split not in SPLITS or not isinstance(entries, list):
                raise DataError(f"{file}: must have lists named {', '.join(SPLITS)}, but has {split!r}.")
            for number, entry in enumerate(entries):
                values = (
                    dict(entry)
                    if isinstance(entry, list) and all(isinstance(pair, tuple) for pair in entry)
                    else {}
                )
                position = f"{split}[{number}]"
                paths = values.get("image_path")
                paths = [paths] if isinstance(paths, str) else paths
                if (
                    not isinstance(paths, list)
                    or not paths
                    or not all(isinstance(path, str) for path in paths)
                ):
                    raise DataError(
                        f"{file}, {position}: 'image_path' must be a list of paths. Give each report its images."
                    )
                caption = caption_text(file, position, values.get("report"))
                group = values.get("subject_id", values.get("id"))
                for path in paths:
                    yield CaptionRow(
                        file, position, _places(path), caption, split, None if group is None else str(group)
                    )


def _places(image: str) -> tuple[str, ...]:
    return (f"images/{image}", f"Images/{image}", image)


class CaptionedImage(NamedTuple):
    """An image that is read."""

    row: CaptionRow  # the first that names it
    file: str  # below PATH; blank where it is missing
    captions: list[str]  # cleaned; blank where one is missing
    split: str  # train, val or test


def choose(reader: CaptionReader, folder: Path) -> tuple[list[CaptionedImage], list[str], list[str]]:
    """Choose the images of each split. Reads the tables and lists the folder, but opens no image.

    Returns:
        The images, those that train first and each split in the tables' order; notes; and the sources below
        the data folder: CLIP's files, the tables and the images.

    Raises:
        DataError: a missing or broken table, a caption or image that is missing, an image named twice, a
            group in two splits, an empty split, CLIP's files missing.
    """
    config, layout = reader.config, _layout(reader, folder)
    place = folder / config.path
    clip = clip_files(config, folder) if config.tokenizer == "clip" else ()
    rows_by_image = _by_image(layout, place)
    firsts = [rows[0] for rows in rows_by_image]
    splits = [row.split for row in firsts if row.split is not None]
    are_drawn = len(splits) < len(firsts)
    if are_drawn:
        groups = _numbers(firsts)
        if groups.max() < len(SPLITS) - 1:
            problem = "has fewer than 3 groups, too few to draw a split from. Add others, or give the split."
            raise DataError(f"{firsts[0].file} {problem}")
        splits = draw_splits(groups, *layout.shares).tolist()
    check_whole("group", [row.group for row in firsts], splits, f"{place}: ")
    texts = [[collapse_spaces(row.caption) for row in rows] for rows in rows_by_image]
    files = _find(config, place, firsts)
    images = [CaptionedImage(*parts) for parts in zip(firsts, files, texts, splits, strict=True)]
    check_captions(config, images, "no caption")
    chosen = [image for image in images if image.file and all(image.captions)]
    check_filled(splits, [image.split for image in chosen], place, NONE)
    notes = []
    if missing_count := files.count(""):
        notes.append(f"{images_are(missing_count)} named in a table and missing: left out")
    if empty := sum(not all(captions) for captions in texts):
        notes.append(f"{images_are(empty)} without a caption: left out")
    if several := sum(len(captions) > 1 for captions in texts):
        notes.append(
            f"{several:,} of {len(images):,} images have several captions: the first is trained on, all are"
            " references"
        )
    if are_drawn:
        notes.append("no splits are given: drawn by group")
    sources = [str(file.relative_to(folder)) for file in clip if file.is_relative_to(folder)]
    sources += [f"{config.path}/{name}" for name in (*layout.tables, *filter(None, files))]
    return sorted(chosen, key=lambda image: image.split == "test"), notes, sources


def _layout(reader: CaptionReader, folder: Path) -> CaptionReader:
    """Return the reader of `captions.csv` if that is there, else the set's own, else that of another table of
    `CaptionFolder`.
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
    """Refuse (DataError) a folder that has tables, but none of the wanted ones."""
    files = [file for file in (*place.glob("*"), *place.glob("*/*")) if file.suffix.lower() in TABLES]
    tables = [
        file.relative_to(place).as_posix()
        for file in files
        if not file.stem.lower().startswith(("readme", "license"))
    ]
    if tables:
        are = "is" if len(tables) == 1 else "are"
        raise DataError(
            f"{place} has none of {choices(table_names)}. It has {choices(sorted(tables), limit=3)}, which {are}"
            " not read. Write captions.csv with the columns image and caption, one row per caption; split"
            " and group are optional."
        )


def _by_image(layout: CaptionReader, place: Path) -> list[list[CaptionRow]]:
    """Return the rows of each image."""
    rows_by_image: dict[str, list[CaptionRow]] = {}
    for row in layout.rows(place):
        for text in (row.caption, row.images[0], row.group or ""):
            check_encodable(text, f"{row.file}, {row.position}")
        rows = rows_by_image.setdefault(row.images[0], [])
        if rows and not layout.several:
            raise repeated_image_error(row, rows[0])
        if rows and (row.split, row.group) != (rows[0].split, rows[0].group):
            raise DataError(
                f"{row.file}, {row.position}: {row.images[-1]!r} has another split or group than in"
                f" {rows[0].position}. Give all captions of an image the same."
            )
        rows.append(row)
    if not rows_by_image:
        raise DataError(f"{place / layout.tables[0]} has no rows.")
    return list(rows_by_image.values())


def repeated_image_error(row: CaptionRow, first: CaptionRow) -> DataError:
    first_position = first.position if first.file == row.file else f"{first.file.name}, {first.position}"
    return DataError(
        f"{row.file}, {row.position}: names {row.images[-1]!r} again, which {first_position} has. Keep one of the two."
    )


def _numbers(rows: list[CaptionRow]) -> Labels:
    """Number the groups; an image without a group is one of its own."""
    return number_groups(
        f"image {row.images[0]}" if row.group is None else f"group {row.group}" for row in rows
    )


def check_captions(config: CaptionFiles, images: list[CaptionedImage], problem: str) -> None:
    """Refuse (DataError) the first image that lacks a caption, unless it may be left out; `what` says why it
    lacks one.
    """
    for image in images:
        if not all(image.captions) and not config.allow_missing:
            raise DataError(
                f"{image.row.file}, {image.row.position}: {problem}. Write one, remove the row, or go on without"
                " such images with --allow-missing."
            )


def _find(config: CaptionFiles, place: Path, rows: list[CaptionRow]) -> list[str]:
    """Return the file of each image, below `place`; blank where it is missing, which is refused unless it is
    allowed.
    """
    paths = _files(place)
    files = [next((paths[image] for image in row.images if image in paths), "") for row in rows]
    first: dict[str, CaptionRow] = {}
    for row, file in zip(rows, files, strict=True):
        if file and first.setdefault(file, row) is not row:  # once with its ending, once without
            raise repeated_image_error(row, first[file])
    missing_rows = [row for row, file in zip(rows, files, strict=True) if not file]
    if missing_rows and not config.allow_missing:
        row = missing_rows[0]
        of = f"{len(missing_rows):,} of {len(rows):,} images"
        raise images_missing(
            place, len(missing_rows), of, f"{row.images[0]} ({row.file.name}, {row.position})"
        )
    return files


def _files(place: Path) -> dict[str, str]:
    """Return every file below `place`, by its path and by its path without the ending; folders may be
    links.
    """
    paths: dict[str, str] = {}
    inside: dict[str, set[str]] = {}  # of a folder: where it and those that it lies in really are
    for folder, folders, names in os.walk(place, followlinks=True):
        around, real = inside.get(os.path.dirname(folder), set()), os.path.realpath(folder)  # noqa: PTH120
        if real in around:  # a link back: it has no end
            folders.clear()
            continue
        inside[folder] = around | {real}
        relative_folder = Path(folder).relative_to(place).as_posix()
        for name in sorted(names, key=lambda name: (PurePath(name).suffix.lower() not in ENDINGS, name)):
            path = name if relative_folder == "." else f"{relative_folder}/{name}"
            paths[path] = path
            paths.setdefault(os.path.splitext(path)[0], path)  # noqa: PTH122  an image before another file of its name
    return paths
