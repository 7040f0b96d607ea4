"""Splits of a data set, and text files with errors that name file and line. Readers and `cache.load` call it.

A split is given by a table, stratified by class, or random by patient. Images of one patient look alike, so a
split that divides a patient overestimates the model. If images have patients, every split has whole patients.
Rows are positions in one official split.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice
from pathlib import Path
from typing import Any

from recstudy.base.csv_rows import CsvError
from recstudy.base.csv_rows import csv_rows as numbered_rows
from recstudy.base.errors import DataError, choices, nearest
from recstudy.base.files import refuse_stand_in
from recstudy.recursive.config.parts import DataConfig
from recstudy.recursive.config.reader import Array, Labels, Mask, Tokens, counts_within, np

SPLITS = ("train", "val", "test")


class Rows:
    """The cells of a CSV file by column name. Errors name file, line and column."""

    def __init__(self, file: Path) -> None:
        self.file = file
        lines = csv_rows(file)
        self.header = [name.strip() for name in next(lines)[1]]
        self.rows = list(lines)
        if not self.rows:
            raise DataError(f"{file} has no rows.")

    def column(self, name: str, *, is_key: bool = False) -> Iterator[tuple[int, str]]:
        """Yield line number and cell of each row, from the column `name`. A blank key is an error."""
        place = find_column(self.file, self.header, name)
        for line, row in self.rows:
            if place >= len(row):
                raise DataError(f"{self.file}, line {line} has only {len(row)} of {len(self.header)} cells.")
            if any(map(str.strip, row[len(self.header) :])):
                raise DataError(
                    f"{self.file}, line {line} has {len(row)} cells, but the header has {len(self.header)}."
                    " Quote a cell that contains the separator."
                )
            cell = row[place].strip()
            if is_key and not cell:
                raise self.error(line, name, "must not be blank")
            yield line, cell

    def has(self, name: str) -> bool:
        """Return whether an optional column exists.

        Raises:
            DataError: If a column's name differs from `name` only in case, spaces or `_`.
        """
        for title in () if name in self.header else self.header:
            if letters(title) == letters(name):
                raise DataError(
                    f"{self.file} has a column {title!r}. Did you mean {name!r}? Rename or remove it."
                )
        return name in self.header

    def pairs(self, key: str, text: str) -> Iterator[tuple[str, str, str]]:
        """Yield position, cell of the column `key`, and cell of the column `text` of each row.

        A blank cell of the column `key` is an error.
        """
        for (line, name), (_, cell) in zip(self.column(key, is_key=True), self.column(text), strict=True):
            yield f"line {line}", name, cell

    def splits(self) -> list[str] | None:
        """Return the split of each row, or None if the column `split` is missing or empty."""
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
        """Return the error for a cell."""
        return DataError(f"{self.file}, line {line}, column {column!r} {problem}.{hint}")


def letters(name: str) -> str:
    """Return the letters and digits of a name in lower case."""
    return "".join(filter(str.isalnum, name)).lower()


def csv_rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each row of a CSV file, header first. Blank rows are skipped.

    The separator is a comma, semicolon, tab or bar, whichever is most frequent in the first line, or the
    character of a first line such as `sep=;`, which Excel writes.

    Raises:
        DataError: If the file cannot be read, is not UTF-8, or has an unclosed quotation mark.
    """
    # A generator, because Sudoku-Extreme has 3.8 million rows.
    refuse_stand_in(file)
    try:
        with open(file, newline="", encoding="utf-8-sig") as text:
            rows = numbered_rows(text, ",;\t|")
            header = next(rows, None)
            if header is None:
                raise DataError(f"{file} is empty.")
            yield header
            yield from rows
    except (OSError, UnicodeDecodeError):
        utf8(file)  # raises an error that names the problem
        raise
    except CsvError as error:
        fix = "Close a quotation mark that opens a cell, and double quotation marks within the cell."
        raise DataError(f"{file}, line {error.line}: {error}. {fix}") from None


def line_of(file: Path, row: int) -> int:
    """Return the line where a row of a CSV file begins. Row 0 follows the header."""
    return next(islice(csv_rows(file), row + 1, None))[0]


def find_column(file: Path, header: Sequence[str], name: str, aliases: Sequence[str] = ()) -> int:
    """Return the position of the column called `name` or one of its aliases.

    Raises:
        DataError: If there is no such column, or several.
    """
    positions = [position for position, title in enumerate(header) if title in (name, *aliases)]
    if len(positions) > 1:
        raise DataError(f"{file} has several columns {name!r}: {choices(header)[:300]}. Remove all but one.")
    if not positions:
        other_names = f" (or {choices(aliases)})" if aliases else ""
        raise DataError(
            f"{file} has no column {name!r}{other_names}. Its columns are"
            f" {choices(header)[:300]}.{nearest(name, header)}"
        )
    return positions[0]


def utf8(file: Path) -> str:
    """Read a text file.

    Raises:
        DataError: If the file cannot be read or is not UTF-8. The message names the byte and its line.
    """
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
    """Parse a JSON object into a list of keys and values, which keeps repeated keys. Nested objects too.

    Raises:
        DataError: If `text`, which begins at `line` of `file`, is not a JSON object.
    """
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except json.JSONDecodeError as error:
        raise DataError(f"{file}, line {line + error.lineno - 1} is not valid JSON ({error.msg}).") from None
    if not is_object(pairs):
        raise DataError(f"{file}, line {line} must be a JSON object ({{...}}).")
    return list(pairs)


def is_object(value: Any) -> bool:
    """Return whether a value within the result of `json_object` was a JSON object."""
    return isinstance(value, list) and all(isinstance(pair, tuple) for pair in value)


def caption_text(file: Path, position: str, caption: Any) -> str:
    """Return a caption from a JSON value; null means a missing caption, "".

    Raises:
        DataError: If the value is neither a text nor null.
    """
    if caption is not None and not isinstance(caption, str):
        raise DataError(f"{file}, {position}: a caption must be a text, but is {str(caption)[:40]!r}.")
    return caption or ""


def surrogate_half(text: str) -> str:
    r"""Return the problem if a text has half of a surrogate pair, such as `\ud83d`; "" if it has none.

    JSON can have such a half, but UTF-8 cannot.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"{text[error.start]!a}"
        return f"{half} is half of a surrogate pair, not a character. Replace or remove it"
    return ""


def split_validation(
    labels: Labels | Tokens,
    groups: Labels | None,
    held_mask: Mask | None,
    config: DataConfig,
    hold_out: bool = True,
) -> tuple[Labels, Labels]:
    """Split the official training split into validation and training rows.

    Args:
        labels: (N,), (N, K) or (N, T) labels of the official training split.
        groups: (N,) patient of each image; None without patients.
        held_mask: (N,) the set's own validation split; None without one.
        config: Its `limit`, `validation` and `split_seed` decide.
        hold_out: If false, no row is held out for validation, not even the set's own validation split.

    Returns:
        The validation rows and the training rows, each in file order.

    Raises:
        DataError: If all images are of one patient.
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
            f"{config.title} has training images of only one patient, so none can be held out for validation."
        )
    validation, train = np.flatnonzero(is_out), np.flatnonzero(~is_out)
    if count == total:
        return validation, train
    return limit_rows(validation, groups, validation_count, seed), limit_rows(
        train, groups, count - validation_count, seed
    )


def limit_split(labels: Labels | Tokens, groups: Labels | None, config: DataConfig) -> Labels:
    """Return the rows of the test split in file order: all, or `config.limit` of them."""
    rows, max_rows, seed = np.arange(len(labels)), config.limit or len(labels), config.split_seed
    if groups is None and _are_classes(labels):
        return np.sort(stratified_order(labels, seed)[:max_rows])
    return limit_rows(rows, rows if groups is None else groups, max_rows, seed)


def _are_classes(labels: Labels | Tokens) -> bool:
    """Return whether labels are one class per image, so that a split can be stratified."""
    return labels.ndim == 1 and labels.dtype.kind in "iu"


def limit_rows(rows: Labels, groups: Labels, max_rows: int, seed: int) -> Labels:
    """Choose at most `max_rows` of the rows, by whole patients.

    If every patient has more images, the result is a part of one patient.
    """
    return rows if len(rows) <= max_rows else rows[whole_groups(groups[rows], max_rows, seed)][:max_rows]


def draw_splits(groups: Labels, validation: float, test: float) -> Array:
    """Assign whole groups at random to the splits.

    Args:
        groups: (N,) group of each image.
        validation: Approximate share of validation images; 0 for none.
        test: Approximate share of test images.

    Returns:
        (N,) `train`, `val` or `test`.
    """
    # The test split is chosen first, so that it does not depend on the share of validation images.
    splits = np.full(len(groups), "train")
    for name, share in (("test", test), ("val", validation)):
        if share:
            rest = np.flatnonzero(splits == "train")
            splits[rest[whole_groups(groups[rest], max(1, round(share * len(groups))), seed=0)]] = name
    return splits


def number_groups(names: Iterable[str]) -> Labels:
    """Number groups (N,) from 0 in order of appearance."""
    number_by_name: dict[str, int] = {}
    return np.array([number_by_name.setdefault(name, len(number_by_name)) for name in names], np.int64)


def whole_groups(groups: Labels, max_rows: int, seed: int) -> Mask:
    """Choose whole patients at random, with at most `max_rows` images together.

    Patients are visited in random order. A patient with too many images is skipped. If no patient fits, the
    one with the fewest images is chosen.

    Returns:
        (N,) true for the images of chosen patients.
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
    return is_chosen[member]


def check_whole(kind: str, names: Iterable[str | None], splits: Iterable[str], prefix: str) -> None:
    """Check that every patient or group is in one split only.

    Args:
        kind: "patient" or "group", for the message.
        names: Name of the group of each image; None for images without a group.
        splits: Split of each image.
        prefix: Beginning of the message.

    Raises:
        DataError: If a group is in several splits.
    """
    pairs = dict.fromkeys(zip(names, splits, strict=True))
    counts = Counter(name for name, _ in pairs if name is not None)
    divided = [name for name, count in counts.items() if count > 1]
    if divided:
        parts = " and ".join(split for split in SPLITS if (divided[0], split) in pairs)
        count = f"1 {kind} is" if len(divided) == 1 else f"{len(divided):,} {kind}s are"
        raise DataError(
            f"{prefix}{kind} {divided[0]} is in {parts}; {count} in more than one split. "
            f"Give all images of a {kind} the same split, or give no splits to split at random."
        )


def check_filled(named_splits: Sequence[str], kept_splits: Sequence[str], place: Path, none: str) -> None:
    """Check that train, test and every named split have images.

    Args:
        named_splits: Split of each image of the tables.
        kept_splits: Split of each usable image.
        place: Folder of the set, for the message.
        none: Why a split has no images in the tables, for the message.

    Raises:
        DataError: If a split has no images.
    """
    for split in dict.fromkeys(["train", "test", *named_splits]):
        if split not in kept_splits:
            count = named_splits.count(split)
            why = f"none of its {count:,} images can be used" if count else none
            raise DataError(
                f"{place} has no images for the split {split!r}: {why}. Add images to this split."
            )


def validation_mask(splits: Sequence[str]) -> Mask | None:
    """Return which training images are of the split `val`; None if none is. Test images come last."""
    is_validation = np.array([split == "val" for split in splits if split != "test"])
    return is_validation if is_validation.any() else None


def stratified_order(labels: Labels | Tokens, seed: int) -> Labels:
    """Return a random permutation of the rows with stratified prefixes.

    In a prefix of k of N rows, a class of n rows has k n / N rows, with a difference of less than one.
    """
    # A merge by position cannot guarantee this for unequal classes, but Tijdeman's chairman assignment does
    # (Discrete Mathematics 32, 1980). The j-th row of a class may come from step (j + 1/m) N / n on, and must
    # come by step (j + 1 - 1/m) N / n, with m = 2 (classes - 1). Among the rows that may come, the one with
    # the earliest deadline comes next.
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    rows = shuffled[np.argsort(labels[shuffled], kind="stable")]
    sizes = np.bincount(labels)
    n = np.repeat(sizes, sizes)
    j = counts_within(sizes)
    m = max(2 * int(np.count_nonzero(sizes)) - 2, 1)
    first = (-(-(j * m + 1) * len(labels) // (m * n))).tolist()
    last = (((j + 1) * m - 1) * len(labels) // (m * n)).tolist()
    arrivals = sorted(range(len(labels)), key=first.__getitem__, reverse=True)  # the next one is at the end
    waiting: list[tuple[int, int]] = []
    order = []
    for step in range(1, len(labels) + 1):
        while arrivals and first[arrivals[-1]] <= step:
            arrival = arrivals.pop()
            heappush(waiting, (last[arrival], arrival))
        order.append(heappop(waiting)[1])
    return rows[order]
