"""Chooses the images of the captioned sets: which there are, what is said of each, and which split they belong to.

Everything that can be wrong with the tables, the splits or the folder is found by `choose`, before an image is opened and
before a run starts; on a set as large as ROCOv2 (79,789 images) that takes about a second.

Shapes: N images.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recstudy.data import text
from recstudy.data.captions import CaptionFiles, CaptionFolderReader, CaptionReader, Row
from recstudy.data.images import Labels, Mask, images_are
from recstudy.data.splits import Texts, check_filled, check_whole, draw, numbered
from recstudy.data.tables import SPLITS
from recstudy.errors import DataError

NONE = "the tables name none"  # of the images of a split


class Chosen(NamedTuple):
    """The images that are read, training images first, each split in the tables' order."""

    rows: list[Row]  # the first of each image
    files: list[str]  # below PATH
    captions: list[list[str]]  # of each image; as the table has them, or cleaned
    splits: Texts  # (N,) train, val or test
    groups: Labels | None  # (N,) numbered in this order; None where no group is known
    notes: tuple[str, ...]
    sources: list[str]  # below the data folder: CLIP's files, the tables and the images


def choose(reader: CaptionReader, folder: Path) -> Chosen:
    """Choose the images of each split. Reads the tables and lists the folder, but opens no image.

    Raises:
        DataError: a missing or broken table, a caption or image that is missing, an image named twice, a group in two splits,
            an empty split, CLIP's files missing.
    """
    config, layout = reader.config, _layout(reader, folder)
    place = folder / config.path
    clip = text.clip_files(config, folder) if config.tokenizer == "clip" else ()
    named = _by_image(layout, place)
    firsts = [rows[0] for rows in named]
    splits = _drawn(layout, firsts) if firsts[0].split is None else np.array([row.split for row in firsts])
    check_whole("group", [row.group for row in firsts], splits, f"{place}: ")
    captions = [[row.caption for row in rows] for rows in named]
    check_captions(config, firsts, captions, "no caption")
    files = _find(config, place, firsts)
    kept = np.array([bool(file) and all_written(texts) for file, texts in zip(files, captions, strict=True)])
    check_filled(splits, splits[kept], place, NONE)
    notes = _notes(named, files, captions, drawn=firsts[0].split is None)
    below = [str(file.relative_to(folder)) for file in clip if file.is_relative_to(folder)]
    below += [f"{config.path}/{name}" for name in (*layout.tables, *filter(None, files))]
    return without(Chosen(firsts, files, captions, splits, None, tuple(notes), below), ~kept)


def _layout(reader: CaptionReader, folder: Path) -> CaptionReader:
    """Return the reader of `captions.csv` where that is there, else the set's own."""
    config, place = reader.config, folder / reader.config.path
    if (place / "captions.csv").exists():
        return CaptionFolderReader(config)
    missing = next((name for name in reader.tables if not (place / name).exists()), None)
    if missing:
        named = f"{config.path}/{missing}" if place.is_dir() else config.path
        raise DataError(
            f"{config.title} not found under {folder} ({named} is missing). Pass --data DIR, set RECSTUDY_DATA or data.path."
        )
    return reader


def _by_image(layout: CaptionReader, place: Path) -> list[list[Row]]:
    """Return the rows of each image."""
    named: dict[str, list[Row]] = {}
    for row in layout.rows(place):
        others = named.setdefault(row.images[0], [])
        if others and not layout.several:
            raise _again(row, others[0])
        others.append(row)
    if not named:
        raise DataError(f"{place / layout.tables[0]} has no rows.")
    return list(named.values())


def _again(row: Row, first: Row) -> DataError:
    where = first.where if first.file == row.file else f"{first.file.name}, {first.where}"
    return DataError(f"{row.file}, {row.where}: names {row.images[-1]!r} again, which {where} has. Keep one of the two.")


def _drawn(layout: CaptionReader, rows: list[Row]) -> Texts:
    """Draw a split by group."""
    groups = _numbers(rows)
    if len(np.unique(groups)) < len(SPLITS):
        raise DataError(f"{rows[0].file} has fewer than 3 groups, too few to draw a split from. Add others, or give the split.")
    return draw(groups, *layout.shares)


def _numbers(rows: list[Row]) -> Labels:
    """Number the groups; an image without a group is one of its own."""
    return numbered(f"image {row.images[0]}" if row.group is None else f"group {row.group}" for row in rows)


def check_captions(config: CaptionFiles, rows: list[Row], captions: list[list[str]], what: str) -> None:
    """Refuse (DataError) the first image that lacks a caption, unless it may be left out; `what` says why it lacks one."""
    for row, texts in zip(rows, captions, strict=True):
        if not all_written(texts) and not config.allow_missing:
            raise DataError(
                f"{row.file}, {row.where}: {what}. Write one, remove the row, or go on without such images with --allow-missing."
            )


def all_written(texts: list[str]) -> bool:
    """Return whether none of an image's captions is blank."""
    return all(text and not text.isspace() for text in texts)


def _find(config: CaptionFiles, place: Path, rows: list[Row]) -> list[str]:
    """Return the file of each image, below `place`; blank where it is missing, which is refused unless it is allowed."""
    found = _files(place)
    files = [next((found[image] for image in row.images if image in found), "") for row in rows]
    first: dict[str, Row] = {}
    for row, file in zip(rows, files, strict=True):
        if file and first.setdefault(file, row) is not row:  # once with its ending, once without
            raise _again(row, first[file])
    missing = [row for row, file in zip(rows, files, strict=True) if not file]
    if missing and not config.allow_missing:
        row = missing[0]
        of = f"{len(missing):,} of {len(rows):,} images"
        are, them = ("is missing:", "it") if len(missing) == 1 else ("are missing, the first is", "them")
        raise DataError(
            f"{place}: {of} {are} {row.images[0]} ({row.file.name}, {row.where}). "
            f"Put {them} there, or go on without {them} with --allow-missing."
        )
    return files


def _files(place: Path) -> dict[str, str]:
    """Return every file below `place`, by its path and by its path without the ending; folders may be links."""
    found: dict[str, str] = {}
    inside: dict[str, set[str]] = {}  # of a folder: where it and those that it lies in really are
    for folder, folders, names in os.walk(place, followlinks=True):
        around, real = inside.get(os.path.dirname(folder), set()), os.path.realpath(folder)  # noqa: PTH120
        if real in around:  # a link back: it has no end
            folders.clear()
            continue
        inside[folder] = around | {real}
        below = Path(folder).relative_to(place).as_posix()
        paths = sorted(names) if below == "." else [f"{below}/{name}" for name in sorted(names)]
        for path in paths:
            found[path] = path
            found.setdefault(os.path.splitext(path)[0], path)  # noqa: PTH122
    return found


def without(chosen: Chosen, out: Mask) -> Chosen:
    """Return the others, with those of the test split last."""
    last = chosen.splits == "test"
    order = [*np.flatnonzero(~out & ~last).tolist(), *np.flatnonzero(~out & last).tolist()]
    rows = [chosen.rows[at] for at in order]
    return Chosen(
        rows=rows,
        files=[chosen.files[at] for at in order],
        captions=[chosen.captions[at] for at in order],
        splits=chosen.splits[order],
        groups=None if all(row.group is None for row in rows) else _numbers(rows),
        notes=chosen.notes,
        sources=chosen.sources,
    )


def _notes(named: list[list[Row]], files: list[str], captions: list[list[str]], drawn: bool) -> Iterator[str]:
    if missing := sum(not file for file in files):
        yield f"{images_are(missing)} named in a table and missing: left out"
    if empty := sum(not all_written(texts) for texts in captions):
        yield f"{images_are(empty)} without a caption: left out"
    if several := sum(len(rows) > 1 for rows in named):
        yield f"{several:,} of {len(named):,} images have several captions: the first is trained on, all are references"
    if drawn:
        yield "no splits are given: drawn by group"
