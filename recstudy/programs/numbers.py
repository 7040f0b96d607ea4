"""Numbers as people and programs write them: 84.7 %, 84,7, 1,234,567, 1.234,5 and 12 345.

A column of a table has one notation. A column that no notation, or more than one, can read is refused with
two of its cells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product

SPACES = " '\u00a0\u2009\u2019\u202f"  # of France, Switzerland and the SI
MINUS = "\N{MINUS SIGN}"  # of papers


@dataclass(frozen=True)
class Notation:
    """A notation with groups of three digits.

    Args:
        separators: The characters that may stand between groups.
        decimal: The decimal mark.
    """

    separators: str
    decimal: str

    def read(self, cell: str) -> float | None:
        """Return the number in a cell; None if it has another notation."""
        cell = cell.replace(MINUS, "-")
        groups = rf"\d+|[1-9]\d{{0,2}}(?:[{self.separators}]\d{{3}})+"
        if not re.fullmatch(rf"[+-]?(?:{groups})(?:{re.escape(self.decimal)}\d*)?", cell):
            # 1e-05, inf and nan have neither groups nor a decimal mark
            return None if re.search(r"\d[., ]\d", cell) else plain_number(cell)
        return float(re.sub(rf"[{self.separators}]", "", cell).replace(self.decimal, "."))

    def read_all(self, texts: Mapping[str, str]) -> dict[str, float]:
        """Return cell -> its number, for each cell whose text has this notation."""
        readings = {cell: self.read(text) for cell, text in texts.items()}
        return {cell: number for cell, number in readings.items() if number is not None}


NOTATIONS = [Notation(",", "."), Notation(".", ","), Notation(SPACES, "."), Notation(SPACES, ",")]


@dataclass(frozen=True)
class Numbers:
    """The numbers of a column.

    Args:
        readings: Cell -> its number. Cells that are no number are missing.
        unit: `%` if all cells have a percent sign.
        decimal: The decimal mark; empty if no cell has one.
        problem: Why the column has no single notation, with two cells; empty if it has one.
        wrong: The cell to which the problem refers.
    """

    readings: dict[str, float]
    unit: str = ""
    decimal: str = ""
    problem: str = ""
    wrong: str = ""


def plain_number(cell: str) -> float | None:
    """Return a number as Python writes it, which may be infinite or NaN; None for other texts."""
    try:
        return None if "_" in cell else float(cell.replace(MINUS, "-"))
    except ValueError:
        return None


def read_numbers(cells: Sequence[str], decimal: str = "") -> Numbers:
    """Read the cells of a column.

    Args:
        cells: The cells that are not empty.
        decimal: The decimal mark of other columns of the file. It decides between two readings.
    """
    texts = {cell: cell.removesuffix("%").rstrip() for cell in dict.fromkeys(cells)}
    plain_numbers = {cell: number for cell in texts if (number := plain_number(cell)) is not None}
    has_point = any("." in cell for cell in plain_numbers)
    if len(plain_numbers) == len(texts) and not (decimal == "," and has_point):
        return Numbers(plain_numbers, decimal="." * has_point)
    by_notation = {notation: notation.read_all(texts) for notation in NOTATIONS}
    if {*chain(*by_notation.values())} != texts.keys():
        return Numbers(plain_numbers)  # some cells are texts
    signs = {cell.endswith("%"): cell for cell in texts}
    if len(signs) > 1:
        problem = f"{signs[True]!r} has a percent sign and {signs[False]!r} has none"
        return Numbers(plain_numbers, problem=problem, wrong=signs[True])
    complete = [notation for notation in NOTATIONS if len(by_notation[notation]) == len(texts)]
    complete = [notation for notation in complete if notation.decimal == decimal] or complete
    if not complete:
        readings = max(by_notation.values(), key=len)
        other_cell = next(cell for cell in texts if cell not in readings)
        problem = f"{next(iter(readings))!r} and {other_cell!r} have different notations"
        return Numbers(plain_numbers, problem=problem, wrong=other_cell)
    notation, *other_notations = complete
    readings = by_notation[notation]
    for cell, other_notation in product(texts, other_notations):
        number, other_number = readings[cell], by_notation[other_notation][cell]
        if str(number) != str(other_number):
            problem = f"{cell!r} can be {number:.12g} or {other_number:.12g}"
            return Numbers(plain_numbers, problem=problem, wrong=cell)
    has_mark = any(notation.decimal in cell for cell in texts)
    return Numbers(readings, "%" if True in signs else "", notation.decimal if has_mark else "")
