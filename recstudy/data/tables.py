"""Tables and other text files of a data set, read so that every error names its file and line. This loads no numpy."""

import csv
import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from recstudy.errors import DataError, choices, nearest

SPLITS = ("train", "val", "test")


class Rows:
    """The cells of a CSV file by column name; every error says where."""

    def __init__(self, file: Path) -> None:
        self.file = file
        lines = csv.reader(StringIO(utf8(file), newline=""), strict=True)
        try:
            self.header = next(lines, [])
            self.rows = [(lines.line_num, row) for row in lines if row]
        except csv.Error as error:
            raise DataError(f"{file} cannot be read as CSV ({error}). Write it as comma-separated UTF-8 text.") from None
        if not self.rows:
            raise DataError(f"{file} has no rows.")

    def column(self, name: str) -> Iterator[tuple[int, str]]:
        """Yield line number and cell of each row."""
        if name not in self.header:
            known = choices(self.header)[:300]
            raise DataError(f"{self.file} has no column {name!r}: there are {known}.{nearest(name, self.header)}")
        place = self.header.index(name)
        for line, row in self.rows:
            if place >= len(row):
                raise DataError(f"{self.file}, line {line}: {len(row)} cells, but the header names {len(self.header)} columns.")
            yield line, row[place].strip()

    def keys(self, name: str) -> Iterator[tuple[int, str]]:
        """Yield as `column` does, and refuse blanks."""
        for line, cell in self.column(name):
            if not cell:
                raise self.error(line, name, "must not be blank")
            yield line, cell

    def splits(self) -> list[str] | None:
        """Return the split of each row; None where the column is missing or blank throughout."""
        cells = list(self.column("split")) if "split" in self.header else []
        if not any(cell for _, cell in cells):
            return None
        for line, cell in cells:
            if cell not in SPLITS:
                raise self.error(line, "split", f"must be {', '.join(SPLITS)} or blank in all rows, but got {cell!r}")
        return [cell for _, cell in cells]

    def error(self, line: int, column: str, what: str, hint: str = "") -> DataError:
        return DataError(f"{self.file}, line {line}, column {column!r} {what}.{hint}")


def utf8(file: Path) -> str:
    """Return the text of `file`; a DataError names the byte and line that are no UTF-8."""
    try:
        data = file.read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise DataError(f"{file}, line {line}: the byte 0x{byte:02X} is not UTF-8. Save the file with that encoding.") from None


def json_object(file: Path, text: str, line: int = 1) -> list[tuple[str, Any]]:
    """Return keys and values of an object, with the keys that are there twice; an object within it comes likewise."""
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except json.JSONDecodeError as error:
        raise DataError(f"{file}, line {line + error.lineno - 1}: this is not JSON ({error.msg}).") from None
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise DataError(f"{file}, line {line}: must be a JSON object ({{...}}).")
    return pairs


def as_text(file: Path, where: str, caption: Any) -> str:
    """Return a caption, where null is one that is missing."""
    if caption is not None and not isinstance(caption, str):
        raise DataError(f"{file}, {where}: a caption must be a text, but got {str(caption)[:40]!r}.")
    return caption or ""
