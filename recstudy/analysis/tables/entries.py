"""What stands in one place of a printed table: words and numbers, typed until a writer formats them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """A number and how it is printed: a format of Python (`.1f`, `+.2f`)."""

    value: float
    form: str = ".1f"

    def __str__(self) -> str:
        return format(self.value, self.form)


@dataclass(frozen=True)
class Range:
    """An interval: `[low, high]`, in the form of its number."""

    low: float
    high: float
    form: str = ".1f"

    def __str__(self) -> str:
        return f"[{format(self.low, self.form)}, {format(self.high, self.form)}]"


Piece = str | Number | Range


@dataclass(frozen=True)
class Entry:
    """The content of one place: `bold` where nothing is significantly better.

    `hint` is what a tooltip adds, `origin` the runs that a number comes from in words, `runs` the ids of those that it is about.
    """

    content: Piece | tuple[Piece, ...]
    bold: bool = False
    hint: str = ""
    origin: str = ""
    runs: tuple[str, ...] = ()

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The content, piece by piece."""
        return self.content if isinstance(self.content, tuple) else (self.content,)

    @property
    def text(self) -> str:
        """As pages, Markdown and terminals print it."""
        return "".join(map(str, self.pieces))
