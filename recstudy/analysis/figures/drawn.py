"""A part of a report as a figure, and what stands with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.figures.fit import fitted
from recstudy.analysis.figures.theme import COLUMNS, SCREEN, Size


@dataclass(frozen=True)
class Drawn:
    """A figure that is laid out for any size, the numbers behind it, and its label for screen readers.

    `notes` must be said before it, `caption` says how to read it, `below` is HTML that follows it on a page.
    """

    draw: Callable[[Size], go.Figure]
    data: pd.DataFrame
    label: str
    notes: Sequence[str] = ()
    caption: str = ""
    below: str = ""

    @cached_property
    def figure(self) -> go.Figure:
        """As it is on a screen."""
        return self.draw(SCREEN)

    def printed(self, columns: int) -> go.Figure:
        """As it is in so many columns of a paper: 1 or 2."""
        return fitted(self.draw(COLUMNS[columns]))
