"""A printed file as places with what stands there, so that two prints of the same records compare place by place.

    report.html, figures/*.html    the words of each element, by section, table, row and column; tooltips; numbers behind figures
    *.csv                          a place a row and column
    *.md, *.tex                    a place a cell of a table, and a place a line of other text

Numbers that are printed to be read must agree to the letter; those in full precision (CSV, figures) to `CLOSE`, because another
processor adds up in another order.
"""

import base64
import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, NamedTuple

import numpy as np

CLOSE = 1e-9  # as a share, and of 0 absolutely
MARKUP = "markup"  # the place of all that is not read: elements, styles, programs
TYPED = (" tooltip", " figure")  # end the places in which numbers have full precision
DTYPES = ("f8", "f4", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")  # of arrays in a figure


CELL = re.compile(r"\brow '.*', |, column |^line \d+, ")


class Difference(NamedTuple):
    """A place of a printed file whose content is not what the records give; empty where there is none."""

    file: str
    place: str
    printed: str
    found: str

    @property
    def cell(self) -> bool:
        """Whether it is in a row and column of a table, and not in the words around it."""
        return bool(CELL.search(self.place)) and not self.place.endswith(TYPED)

    def __str__(self) -> str:
        both = f"is {_short(self.printed)}, but the records give {_short(self.found)}"
        if not self.found:
            both = f"is {_short(self.printed)}, which the records do not give"
        elif not self.printed:
            both = f"lacks {_short(self.found)}, which the records give"
        return f"{self.file}{f', {self.place}' if self.place else ''}: {both}"


def compare(file: str, printed: bytes, again: bytes) -> tuple[list[Difference], list[Difference]]:
    """Compare a printed file with the same one printed again.

    Returns:
        The places in which they differ, and those that only one of them has.
    """
    if printed == again:
        return [], []
    if (read := _reader(file)) is None:
        return [Difference(file, "", f"of {len(printed):,} bytes", f"{len(again):,} others")], []
    ours, theirs = read(printed.decode(errors="replace")), read(again.decode(errors="replace"))
    full = file.endswith(".csv")
    differ = [
        Difference(file, place, *_apart(text, theirs[place]))
        for place, text in ours.items()
        if place in theirs and not same(text, theirs[place], full or place.endswith(TYPED))
    ]
    alone = [Difference(file, place, text, "") for place, text in ours.items() if place not in theirs]
    return differ, alone + [Difference(file, place, "", text) for place, text in theirs.items() if place not in ours]


def same(one: str, other: str, full: bool) -> bool:
    """Return whether two texts say the same; in `full` precision their numbers may differ in the last digits."""
    if one == other or not full:
        return one == other
    try:
        return close(json.loads(one), json.loads(other))
    except ValueError:
        ours, theirs = _NUMBER.split(one), _NUMBER.split(other)
        return len(ours) == len(theirs) and all(map(_alike, ours, theirs))


def close(one: Any, other: Any) -> bool:
    """Return whether two JSON values are alike but for the last digits of numbers, at any depth."""
    if isinstance(one, dict) and isinstance(other, dict):
        if {"dtype", "bdata"} <= one.keys() & other.keys():
            return one == other or _arrays_close(one, other)
        return one.keys() == other.keys() and all(close(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, bool) or isinstance(other, bool) or not (isinstance(one, int | float) and isinstance(other, int | float)):
        return type(one) is type(other) and bool(one == other)
    return math.isclose(one, other, rel_tol=CLOSE, abs_tol=CLOSE)


def _arrays_close(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if one.get("dtype") != other.get("dtype") or one.get("shape") != other.get("shape") or one["dtype"] not in DTYPES:
        return False
    ours, theirs = (np.frombuffer(base64.b64decode(its["bdata"]), its["dtype"]) for its in (one, other))
    return ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=CLOSE, atol=CLOSE, equal_nan=True)


_NUMBER = re.compile(r"([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")


def _alike(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return math.isclose(float(one), float(other), rel_tol=CLOSE, abs_tol=CLOSE)
    except ValueError:
        return False


def _apart(one: str, other: str) -> tuple[str, str]:
    """Return what differs of two texts: the whole of short ones, of long ones from a few words before the first difference on."""
    if max(len(one), len(other)) <= 200:
        return one, other
    at = next(
        (at for at, (mine, theirs) in enumerate(zip(one, other, strict=False)) if mine != theirs), min(len(one), len(other))
    )
    start = max(0, at - 40)
    return one[start : at + 60], other[start : at + 60]


def _short(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 120 else text[:119] + "\N{HORIZONTAL ELLIPSIS}")


# -------------------------------------------------------------------------------------------------- places of each format

Places = dict[str, str]


def _reader(file: str) -> Callable[[str], Places] | None:
    readers = {"csv": _of_csv, "html": _of_html, "md": _of_markdown, "tex": _of_latex}
    return readers.get(file.rpartition(".")[2])


def _put(places: Places, place: str, text: str) -> None:
    """Add what stands in a place; a second one of the same name is numbered."""
    own, count = place, 1
    while own in places:
        count += 1
        own = f"{place} ({count})" if not place.endswith(TYPED) else place.replace(" ", f" {count} ", 1)
    places[own] = text


def _of_csv(text: str) -> Places:
    lines = list(csv.reader(io.StringIO(text)))
    places: Places = {}
    if not lines:
        return places
    heads = lines[0]
    counts: dict[str, int] = {}
    for line in lines[1:]:
        # A row of a table is told by its labels, one of a figure by its place: it may begin with numbers.
        label = ", ".join(line[: heads.index("metric")]) if "metric" in heads and heads[:2] == ["row", "column"] else ""
        counts[label] = counts.get(label, 0) + 1
        row = f"row {label!r}" + (f" ({counts[label]})" if counts[label] > 1 else "") if label else f"line {counts[label] + 1}"
        for head, value in zip(heads, line, strict=False):
            _put(places, f"{row}, {head}", value)
        if len(line) != len(heads):
            _put(places, row, ",".join(line))
    _put(places, "heads", ",".join(heads))
    return places


def _of_markdown(text: str) -> Places:
    return _rows(text, lambda line: line.strip("|").split(" | ") if line.startswith("|") else None, "### ")


def _of_latex(text: str) -> Places:
    return _rows(text, lambda line: re.split(r" & |\\\\", line) if " & " in line else None, r"\caption")


def _rows(text: str, cells: Callable[[str], list[str] | None], title: str) -> Places:
    """Read lines that are rows of tables, the first of which has the heads, and others."""
    places: Places = {}
    heads: list[str] = []
    table = ""
    for line in text.splitlines():
        if line.startswith(title):
            table = line.removeprefix(title).strip()
        row = cells(line)
        if row is None:
            heads = []
            if line.strip():
                _put(places, f"the line {line.strip()[:30]!r}", line)
            continue
        row = [one.strip() for one in row]
        if not heads:
            heads = row
            _put(places, f"{table}, heads", line)
            continue
        for at, entry in enumerate(row[1:], 1):
            _put(places, f"{table}, row {row[0]!r}, column {heads[at] if at < len(heads) else at!r}", entry)
        _put(places, f"{table}, row {row[0]!r}", row[0])
    return places


@dataclass
class _Page(HTMLParser):
    """Gathers what a page says, by where it says it."""

    places: Places = field(default_factory=dict)
    markup: Any = field(default_factory=hashlib.sha256)
    section: str = ""
    table: str = ""
    heads: list[str] = field(default_factory=list)
    row: str = ""
    column: int = -1
    inside: list[str] = field(default_factory=list)  # elements whose words are one text
    said: list[str] = field(default_factory=list)
    script: dict[str, str | None] | None = None

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def place(self) -> str:
        if not self.row and not self.table:
            return self.section or "head"
        head = self.heads[self.column] if 0 <= self.column < len(self.heads) else str(self.column)
        return f"{self.table}, row {self.row!r}, column {head!r}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        told = [name for name in ("title", "aria-label") if known.get(name)]
        self.markup.update(repr((tag, [(name, value) for name, value in attrs if name not in told])).encode())
        self._flush()
        if tag == "script":
            self.script = known
        elif tag == "table":
            self.table, self.heads, self.row = self.table or "table", [], ""
        elif tag == "tr":
            self.column = -1
            self.row = ""
        elif tag in ("td", "th"):
            self.column += 1
        if tag == "div" and known.get("role") == "region":
            self.table = known.get("aria-label") or ""
        for name in told:
            _put(self.places, f"{self.place()} tooltip", known[name] or "")
        self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.markup.update(f"/{tag}".encode())
        text = self._flush(tag)
        if tag == "script":
            self.script = None
        elif tag == "h2":
            self.section = text
        elif tag == "table":
            self.table, self.row, self.column = "", "", -1
        while self.inside and self.inside.pop() != tag:
            pass

    def _flush(self, tag: str = "") -> str:
        """Put the words so far in their place; return them."""
        text = " ".join("".join(self.said).split())
        self.said.clear()
        if not text:
            return ""
        if self.script is not None:
            kind = self.script.get("type") or ""
            if kind == "application/json":
                _put(self.places, f"{self.section or 'head'} figure", text)
            else:
                self.markup.update(text.encode())
            return text
        if tag == "th" and self.column == 0:
            self.row = text
        if tag == "th" and "thead" in self.inside:
            self.heads.append(text)
            self.row = ""
        if tag != "style" and "style" not in self.inside:
            _put(self.places, self.place(), text)
        else:
            self.markup.update(text.encode())
        return text

    def handle_data(self, data: str) -> None:
        self.said.append(data)

    def handle_comment(self, data: str) -> None:
        self.markup.update(data.encode())


def _of_html(text: str) -> Places:
    page = _Page()
    page.feed(text)
    page.close()
    page._flush()
    return page.places | {MARKUP: page.markup.hexdigest()}
