"""Main effects and interactions of a two-level design, and which of them its cells cannot tell apart.

A column of signs stands for each effect: an axis is -1 at its first level and +1 at its second, an interaction is the product
of its axes' columns. Two effects with the same column up to sign are aliases. The effect is the mean where the column is +1
minus the mean where it is -1, over the seeds that have all cells.

Shapes: N cells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import prod
from operator import mul
from typing import Any

import numpy as np
import numpy.typing as npt

from recstudy.analysis.cells import gap
from recstudy.analysis.contrasts import Contrast, Pairing, contrast, holm
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.analysis.spreads import pairing_of, spreads_of
from recstudy.analysis.stats import Spread
from recstudy.errors import ConfigError
from recstudy.report import Effects
from recstudy.report.names import axis_title, plain

Signs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Effect:
    """What can be estimated: the shortest of the effects that share a column (N,), and the others with their signs.

    `values` are one for each of the seeds that have all cells, `found` is their mean by the spread of all cells; `found.p` is of
    this row alone, `adjusted` for all rows.
    """

    axes: tuple[str, ...]
    column: Signs
    aliases: tuple[tuple[int, tuple[str, ...]], ...] = ()
    values: tuple[float, ...] = ()
    found: Contrast | None = None
    adjusted: float | None = None

    @property
    def title(self) -> str:
        return named(self.axes)

    @property
    def test(self) -> Contrast:
        """`found`; an empty one where no seed is whole."""
        return self.found or Contrast()

    @property
    def aliased(self) -> str:
        """The aliases of the lowest order in words, and how many there are beside them."""
        least = min((len(axes) for _, axes in self.aliases), default=0)
        words = [f"{'minus ' if sign < 0 else ''}{named(axes)}" for sign, axes in self.aliases if len(axes) == least]
        more = len(self.aliases) - len(words)
        return "; ".join([*words, *([f"{more} of higher order"] if more else [])])


@dataclass(frozen=True)
class EffectsData:
    """The effects on a metric, shortest first; axis -> its two levels; seed -> the runs of its N cells; what other seeds lack."""

    metric: str
    effects: tuple[Effect, ...]
    levels: Mapping[str, tuple[Any, Any]]
    runs: Mapping[int, tuple[Row, ...]] = field(repr=False)
    missing: tuple[str, ...]
    spreads: tuple[Spread | None, ...] = ()
    pairing: Pairing | None = None

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self.runs)

    def half(self, effect: Effect, sign: int) -> list[Row]:
        """The runs where the effect's column has this sign, seed by seed."""
        return [run for own in self.runs.values() for run, at in zip(own, effect.column, strict=True) if at == sign]


def effects_data(records: StudyRecords, spec: Effects) -> EffectsData:
    """Every effect that the cells can estimate.

    Raises:
        ConfigError: the chosen variants are no regular two-level design, or one of them leaks.
    """
    cells = records.chosen(spec.where)
    if leaky := [records.variants[index].label for index in cells if records.leaks(index)]:
        raise ConfigError(f"effects {spec.name!r}: {', '.join(leaky)} leaks, so that no effect means anything")
    levels = _two_levels(records, spec, cells)
    columns = {
        axis: np.array([1 if records.level(index, axis) == high else -1 for index in cells]) for axis, (_, high) in levels.items()
    }
    by_seed = _by_seed(records, cells)
    lacking = {seed: _lacking(records, runs, spec.metric) for seed, runs in by_seed.items()}
    seeds = [seed for seed in by_seed if not lacking[seed]]
    runs = {seed: tuple(run for run in by_seed[seed] if run) for seed in seeds}
    spreads, pairs = spreads_of(records, spec.metric), pairing_of(records, spec.metric, cells)
    own = tuple(pairs.spread if pairs and pairs.helps else spreads.get(index) for index in cells)
    scores = [[run.number(spec.metric) for run in one] for one in runs.values()]
    effects = [_measured(effect, scores, own) for effect in estimable(columns, spec.name)]
    adjusted = holm([effect.test.p for effect in effects])
    return EffectsData(
        spec.metric,
        tuple(replace(effect, adjusted=p) for effect, p in zip(effects, adjusted, strict=True)),
        levels,
        runs,
        tuple(f"seed {seed} left out: {said}" for seed, said in lacking.items() if said),
        own,
        pairs,
    )


def estimable(columns: Mapping[str, Signs], name: str) -> list[Effect]:
    """The effects with a column of their own, by order, each with its aliases.

    Raises:
        ConfigError: two columns overlap in part, so that the cells are neither a whole factorial nor a regular fraction.
    """
    found: list[Effect] = []
    words = [word for size in range(1, len(columns) + 1) for word in combinations(columns, size)]
    for word in words:
        column = prod((columns[axis] for axis in word), start=np.ones_like(next(iter(columns.values()))))
        overlaps = [int(column @ other.column) for other in found]
        if any(abs(overlap) not in (0, len(column)) for overlap in [*overlaps, int(column.sum())]):
            raise ConfigError(
                f"effects {name!r}: the cells are neither a whole two-level factorial nor a regular fraction of one"
            )
        if any(overlaps):
            at = next(at for at, overlap in enumerate(overlaps) if overlap)
            alias = (1 if overlaps[at] > 0 else -1, word)
            found[at] = replace(found[at], aliases=(*found[at].aliases, alias))
        elif not column.sum():  # a constant one is the mean's alias
            found.append(Effect(word, column))
    return found


def named(axes: Sequence[str]) -> str:
    return " \N{MULTIPLICATION SIGN} ".join(map(axis_title, axes))


def _two_levels(records: StudyRecords, spec: Effects, cells: Sequence[int]) -> dict[str, tuple[Any, Any]]:
    """The axes that vary among these cells with their levels, the first one first."""
    levels = {axis: list(dict.fromkeys(records.level(index, axis) for index in cells)) for axis in records.plan.axes}
    varied = {axis: found for axis, found in levels.items() if len(found) > 1}
    for axis, found in varied.items():
        if len(found) > 2:
            have = f"{axis!r} has {', '.join(map(plain, found))}"
            raise ConfigError(f"effects {spec.name!r} needs two levels an axis, but {have}; narrow it by where")
    if not varied:
        raise ConfigError(f"effects {spec.name!r}: no axis has two levels here")
    return {axis: (found[0], found[1]) for axis, found in varied.items()}


def _by_seed(records: StudyRecords, cells: Sequence[int]) -> dict[int, list[Row | None]]:
    """Seed -> the run of every cell; None where none is planned."""
    runs = [{run.seed: run for run in records.by_variant[index]} for index in cells]
    return {seed: [known.get(seed) for known in runs] for seed in sorted({seed for known in runs for seed in known})}


def _lacking(records: StudyRecords, runs: Sequence[Row | None], name: str) -> str:
    """Which cells of a seed have no value, and why."""
    return "; ".join(f"{run.label if run else 'a cell'} {said}" for run in runs if (said := gap(run, name)))


def _measured(effect: Effect, scores: Sequence[Sequence[float]], spreads: Sequence[Spread | None]) -> Effect:
    """With its value for each seed and over all; scores of each seed's N cells."""
    if not scores:
        return effect
    weights = [float(sign) / (len(effect.column) / 2) for sign in effect.column]
    values = [round(sum(map(mul, weights, own)), 9) for own in scores]
    return replace(effect, values=tuple(values), found=contrast(list(zip(*scores, strict=True)), weights, spreads))
