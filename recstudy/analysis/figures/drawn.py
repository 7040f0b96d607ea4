"""What a kind of figure gives: how it is drawn, the numbers behind it, and what stands with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.figures.fit import fitted
from recstudy.analysis.figures.theme import SCREEN, Size, dress, on_paper


@dataclass(frozen=True)
class Drawn:
    """A figure that is laid out for any size, the numbers behind it, and its label for screen readers.

    `draw` may leave the common look (`theme.dress`) to this class: it then has the label as its title. `notes` must be said
    before the figure, `caption` says how to read it, `below` is HTML that follows it on a page, `finding` what it shows in a few
    words.
    """

    draw: Callable[[Size], go.Figure]
    data: pd.DataFrame
    label: str
    notes: Sequence[str] = ()
    caption: str = ""
    below: str = ""
    finding: str = ""

    @cached_property
    def figure(self) -> go.Figure:
        """As it is on a screen."""
        return self._dressed(SCREEN)

    def printed(self, inches: float) -> go.Figure:
        """As it is on a paper that has so much room from left to right."""
        return fitted(self._dressed(on_paper(inches)))

    def _dressed(self, size: Size) -> go.Figure:
        figure = self.draw(size)
        return figure if figure.layout.meta else dress(figure, self.label, self.notes, caption=self.caption, size=size)
