"""The report part `Means`, and the choice of the figure that answers a study's question.

`Means` shows means with intervals in rows: the levels of each factor, or the variants from the best down.
`figure_by` chooses between it, a curve and a heat map. `leading_parts` finds the figure of a page that
answers the claims, and `Means.complete` adds one if the report has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import nan, prod
from typing import Any, NamedTuple

from recstudy.base.lazy import go, pd
from recstudy.base.values import canonical
from recstudy.report.blocks import block_words
from recstudy.report.caveats import leaky_notes
from recstudy.report.cell_text import number_content
from recstudy.report.cells import Cell, cell, weighted_cell
from recstudy.report.claims import Claims, QuestionPart
from recstudy.report.figures.chosen import MAX_CURVES, cut_note
from recstudy.report.figures.curve import Curve, comparable, point_row
from recstudy.report.figures.forest import HEADING, draw_rows
from recstudy.report.figures.heat_map import HeatMap
from recstudy.report.look import is_number, ordered
from recstudy.report.margins import find_margins
from recstudy.report.names import (
    axis_title,
    is_selected,
    join_labels,
    level_words,
    metric,
    plural,
    quantity,
    value_text,
)
from recstudy.report.parts import PARTS, FigurePart, OfMetric, OfVariants, Part
from recstudy.report.study_records import StudyRecords

MAX_ROWS = 30  # variants of a ranked plot
FEW_BLOCKS = 4  # data sets with a panel of their own; over more, a factor's means are averages
Levels = Mapping[str, Any]  # axis -> level
MAX_POINTS = 1000  # levels along a curve
LARGE = 6  # levels of two factors from which a heat map shows more than curves
COLUMNS = ["factor", "level", "settings", "value", "low", "high", "n", "expected", "synthetic", "run_ids"]
COLUMNS += ["seeds", "block", "_text"]


@PARTS.add("means")
class Means(FigurePart, OfMetric, OfVariants):
    """Means with intervals in rows: the levels of each factor, or the variants from the best down.

    Args:
        name: The name of the part and of its files.
        metric: The metric to show.
        axes: The factors. A level's mean is over the settings of the other axes that all its levels share.
            Without factors, each row is a variant.
    """

    name: str = "means"
    axes: tuple[str, ...] = ()
    axes_in = ("axes",)

    @property
    def heading(self) -> str:
        words = [*map(axis_title, self.axes)] or ["variant"]
        return self.title or f"{metric(self.metric).title} by {join_labels(words, ', ', len(words))}"

    @classmethod
    def complete(cls, parts: list[Part], records: StudyRecords) -> list[Part]:
        """Return a report with a figure that answers its question, after the claims."""
        effect = claimed_effect(parts)
        is_answered = any(answers(part, effect) for part in parts) if effect else leading_parts(parts)
        scores = [name for part in parts for name in part.shown_metrics]
        if is_answered or not scores or records.plan.search or len(records.variants) < 2:
            return parts
        blocks = {name for block in records.blocks for name, _ in block}
        variants = [
            {axis: records.level(index, axis) for axis in variant.levels}
            for index, variant in enumerate(records.variants)
        ]
        if effect is None:
            return [*parts, figure_by("means", scores[0], variants, blocks=blocks)]
        axes = {axis_title(axis): axis for axis in levels_of(variants)}
        stated_levels = {axis_title(name): level for name, level in effect.where.items()}
        where = {
            axis: stated_levels[title]
            for title, axis in axes.items()
            if title in stated_levels and axis not in blocks
        }
        names = sorted(axes.values(), key=lambda axis: axis_title(axis) != effect.axis)  # the factor first
        chosen = [variant for variant in variants if is_selected(where, variant.get)]
        if effect.axis not in axes or axes[effect.axis] in blocks:
            return parts
        levels = [{name: variant.get(name) for name in names} for variant in chosen]
        figure = figure_by(f"by_{names[0]}", effect.metric, levels, where, blocks)
        if isinstance(figure, Means):
            figure = replace(figure, axes=figure.axes[:1])
        claims = [part for part in parts if isinstance(part, Claims)]
        return [*claims, figure, *(part for part in parts if part not in claims)]

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per level of each factor, or per variant. Models that were given the answer are left
        out.
        """
        variants = comparable(records, self.where)
        blocks = dict.fromkeys(records.blocks[index] for index in variants)
        rows = []
        if not self.axes:
            cells = {index: cell(records, [index], self.metric) for index in variants}
            for index in best_first(cells)[:MAX_ROWS]:
                rows.append(self._row("", records.variants[index].label, 1, cells[index]))
        elif len(self.axes) == 1 and 1 < len(blocks) <= FEW_BLOCKS:
            for block in blocks:
                in_block = [index for index in variants if records.blocks[index] == block]
                rows += self._levels(records, in_block, self.axes[0], block_words(block))
        else:
            for axis in self.axes:
                rows += self._levels(records, variants, axis)
        data = pd.DataFrame(rows, columns=COLUMNS)
        data = data.astype(dict.fromkeys(("value", "low", "high"), float))
        notes = list(leaky_notes(records, records.chosen(self.where), is_shown=False))
        if unfinished_rows := data["value"].isna().sum():
            notes.append(f"{unfinished_rows} of {plural(len(data), 'row')} have no finished run")
        data.attrs["notes"] = [*notes, *cut_note(records, 0 if self.axes else len(variants), MAX_ROWS)]
        return data

    def caption(self, data: pd.DataFrame) -> str:
        words = "Dots: means over seeds. Bars: 95 % intervals"
        settings = sorted({count for count in data["settings"] if count > 1})
        if settings:
            counts = " or ".join(map(str, settings))
            words += f". A mean is over {counts} settings of the other factors"
        return words

    def finding(self, data: pd.DataFrame) -> str:
        """Return the best level of each factor, of at most three, or the best variant with its mean."""
        if metric(self.metric).better is None or data["block"].nunique() > 1:
            return ""
        ranked = data.dropna(subset="value").sort_values(
            "value", ascending=metric(self.metric).sign < 0, kind="stable"
        )
        best = ranked.drop_duplicates("factor").sort_index().to_dict("records")
        words = [level_words(row["factor"], row["level"]) if row["factor"] else row["level"] for row in best]
        value = f"{quantity(self.metric, best[0]['value'])} with " if len(best) == 1 else ""
        return f"best {value}{join_labels(words, ', ')}" if words else ""

    def draw(self, data: pd.DataFrame) -> go.Figure:
        title = metric(self.metric).heading
        names = {"level": "label", "value": "estimate", "low": "low_95", "high": "high_95"}
        is_begun = data.groupby("block")["value"].transform("count") > 0
        rows = data[is_begun].rename(columns=names)
        texts = rows["_text"].str.partition(" [")
        rows = rows.assign(
            group=title + rows["block"].map(lambda block: f", {block}" if block else ""),
            label=rows["label"].map(value_text),
            mark="yes",
            verdict=title,
            about=rows["n"].map("n={}".format),
            region_low=nan,
            region_high=nan,
            _size=texts[0],
            _interval=(texts[1] + texts[2]).str.strip(),
            _outcome="",
        )
        if rows["factor"].nunique() > 1:
            heads = rows.drop_duplicates("factor").assign(
                estimate=nan, low_95=nan, high_95=nan, mark=HEADING, _size="", _interval="", _outcome=""
            )
            heads["label"] = heads["factor"].map(axis_title)
            # a stable sort puts each heading before the first of its rows
            rows = pd.concat([heads, rows]).sort_index(kind="stable")
        return draw_rows(rows)

    def _levels(
        self, records: StudyRecords, variants: Sequence[int], axis: str, block: str = ""
    ) -> list[list[Any]]:
        """Return a row per level of a factor: numbers in their order, other levels from the best down."""
        levels = {
            index: {name: records.level(index, name) for name in dict.fromkeys([*records.plan.axes, axis])}
            | dict(records.blocks[index])
            for index in variants
        }
        # settings that follow from a level, such as the parameters of a method, are no other factors
        pairs = {name: {(of[axis], of[name]) for of in levels.values()} for name in levels[variants[0]]}
        followers = {name for name, of in pairs.items() if len(of) == len(pairs[axis])} - {axis}
        levels = {
            index: {name: level for name, level in of.items() if name not in followers}
            for index, of in levels.items()
        }
        places, settings = find_margins(levels, axis)
        cells = {}
        for level, indices in places.items() if settings else ():
            weights = {indices[setting]: 1 / len(settings) for setting in settings}
            cells[level] = weighted_cell(records, weights, self.metric)
        order = ordered(cells)
        order = order if all(map(is_number, order)) else best_first(cells)
        return [self._row(axis, level, len(settings), cells[level], block) for level in order]

    def _row(self, factor: str, level: Any, settings: int, point: Cell, block: str = "") -> list[Any]:
        row = point_row(point)
        text = "".join(map(str, number_content(point)))
        return [factor, level, settings, *(row[name] for name in COLUMNS[3:-2]), block, text]


def best_first(cells: Mapping[Any, Cell]) -> list[Any]:
    """Return the keys of the cells from the best mean down, and last those without a mean."""
    return sorted(cells, key=lambda key: (cells[key].value is None, -cells[key].score))


def figure_by(
    name: str,
    score: str,
    variants: Sequence[Levels],
    where: Levels | None = None,
    blocks: Collection[str] = (),
) -> FigurePart:
    """Return the figure of a metric by the first axis on which variants differ, or by all of them.

    Numbers with at most one other axis are a curve, two large axes a heat map. All others are means.

    Args:
        name: The name of the part.
        score: The metric.
        variants: The levels of each variant.
        where: The selector of these variants.
        blocks: The axes that are blocks, such as data sets. They are no factors.
    """
    levels = levels_of(variants)
    fields: dict[str, Any] = {"name": name, "where": dict(where or {})}
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


class Effect(NamedTuple):
    """The factor of a claim: both sides differ in its levels alone."""

    axis: str
    metric: str
    where: Levels  # the other settings of both sides


def claimed_effect(parts: Sequence[Part]) -> Effect | None:
    """Return the factor that most claims of a report are about, or None."""
    effects = []
    for claim in (claim for part in parts if isinstance(part, Claims) for claim in part.claims):
        sides = [side for side in claim.sides if isinstance(side, dict)]
        names = dict.fromkeys(name for side in sides for name in side)
        shared = {name: sides[0].get(name) for name in names if sides[0].get(name) == sides[-1].get(name)}
        varied = [name for name in names if name not in shared]
        if len(sides) == 2 and len(varied) == 1 and varied[0] != "variant":
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
