"""Which images train, which are held out and which are left out: as a table says, by class in proportion, or
by patient.

Images of one patient look alike, so a split that divides a patient flatters the model. Where images have
patients, every split takes whole ones. Rows are positions in one official split. Tables and other text files
are read so that every error names its file and line.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from recstudy.config import DataConfig
from recstudy.data.reader import Labels, Mask, Tokens, np
from recstudy.errors import DataError, choices, nearest
from recstudy.files import refuse_stand_in

if TYPE_CHECKING:
    import numpy.typing as npt

    Texts: TypeAlias = npt.NDArray[np.str_]
else:
    Texts = Any

SPLITS = ("train", "val", "test")


class Rows:
    """The cells of a CSV file by column name; every error says where."""

    def __init__(self, file: Path) -> None:
        self.file = file
        lines = csv_rows(file)
        self.header = [name.strip() for name in next(lines, (1, []))[1]]
        self.rows = list(lines)
        if not self.rows:
            raise DataError(f"{file} has no rows.")

    def column(self, name: str) -> Iterator[tuple[int, str]]:
        """Yield line number and cell of each row."""
        place = find_column(self.file, self.header, name)
        for line, row in self.rows:
            if place >= len(row):
                raise DataError(
                    f"{self.file}, line {line}: {len(row)} cells, but the header names {len(self.header)}"
                    " columns."
                )
            yield line, row[place].strip()

    def has(self, name: str) -> bool:
        """Return whether an optional column is there; refuse (DataError) one that differs only in case,
        spaces or `_`.
        """
        for title in () if name in self.header else self.header:
            if letters(title) == letters(name):
                raise DataError(
                    f"{self.file} has a column {title!r}. Did you mean {name!r}? Rename or remove it."
                )
        return name in self.header

    def keys(self, name: str) -> Iterator[tuple[int, str]]:
        """Yield as `column` does, and refuse blanks."""
        for line, cell in self.column(name):
            if not cell:
                raise self.error(line, name, "must not be blank")
            yield line, cell

    def pairs(self, key: str, text: str) -> Iterator[tuple[str, str, str]]:
        """Yield where each row is, its cell of the column `key`, which must not be blank, and that of the
        column `text`.
        """
        for (line, name), (_, cell) in zip(self.keys(key), self.column(text), strict=True):
            yield f"line {line}", name, cell

    def splits(self) -> list[str] | None:
        """Return the split of each row; None where the column is missing or blank throughout."""
        cells = list(self.column("split")) if self.has("split") else []
        if not any(cell for _, cell in cells):
            return None
        for line, cell in cells:
            if cell not in SPLITS:
                raise self.error(
                    line, "split", f"must be {', '.join(SPLITS)} or blank in all rows, but got {cell!r}"
                )
        return [cell for _, cell in cells]

    def error(self, line: int, column: str, problem: str, hint: str = "") -> DataError:
        return DataError(f"{self.file}, line {line}, column {column!r} {problem}.{hint}")


def letters(name: str) -> str:
    """Return the letters and digits of a name in lower case."""
    return "".join(filter(str.isalnum, name)).lower()


def csv_rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV file, the header first, each with the line where it begins. Blank rows are
    skipped.

    Cells are separated by commas, semicolons, tabs or bars: by those of which the first line has most, or by
    the character of a first line `sep=;`, as Excel writes it. The file is read row by row, because
    Sudoku-Extreme has 3.8 million rows.

    Raises:
        DataError: The file cannot be read, is not UTF-8, or has a quotation mark that does not close.
    """
    refuse_stand_in(file)
    line = 1
    try:
        with open(file, newline="", encoding="utf-8-sig") as text:
            header = next((content for content in text if content.strip()), "")
            if not header:
                raise DataError(f"{file} is empty.")
            separator_line = re.fullmatch(r'"?sep=(.)"?\s*', header, re.IGNORECASE)
            text.seek(0)
            reader = csv.reader(
                text,
                delimiter=separator_line[1] if separator_line else max(",;\t|", key=header.count),
                strict=True,
            )
            for cells in reader:
                is_separator = separator_line and reader.line_num == 1
                if any(map(str.strip, cells)) and not is_separator:
                    yield line, cells
                line = reader.line_num + 1
    except (OSError, UnicodeDecodeError):
        utf8(file)  # names the problem
        raise
    except csv.Error as error:
        fix = "A quotation mark that opens a cell must be closed, and be doubled within the cell."
        raise DataError(f"{file}, line {line}: {error}. {fix}") from None


def line_of(file: Path, row: int) -> int:
    """Return the line where a row of a CSV file begins; rows count from 0 behind the header."""
    return next(islice(csv_rows(file), row + 1, None))[0]


def find_column(file: Path, header: Sequence[str], name: str, aliases: Sequence[str] = ()) -> int:
    """Return the position of the one column that is called `name` or by one of its aliases."""
    positions = [position for position, title in enumerate(header) if title in (name, *aliases)]
    if len(positions) > 1:
        raise DataError(f"{file} has several columns {name!r}: {choices(header)[:300]}. Remove all but one.")
    if not positions:
        other_names = f" (or {choices(aliases)})" if aliases else ""
        raise DataError(
            f"{file} has no column {name!r}{other_names}: there are"
            f" {choices(header)[:300]}.{nearest(name, header)}"
        )
    return positions[0]


def utf8(file: Path) -> str:
    """Return the text of `file`; a DataError names the byte and line that are no UTF-8."""
    refuse_stand_in(file)
    try:
        data = file.read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
        raise DataError(
            f"{file}, line {line}: the byte 0x{byte:02X} is not UTF-8. Save the file with that encoding."
        ) from None


def json_object(file: Path, text: str, line: int = 1) -> list[tuple[str, Any]]:
    """Return keys and values of an object, with the keys that are there twice; an object within it comes
    likewise.
    """
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except json.JSONDecodeError as error:
        raise DataError(f"{file}, line {line + error.lineno - 1}: this is not JSON ({error.msg}).") from None
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise DataError(f"{file}, line {line}: must be a JSON object ({{...}}).")
    return pairs


def caption_text(file: Path, position: str, caption: Any) -> str:
    """Return a caption, where null is one that is missing."""
    if caption is not None and not isinstance(caption, str):
        raise DataError(f"{file}, {position}: a caption must be a text, but got {str(caption)[:40]!r}.")
    return caption or ""


def split_validation(
    labels: Labels | Tokens,
    groups: Labels | None,
    held_mask: Mask | None,
    config: DataConfig,
    hold_out: bool = True,
) -> tuple[Labels, Labels]:
    """Return rows of the validation and of the training split, each in file order; no validation rows without
    `hold_out`.

    Args:
        labels: (N,), (N, K) or (N, T), of the official training split.
        groups: (N,) the patient of each image, if there are patients.
        given: (N,) what the set itself holds out, if it does.
        config: its `limit`, `validation` and `split_seed`.
        hold_out: false leaves nothing out for validation, not even what is given.
    """
    total, seed = len(labels), config.split_seed
    count = min(config.limit or total, total)
    share = config.validation if held_mask is None else float(held_mask.mean())
    validation_count = min(max(1, round(share * count)), count - 1) if hold_out else 0
    if groups is None and held_mask is None and _are_classes(labels):
        order = stratified_order(labels, seed)[:count]
        return np.sort(order[:validation_count]), np.sort(order[validation_count:])
    groups = np.arange(total) if groups is None else groups
    is_out = np.zeros(total, bool)
    if validation_count:
        is_out = whole_groups(groups, validation_count, seed) if held_mask is None else held_mask
    if is_out.all():
        raise DataError(
            f"{config.title} has training images of one patient only: none can be held out for validation."
        )
    validation, train = np.flatnonzero(is_out), np.flatnonzero(~is_out)
    if count == total:
        return validation, train
    return limit_rows(validation, groups, validation_count, seed), limit_rows(
        train, groups, count - validation_count, seed
    )


def limit_split(labels: Labels | Tokens, groups: Labels | None, config: DataConfig) -> Labels:
    """Return rows of the test split, in file order: all, or `config.limit` of them."""
    rows, max_rows, seed = np.arange(len(labels)), config.limit or len(labels), config.split_seed
    if groups is None and _are_classes(labels):
        return np.sort(stratified_order(labels, seed)[:max_rows])
    return limit_rows(rows, rows if groups is None else groups, max_rows, seed)


def _are_classes(labels: Labels | Tokens) -> bool:
    """Return whether each image has one whole number, in whose proportions a split can be."""
    return labels.ndim == 1 and labels.dtype.kind in "iu"


def limit_rows(rows: Labels, groups: Labels, max_rows: int, seed: int) -> Labels:
    """Return `rows`, or those of whole patients that are no more than `most`; a part of one patient where
    none has so few.
    """
    return rows if len(rows) <= max_rows else rows[whole_groups(groups[rows], max_rows, seed)][:max_rows]


def draw_splits(groups: Labels, validation: float, test: float, seed: int = 0) -> Texts:
    """Draw `train`, `val` or `test` for each image (N,): whole groups, and the two shares of the images or
    nearly.

    The test images are drawn first, so that they do not depend on the other share.
    """
    splits = np.full(len(groups), "train")
    for name, share in (("test", test), ("val", validation)):
        rest = np.flatnonzero(splits == "train")
        splits[rest[whole_groups(groups[rest], max(1, round(share * len(groups))), seed)]] = name
    return splits


def number_groups(names: Iterable[str]) -> Labels:
    """Number groups (N,) in the order in which they come."""
    number_by_name: dict[str, int] = {}
    return np.array([number_by_name.setdefault(name, len(number_by_name)) for name in names], np.int64)


def whole_groups(groups: Labels, max_rows: int, seed: int) -> Mask:
    """Draw the images (N,) of whole patients, one by one, who are taken while there is room for all of their
    images.

    A patient who does not fit is passed over. Where nobody fits, the one with the fewest images is taken
    nevertheless.
    """
    _, member, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(sizes))
    is_chosen = np.zeros(len(sizes), bool)
    room = max_rows
    for group, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        if size <= room:
            is_chosen[group] = True
            room -= size
    if not is_chosen.any():
        is_chosen[order[sizes[order].argmin()]] = True
    return np.asarray(is_chosen[member])


def check_whole(kind: str, names: Iterable[str | None], splits: Iterable[str], prefix: str) -> None:
    """Refuse (DataError) a patient or group, which `kind` says, whose images (N,) are in more than one
    split.
    """
    splits_by_name: dict[str, set[str]] = {}
    for name, split in zip(names, splits, strict=True):
        if name is not None:
            splits_by_name.setdefault(name, set()).add(split)
    divided = [name for name, parts in splits_by_name.items() if len(parts) > 1]
    if divided:
        parts = " and ".join(split for split in SPLITS if split in splits_by_name[divided[0]])
        count = f"1 {kind} is" if len(divided) == 1 else f"{len(divided):,} {kind}s are"
        raise DataError(
            f"{prefix}{kind} {divided[0]} is in {parts}; {count} in more than one split. "
            f"Give all images of a {kind} the same split, or give no splits to have them drawn."
        )


def check_filled(named_splits: Sequence[str], kept_splits: Sequence[str], place: Path, none: str) -> None:
    """Refuse (DataError) a split without images: of those that are named, and always of train and test."""
    for split in dict.fromkeys(["train", "test", *named_splits]):
        if split not in kept_splits:
            count = named_splits.count(split)
            why = f"none of its {count:,} images can be used" if count else none
            raise DataError(f"{place} has no images for the split {split!r}: {why}. Give it some.")


def stratified_order(labels: Labels | Tokens, seed: int) -> Labels:
    """Return a seeded permutation of the rows, any prefix of which holds the classes in proportion.

    In a prefix of k of N rows, a class of n rows has k n / N of them, give or take less than one. A merge by
    position cannot promise that for unequal classes; Tijdeman's chairman assignment does (Discrete
    Mathematics 32, 1980): the j-th row of a class may come from step (j + 1/m) N / n on and has to by step (j
    + 1 - 1/m) N / n, m = 2 (classes - 1); of those that may come, the most urgent does.
    """
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    rows = shuffled[np.argsort(labels[shuffled], kind="stable")]
    sizes = np.bincount(labels)
    n = np.repeat(sizes, sizes)
    j = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    m = max(2 * int(np.count_nonzero(sizes)) - 2, 1)
    first = -(-(j * m + 1) * len(labels) // (m * n))
    last = ((j + 1) * m - 1) * len(labels) // (m * n)
    arrivals = np.argsort(first, kind="stable")
    entries = zip(first[arrivals].tolist(), last[arrivals].tolist(), arrivals.tolist(), strict=True)
    entry = next(entries, None)
    waiting: list[tuple[int, int]] = []
    order = []
    for step in range(1, len(labels) + 1):
        while entry and entry[0] <= step:
            heappush(waiting, entry[1:])
            entry = next(entries, None)
        order.append(heappop(waiting)[1])
    return rows[order]
