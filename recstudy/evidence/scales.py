"""Where the values of a metric spread alike, high or low: its own unit between its bounds, an angle for a share, or a logarithm.

share of N items   a = arcsin(sqrt(p)): the items alone give a variance of 1/(4N) wherever p is    (1)
a loss             log(v)                                                                           (2)
anything else      v itself, no further than its bounds                                             (3)
"""

from dataclasses import dataclass
from math import asin, exp, inf, log, pi, sin, sqrt
from typing import Literal

TINY = 1e-12  # of a loss, whose logarithm has no place at 0


@dataclass(frozen=True)
class Scale:
    """A metric's scale.

    Args:
        low: the metric's lower bound.
        high: its upper bound.
        kind: `linear`, `share` (of right answers to `items` questions) or `log`.
        items: of a share, the distinct questions that it is a share of.
    """

    low: float = -inf
    high: float = inf
    kind: Literal["linear", "share", "log"] = "linear"
    items: int = 0

    @property
    def floor(self) -> float:
        """The least variance of one run on this scale: that of its items (1); 0 where there are none."""
        return 1 / (4 * self.items) if self.kind == "share" else 0.0

    def share(self, value: float) -> float:
        """A value between the bounds as a number from 0 to 1."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def transform(self, value: float) -> float:
        """The place of a value on the scale; that of the nearest bound for one outside."""
        if self.kind == "share":
            return asin(sqrt(self.share(value)))
        if self.kind == "log":
            return log(max(value, TINY))
        return min(max(value, self.low), self.high)

    def inverse(self, place: float) -> float:
        """The value at a place, within the bounds."""
        if self.kind == "share":
            return self.low + (self.high - self.low) * sin(min(max(place, 0.0), pi / 2)) ** 2
        return exp(min(place, 700.0)) if self.kind == "log" else min(max(place, self.low), self.high)

    def slope(self, value: float) -> float:
        """How much a value changes with its place (delta method); a share counts as at least half an item from its bounds."""
        if self.kind == "share":
            least = 1 / (2 * self.items)
            share = min(max(self.share(value), least), 1 - least)
            return (self.high - self.low) * 2 * sqrt(share * (1 - share))
        return max(value, TINY) if self.kind == "log" else 1.0

    def items_from_bound(self, value: float) -> float:
        """How many items a share is from the nearest bound; endless on other scales."""
        share = self.share(value) if self.kind == "share" else 0.5
        return min(share, 1 - share) * self.items if self.kind == "share" else inf


LINEAR = Scale()
