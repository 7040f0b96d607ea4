"""A figure of a report: Plotly's figure, the numbers behind it, and what the page and a paper say of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from recstudy.lazy import go, pd
from recstudy.report.look import escape_text, on_paper, on_screen, titled

if TYPE_CHECKING:
    from recstudy.report.parts import FigurePart


@dataclass(frozen=True)
class DrawnFigure:
    """A part's figure.

    Args:
        part: draws it.
        data: the numbers behind it, a row per point; columns that begin with an underscore are for drawing only.
        notes: what a reader must know before the numbers.
        below: HTML that a page shows under the figure.
    """

    part: FigurePart
    data: pd.DataFrame
    notes: Sequence[str] = ()
    below: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether no point of the figure has a value yet."""
        values = self.data.filter(["value", "reached"])  # the second by a trial that was stopped early
        return self.data.empty or bool(values.size and values.isna().to_numpy().all())

    @cached_property
    def figure(self) -> go.Figure:
        """The figure for a page."""
        return on_screen(go.Figure() if self.is_empty else self.part.draw(escape_text(self.data)))

    def printed(self, inches: float) -> go.Figure:
        """Return the figure for a paper, `inches` wide."""
        paper = on_paper(self.figure, inches)
        return titled(paper, "", self.notes) if self.notes else paper

    @property
    def label(self) -> str:
        """The title."""
        return self.part.heading

    @cached_property
    def caption(self) -> str:
        """How to read the figure."""
        return "" if self.is_empty else self.part.caption(self.data)

    @cached_property
    def finding(self) -> str:
        """What the figure shows, in a few words."""
        return "" if self.is_empty else self.part.finding(self.data)

    @property
    def alternative(self) -> str:
        """Title, finding and words, for a screen reader."""
        title = f"{self.label}: {self.finding}" if self.finding else self.label
        words = self.part.describe(self.data)
        return f"{title}. {words}" if words else title

    @property
    def csv(self) -> str:
        """The numbers in full precision."""
        return self.data[[name for name in self.data if not str(name).startswith("_")]].to_csv(index=False)
