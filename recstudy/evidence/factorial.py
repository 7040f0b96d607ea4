"""Main effects and interactions of a two-level design, and which of them its cells cannot tell apart.

A column of signs stands for each effect: an axis is -1 at its first level and +1 at its second, an interaction is the product
of its axes' columns. Two effects with the same column up to sign are aliases.

Shapes: N cells.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

import numpy as np
import numpy.typing as npt

Signs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Effect:
    """What can be estimated: the shortest of the effects that share a column (N,), and the others with their signs."""

    axes: tuple[str, ...]
    column: Signs
    aliases: tuple[tuple[int, tuple[str, ...]], ...] = ()

    @property
    def weights(self) -> list[float]:
        """Of the cells: the mean where the column is +1 minus the mean where it is -1."""
        return [float(sign) / (len(self.column) / 2) for sign in self.column]


def estimable(columns: Mapping[str, Signs]) -> list[Effect] | None:
    """The effects with a column of their own, by order, each with its aliases.

    Returns:
        None where two columns overlap in part: the cells are neither a whole factorial nor a regular fraction of one.
    """
    found: list[Effect] = []
    for axes in (axes for size in range(1, len(columns) + 1) for axes in combinations(columns, size)):
        column = prod((columns[axis] for axis in axes), start=np.ones_like(next(iter(columns.values()))))
        overlaps = [int(column @ other.column) for other in found]
        if any(abs(overlap) not in (0, len(column)) for overlap in [*overlaps, int(column.sum())]):
            return None
        if any(overlaps):
            at = next(at for at, overlap in enumerate(overlaps) if overlap)
            found[at] = replace(found[at], aliases=(*found[at].aliases, (1 if overlaps[at] > 0 else -1, axes)))
        elif not column.sum():  # a constant one is the mean's alias
            found.append(Effect(axes, column))
    return found
