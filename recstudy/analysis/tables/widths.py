"""How wide words are in LaTeX's roman, and how the columns of a table find room on a page.

Widths are of Latin Modern, in em: it is wider than the Times of most venues, so that what fits here fits there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

ROMAN = {  # ec-lmr10.tfm: the letters of each width
    0.278: "!',.:;[]`il|", 0.306: "fj", 0.333: "- ", 0.361: "I", 0.389: "()t", 0.394: "rs", 0.444: "cez", 0.472: "?",
    0.5: '"$*/0123456789\\ago{}\N{EN DASH}', 0.514: "J", 0.528: "kqvxy", 0.556: "S^bdhnpu~", 0.611: "Z", 0.625: "L", 0.653: "F",
    0.681: "EP", 0.708: "B", 0.722: "CTw", 0.736: "R", 0.75: "AHNUVXY_", 0.764: "D", 0.785: "&+<=>@GKOQ", 0.833: "#%m",
    0.917: "M",
}  # fmt: skip
WIDTHS = {letter: width for width, letters in ROMAN.items() for letter in letters}
WIDEST = 1.03  # of W, and of what is not named
BOLD = 1.18  # times as wide: ec-lmbx10.tfm
OPTICAL = {9: 1.028, 8: 1.063}  # smaller letters are wider for their size: ec-lmr9.tfm, ec-lmr8.tfm
SHORT = 10.0  # em: words that are broken into lines by nothing but need
BREAKS = "_=/@,"  # after which a word of a narrow column may be broken


def em(words: str, bold: bool = False) -> float:
    """How wide the words are in one line."""
    return sum(WIDTHS.get(letter, WIDEST) for letter in words) * (BOLD if bold else 1.0)


def pieces(words: str) -> list[str]:
    """What no line is broken in."""
    for mark in BREAKS:
        words = words.replace(mark, mark + " ")
    return words.split()


@dataclass(frozen=True)
class Room:
    """What a column asks for, in em: its words in one line, the least that it can do with, and its longest piece.

    `lines`: the width of each of its entries. `glued`: it stays with the column before it.
    """

    natural: float
    least: float
    lines: tuple[float, ...] = ()
    glued: bool = False

    def height(self, at: int, width: float) -> int:
        """Lines of an entry in a column so wide: words leave a sixth of each empty."""
        line = self.lines[at] if at < len(self.lines) else 0.0
        return 1 if line <= width else ceil(1.2 * line / width)


def words_room(texts: Sequence[str], bold: bool = False, prose: bool = False) -> Room:
    """Of a column of words, whose longest may be broken into four lines, or sentences into eight."""
    share, short = (8.0, 0.7 * SHORT) if prose else (4.0, SHORT)
    lines = tuple(em(text, bold) for text in texts)
    longest = max((em(piece, bold) for text in texts for piece in pieces(text)), default=0.0)
    natural = max(lines, default=0.0)
    return Room(natural, max(longest, min(natural, max(natural / share, short))), lines)


def shared(rooms: Sequence[Room], width: float) -> list[float] | None:
    """The width of each column where all have their least: what is left goes to those that ask for more, as they ask."""
    left = width - sum(room.least for room in rooms)
    wanted = sum(room.natural - room.least for room in rooms)
    if left < 0:
        return None
    share = min(1.0, left / wanted) if wanted else 0.0
    return [room.least + share * (room.natural - room.least) for room in rooms]


def split(rooms: Sequence[Room], width: float, between: float) -> list[list[int]]:
    """The columns behind the first in as few parts as each has room beside it, and the parts as alike as can be."""
    groups: list[list[int]] = []
    for at in range(1, len(rooms)):
        if rooms[at].glued and groups:
            groups[-1].append(at)
        else:
            groups.append([at])
    sizes = [sum(rooms[at].least + between for at in group) for group in groups]
    room = width - rooms[0].least
    count = len(_packed(sizes, room))
    low, high = max(sizes, default=0.0), max(room, max(sizes, default=0.0))
    while high - low > 0.1:
        middle = (low + high) / 2
        low, high = (low, middle) if len(_packed(sizes, middle)) <= count else (middle, high)
    return [[at for group in part for at in groups[group]] for part in _packed(sizes, high)]


def _packed(sizes: Sequence[float], room: float) -> list[list[int]]:
    parts: list[list[int]] = []
    used = 0.0
    for at, size in enumerate(sizes):
        if not parts or used + size > room:
            parts.append([])
            used = 0.0
        parts[-1].append(at)
        used += size
    return parts
