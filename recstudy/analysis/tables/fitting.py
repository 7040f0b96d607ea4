"""Fits a table of words into a column or a page of a paper: its letters, its columns' widths, and the parts that it is cut into.

It stands in a column of the paper, or across its text where it needs that, or in numbered parts where that is too narrow, too;
its letters are of 9 or 8 points. Columns of words are broken into lines where they are given less than they ask for.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from recstudy.analysis.caveats import on_paper
from recstudy.analysis.tables.markup import PUBLISHED, Entry, Printed
from recstudy.analysis.tables.widths import OPTICAL, Room, em, pieces, shared, split, words_room
from recstudy.report.names import DASH
from recstudy.report.venues import POINTS, Paper

NUMBER = re.compile(r"([+-]?)(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?(?!\w|\.\w|,\d)")
SIZES, NOTES = (9, 8), 8  # points: letters of a table, and of its notes
GAPS = {9: 4.0, 8: 3.0}  # points at each side of a column, by these letters
NARROW = 5.0  # em: a head may be so wide whatever stands below it
LONG = 15.0  # em: words in a column of numbers, before they are broken
SHARE = 0.8  # of a page's height, that a table and its notes take at most


@dataclass(frozen=True)
class Column:
    """How one column is set: `whole` and `decimals` digits at most, with a sign or not; words stand from this `side`.

    `width`: of lines that its words are broken into, in points.
    """

    room: Room
    whole: int = 0
    decimals: int = 0
    sign: str = ""
    after: bool = False
    side: str = "r"
    width: float = 0.0

    @property
    def span(self) -> int:
        return 2 if self.after else 1


@dataclass(frozen=True)
class Part:
    """One float: the table's columns and lines that stand in it, in letters of this size, across the text or not."""

    columns: Sequence[tuple[int, Column]]
    lines: Sequence[Sequence[Entry]]
    size: int
    wide: bool
    width: float


def named(head: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(head.lower(), pattern.lower()) for pattern in patterns)


def without_columns(page: Printed, patterns: Sequence[str]) -> Printed:
    """The page without the columns that these name, each with the published one beside it, and without those that are empty."""
    gone: set[int] = set()
    for at, head in enumerate(page.heads):
        empty = not any(line[at].text.strip(DASH) for line in page.lines if len(line) > 1)
        if (at and (named(head, patterns) or empty)) or (head == PUBLISHED and at - 1 in gone):
            gone.add(at)
    kept = [at for at in range(len(page.heads)) if at not in gone]
    return replace(
        page,
        heads=[page.heads[at] for at in kept],
        lines=[line if len(line) == 1 else [line[at] for at in kept] for line in page.lines],
        prose=frozenset(place for place, at in enumerate(kept) if at in page.prose),
        settings=sum(1 <= at <= page.settings for at in kept),
    )


def parts_of(page: Printed, paper: Paper) -> Iterator[Part]:
    """The table in a column, across the text, or in parts."""
    columns = [_column(page, at) for at in range(len(page.heads))]
    places = [(False, paper.column)] + [(True, paper.text)] * (paper.columns > 1)
    for wide, inches in places:
        for size in SIZES:
            fitting = _fitted(columns, range(len(columns)), size, inches)
            if fitting and (wide or paper.columns == 1 or _notes_height(page, inches) < SHARE * paper.height / 2):
                yield from _in_heights(page, fitting, size, wide, inches, paper.height)
                return
    wide, inches = places[-1]
    size = SIZES[-1]
    for group in split([column.room for column in columns], _ems(inches, size), 2 * GAPS[size] / _point(size)):
        fitting = _fitted(columns, [0, *group], size, inches) or _forced(columns, [0, *group], size, inches)
        yield from _in_heights(page, fitting, size, wide, inches, paper.height)


def _point(size: int) -> float:
    """Points of an em."""
    return size * OPTICAL[size] * 1.01


def _ems(inches: float, size: int) -> float:
    return inches * POINTS / _point(size)


Fitting = list[tuple[int, Column]]


def _fitted(columns: Sequence[Column], chosen: Sequence[int], size: int, inches: float) -> Fitting | None:
    """These columns side by side in so much room; None where they have none."""
    width = _ems(inches, size) - 2 * GAPS[size] * (len(chosen) - 1) / _point(size)
    widths = shared([columns[at].room for at in chosen], width)
    return None if widths is None else [(at, _set(columns[at], room, size)) for at, room in zip(chosen, widths, strict=True)]


def _forced(columns: Sequence[Column], chosen: Sequence[int], size: int, inches: float) -> Fitting:
    """Where the label and one column have no room even so: each has half of it, and its words are broken as they come."""
    width = (_ems(inches, size) - 2 * GAPS[size] * (len(chosen) - 1) / _point(size)) / len(chosen)
    return [(at, replace(columns[at], width=width * _point(size), whole=0, after=False, side="l")) for at in chosen]


def _set(column: Column, room: float, size: int) -> Column:
    return replace(column, width=room * _point(size)) if room < column.room.natural - 1e-6 else column


def _in_heights(page: Printed, columns: Fitting, size: int, wide: bool, inches: float, height: float) -> Iterator[Part]:
    """The lines in as few floats as pages have room for: a line of published values stays below ours, a group has its heading."""
    most = max(10, int((SHARE * height - 1.0) * POINTS / (1.2 * size)))
    lines: list[Sequence[Entry]] = []
    heading: Sequence[Entry] | None = None
    used = 0
    for at, entries in enumerate(page.lines):
        own = _height(at, columns, size)
        if used + own > most and lines and entries[0].text != PUBLISHED:
            yield Part(columns, lines, size, wide, inches * POINTS)
            lines = [heading] if heading and len(entries) > 1 else []
            used = len(lines)
        heading = entries if len(entries) == 1 else heading
        lines.append(entries)
        used += own
    yield Part(columns, lines, size, wide, inches * POINTS)


def _height(at: int, columns: Fitting, size: int) -> int:
    return max(column.room.height(at, (column.width or 1e9) / _point(size)) for _, column in columns)


def _notes_height(page: Printed, inches: float) -> float:
    """In inches."""
    said = [*page.warnings, on_paper(page.caption), *map(on_paper, page.notes)]
    lines = sum(1 + int(1.1 * em(one) / _ems(inches, NOTES)) for one in said)
    return lines * (NOTES + 1.5) / POINTS


def _column(page: Printed, at: int) -> Column:
    texts = [line[at].text if len(line) > 1 else "" for line in page.lines]
    bold = any(line[at].bold for line in page.lines if len(line) > 1)
    found = [match for text in texts if (match := NUMBER.match(text))]
    body = max((em(text, bold) for text in texts), default=0.0)
    if not at or page.words(at) or body > LONG:
        return _with_head(Column(words_room(texts, bold, prose=at in page.prose), side="l"), page, at)
    column = Column(Room(body, body))
    if found:
        column = Column(
            Room(0.0, 0.0),
            whole=max(len(match[2].replace(",", "")) for match in found),
            decimals=max(len(match[3] or "") for match in found),
            sign="+" if any(match[1] for match in found) else "",
            after=any(match.end() < len(match.string) for match in found),
        )
        digits = f"{column.sign}{10**column.whole - 1:,}.{'0' * column.decimals}"
        after = max(em(match.string[match.end() :]) + 0.1 for match in found)
        others = max((em(text) for text in texts if not NUMBER.match(text)), default=0.0)
        body = max(em(digits, bold) + after, others)
        column = replace(column, room=Room(body, body))
    return _with_head(column, page, at)


def _with_head(column: Column, page: Printed, at: int) -> Column:
    room, head = column.room, page.heads[at]
    wide = max(map(em, folded(head, room.natural)), default=0.0)
    longest = max((em(piece) for piece in pieces(head)), default=0.0)
    least = max(room.least, longest if column.side == "l" else wide)
    room = replace(room, natural=max(room.natural, wide, least), least=least)
    return replace(column, room=replace(room, glued=at > 0 and head == PUBLISHED))


def folded(head: str, width: float) -> list[str]:
    """In lines no wider than what stands below it, or than its longest word."""
    words = head.split()
    most = max([width, NARROW, *map(em, words)])
    lines: list[str] = []
    for word in words:
        if lines and em(f"{lines[-1]} {word}") <= most:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
