"""Read the rows of a CSV file with the lines where they begin, so that errors can name the line."""

import csv
import re
from collections.abc import Iterator
from typing import TextIO


class CsvError(ValueError):
    """A row that is not CSV, such as one with an open quote.

    Attributes:
        line: The line where the row begins, from 1.
    """

    def __init__(self, line: int, reason: object) -> None:
        super().__init__(str(reason))
        self.line = line


def csv_rows(text: TextIO, delimiters: str = ",;\t") -> Iterator[tuple[int, list[str]]]:
    """Yield the line where each row begins and the cells of the row. Empty rows are left out.

    Args:
        text: The text of the file, opened with `newline=""`. Excel may write `sep=;` into its first line.
        delimiters: The possible separators of cells. The most frequent one in the first line counts.

    Raises:
        CsvError: A row is not CSV.
    """
    first, line = next(filter(str.strip, text), ""), 1
    text.seek(0)
    separator = re.fullmatch(r'"?sep=(.)"?\s*', first, re.IGNORECASE)
    delimiter = separator[1] if separator else max(delimiters, key=first.count)
    rows = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        for cells in rows:
            if any(map(str.strip, cells)) and not (separator and rows.line_num == 1):
                yield line, cells
            line = rows.line_num + 1
    except csv.Error as error:
        raise CsvError(line, error) from None
