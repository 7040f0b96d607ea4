"""The figure that answers a study's question.

`leading_parts` finds the figure of a page that answers the claims, and `with_lead` adds one if the report
has none. `figure_by` chooses between a curve, a heat map and means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from recstudy.base.values import canonical, is_number
from recstudy.report.claims import DEPTH, METRIC, TUNED, Claims, QuestionPart
from recstudy.report.figures.chosen import MAX_CURVES
from recstudy.report.figures.curve import Curve
from recstudy.report.figures.heat_map import HeatMap
from recstudy.report.figures.means import MAX_ROWS, Means
from recstudy.report.margins import find_margins
from recstudy.report.names import axis_title
from recstudy.report.parts import COMPLETIONS, FigurePart, Part
from recstudy.report.study_records import StudyRecords

MAX_POINTS = 1000  # levels along a curve
LARGE = 6  # levels of two factors from which a heat map shows more than curves
Levels = Mapping[str, Any]  # axis -> level


class Effect(NamedTuple):
    """The factor of a claim: both sides differ in its levels alone."""

    axis: str
    metric: str
    settings: Levels  # the other settings of both sides


def with_lead(parts: list[Part], records: StudyRecords) -> list[Part]:
    """Return a report with a figure that answers its question, after the claims."""
    effect = claimed_effect(parts)
    scores = [name for part in parts for name in part.shown_metrics]
    is_answered = any(answers(part, effect) for part in parts) if effect else leading_parts(parts)
    if is_answered or not scores or records.plan.search or len(records.variants) < 2:
        return parts
    blocks = {name for block in records.blocks for name, _ in block}
    shared = effect.settings.items() if effect else ()
    selector = {name: level for name, level in shared if name not in blocks}
    chosen = records.chosen(selector)
    if len(chosen) == len(records.variants):
        selector = {}
    variants = [
        {axis: records.level(index, axis) for axis in records.variants[index].levels} for index in chosen
    ]
    if effect is None:
        return [*parts, figure_by("means", scores[0], variants, blocks=blocks)]
    # the claimed factor comes first
    axes = sorted(levels_of(variants), key=lambda axis: axis_title(axis) != effect.axis)
    if not axes or axis_title(axes[0]) != effect.axis or axes[0] in blocks:
        return parts
    variants = [{axis: levels.get(axis) for axis in axes} for levels in variants]
    figure = figure_by(f"by_{axes[0]}", effect.metric, variants, selector, blocks)
    if isinstance(figure, Means):
        figure = replace(figure, axes=figure.axes[:1])
    claims = [part for part in parts if isinstance(part, Claims)]
    return [*claims, figure, *(part for part in parts if part not in claims)]


def leading_parts(parts: Sequence[Part]) -> list[Part]:
    """Return the parts whose figure may lead the page, the one that answers the question first.

    This is the effect of the claims' factor, else the claims, else the first figure. Figures of values by
    step never lead.
    """
    effect = claimed_effect(parts)
    figures = [part for part in parts if isinstance(part, FigurePart) and not part.live]
    claims = [part for part in parts if isinstance(part, Claims)]
    other_parts = [part for part in parts if isinstance(part, QuestionPart)]
    return [*(part for part in figures if effect and answers(part, effect)), *claims, *figures, *other_parts]


def claimed_effect(parts: Sequence[Part]) -> Effect | None:
    """Return the factor that most claims of a report are about, or None.

    Claims about other metrics, depths at test, or tuned variants are left out: no figure of means has these.
    """
    effects = []
    for claim in (claim for part in parts if isinstance(part, Claims) for claim in part.claims):
        sides = [side for side in claim.sides if isinstance(side, dict)]
        names = dict.fromkeys(name for side in sides for name in side)
        shared = {name: sides[0].get(name) for name in names if sides[0].get(name) == sides[-1].get(name)}
        varied = [name for name in names if name not in shared]
        has_means = {"variant", DEPTH, METRIC, TUNED}.isdisjoint(names)
        if len(sides) == 2 and len(varied) == 1 and has_means:
            effects.append(Effect(axis_title(varied[0]), claim.metric, shared))
    counts = Counter(effect.axis for effect in effects)
    return max(effects, key=lambda effect: counts[effect.axis], default=None)


def answers(part: Part, effect: Effect) -> bool:
    """Return whether a part is a figure of the metric by the factor."""
    axes = [getattr(part, "x", None), getattr(part, "y", None), *getattr(part, "axes", ())]
    is_figure = isinstance(part, FigurePart) and not part.live
    return is_figure and effect.metric in part.shown_metrics and effect.axis in map(axis_title, axes)


def is_drawn(part: QuestionPart, parts: Sequence[Part]) -> bool:
    """Return whether another part shows the means behind these differences or effects."""
    name, axes = getattr(part, "metric", ""), {*getattr(part, "axes", ())}
    for figure in (figure for figure in parts if name in figure.shown_metrics):
        if isinstance(figure, Means) and not figure.where:
            return True
        shown_axes = {getattr(figure, field, None) for field in ("x", "by", "y")}
        if isinstance(figure, Curve | HeatMap) and axes and axes <= shown_axes:
            return True
    return False


def figure_by(
    name: str,
    score: str,
    variants: Sequence[Levels],
    selector: Mapping[str, Any] = {},
    blocks: Collection[str] = (),
) -> FigurePart:
    """Return the figure of a metric by the first axis on which variants differ, or by all of them.

    Numbers with at most one other axis are a curve, two large axes a heat map. All others are means.

    Args:
        name: The name of the part.
        score: The metric.
        variants: The levels of each variant.
        selector: The levels that choose these variants.
        blocks: The axes that are blocks, such as data sets. They are no factors.
    """
    levels = levels_of(variants)
    fields: dict[str, Any] = {"name": name, "where": dict(selector)}
    if not levels:
        return Means(metric=score, **fields)
    x, *other_axes = levels
    is_complete = prod(map(len, levels.values())) == len({canonical(variant) for variant in variants})
    sizes = [*map(len, levels.values())]
    if is_complete and len(levels) == 2 and min(sizes) > LARGE and max(sizes) <= MAX_ROWS:
        return HeatMap(x=x, y=other_axes[0], metric=score, **fields)
    has_few_lines = not other_axes or (len(other_axes) == 1 and len(levels[other_axes[0]]) <= MAX_CURVES)
    is_scale = x not in blocks and len(levels[x]) > 2 and all(map(is_number, levels[x]))
    if is_complete and has_few_lines and is_scale and len(levels[x]) <= MAX_POINTS:
        return Curve(x=x, y=score, by=next(iter(other_axes), None), **fields)
    positions = dict(enumerate(variants))
    axes = [axis for axis in levels if axis not in blocks and all(axis in variant for variant in variants)]
    return Means(
        metric=score, axes=tuple(axis for axis in axes if find_margins(positions, axis)[1]), **fields
    )


def levels_of(variants: Sequence[Levels]) -> dict[str, list[Any]]:
    """Return axis -> its levels, of the axes with several levels."""
    levels: dict[str, dict[str, Any]] = {}
    for variant in variants:
        for axis, level in variant.items():
            levels.setdefault(axis, {})[canonical(level)] = level
    return {axis: [*distinct.values()] for axis, distinct in levels.items() if len(distinct) > 1}


COMPLETIONS.append(with_lead)
