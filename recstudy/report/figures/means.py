"""The report part `Means`: means with intervals in rows, of the levels of each factor or of the variants."""

from __future__ import annotations

from collections.abc import Sequence

from recstudy.base.lazy import go, pd
from recstudy.base.values import is_number
from recstudy.evidence import Why
from recstudy.records import Json
from recstudy.report.blocks import block_words
from recstudy.report.caveats import leaky_notes
from recstudy.report.cell_text import number_content, printed_value
from recstudy.report.cells import Cell, cell, rank, weighted_cell
from recstudy.report.figures.chosen import cut_note, ranked
from recstudy.report.figures.curve import point_row
from recstudy.report.figures.forest import HEADING, draw_rows
from recstudy.report.look import ordered
from recstudy.report.margins import find_margins
from recstudy.report.names import axis_title, join_labels, level_words, metric, plural, quantity, value_text
from recstudy.report.parts import PARTS, FigurePart, OfMetric, OfVariants
from recstudy.report.study_records import StudyRecords

MAX_ROWS = 30  # variants of a ranked plot
FEW_BLOCKS = 4  # data sets with a panel of their own; over more, a factor's means are averages
COLUMNS = ["factor", "level", "settings", "value", "low", "high", "n", "expected", "synthetic", "run_ids"]
COLUMNS += ["seeds", "block", "_text", "_dot", "_is_split"]


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

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per level of each factor, or per variant. Models that were given the answer are left
        out.
        """
        variants = self.comparable(records)
        blocks = dict.fromkeys(records.blocks[index] for index in variants)
        rows: list[Json] = []
        if not self.axes:
            cells = {index: cell(records, [index], self.metric) for index in variants}
            for index in sorted(cells, key=lambda index: rank(cells[index]))[:MAX_ROWS]:
                rows.append({**row_of(cells[index]), "level": records.variants[index].label, "settings": 1})
        elif len(self.axes) == 1 and 1 < len(blocks) <= FEW_BLOCKS:
            for block in blocks:
                in_block = [index for index in variants if records.blocks[index] == block]
                levels = self._levels(records, in_block, self.axes[0])
                rows += [{**row, "block": block_words(block)} for row in levels]
        else:
            for axis in self.axes:
                rows += self._levels(records, variants, axis)
        data = pd.DataFrame(rows, columns=COLUMNS)
        data = data.astype(dict.fromkeys(("value", "low", "high", "_dot"), float))
        notes = leaky_notes(records, records.chosen(self.where), is_shown=False)
        if unfinished_rows := data["value"].isna().sum():
            notes.append(f"{unfinished_rows} of {plural(len(data), 'row')} have no finished run")
        data.attrs["notes"] = [*notes, *cut_note(records, 0 if self.axes else len(variants), MAX_ROWS)]
        return data

    def caption(self, data: pd.DataFrame) -> str:
        words = "Dots: means over seeds. Bars: 95 % intervals"
        if data["_is_split"].any():
            words += ". Where some seeds did not learn, the dot is the mean of those that did"
        settings = sorted({count for count in data["settings"] if count > 1})
        if settings:
            counts = " or ".join(map(str, settings))
            words += f". A mean is over {counts} settings of the other factors"
        return words

    def finding(self, data: pd.DataFrame) -> str:
        """Return the best level of each factor, of at most three, or the best variant with its mean."""
        if metric(self.metric).better is None or data["block"].nunique() > 1:
            return ""
        best = ranked(data, self.metric).drop_duplicates("factor").sort_index().to_dict("records")
        words = [level_words(row["factor"], row["level"]) if row["factor"] else row["level"] for row in best]
        value = f"{quantity(self.metric, best[0]['value'])} with " if len(best) == 1 else ""
        return f"best {value}{join_labels(words, ', ')}" if words else ""

    def draw(self, data: pd.DataFrame) -> go.Figure:
        title = metric(self.metric).heading
        is_begun = data.groupby("block")["value"].transform("count") > 0
        rows = data[is_begun].drop(columns="value").rename(columns={"_dot": "value"})
        rows = rows.assign(
            group=(title + ", " + rows["block"]).str.removesuffix(", "),
            label=rows["level"].map(value_text),
            mark="yes",
            verdict=title,
            about=rows["n"].map("n={}".format),
            _size=rows["_text"].str.partition(" [")[0],
            _interval=rows["_text"].str.extract(r" (\[.*)", expand=False),
        )
        if rows["factor"].nunique() > 1:
            heads = rows.drop_duplicates("factor")[["factor", "group"]]
            heads = heads.assign(label=heads["factor"].map(axis_title), mark=HEADING)
            # a stable sort puts each heading before the first of its rows
            rows = pd.concat([heads, rows]).sort_index(kind="stable")
        return draw_rows(rows)

    def _levels(self, records: StudyRecords, variants: Sequence[int], axis: str) -> list[Json]:
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
        order = order if all(map(is_number, order)) else sorted(cells, key=lambda level: rank(cells[level]))
        return [
            {**row_of(cells[level]), "factor": axis, "level": level, "settings": len(settings)}
            for level in order
        ]


def row_of(point: Cell) -> Json:
    """Return the columns that a cell fills, with its number and interval in words."""
    text, is_split = "".join(map(str, number_content(point))), point.estimate.why is Why.SPLIT
    row = {**point_row(point), "factor": "", "block": "", "_text": text}
    return {**row, "_dot": printed_value(point), "_is_split": is_split}
