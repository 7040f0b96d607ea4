"""The published values beside the variants of a study: each once, with its verdict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from recstudy.evidence import Answer
from recstudy.report.cells import Cell, cell
from recstudy.report.markup import Html, markup
from recstudy.report.names import metric
from recstudy.report.parts import BesidePublished, OfVariants
from recstudy.report.study_records import StudyRecords
from recstudy.report.tables.render import cell_text, margin_notes, outcome_words
from recstudy.report.targets import Placed, place


class PublishedValue(NamedTuple):
    """A published value beside a variant's own result, and the verdict on it."""

    label: str
    cell: Cell
    placed: Placed
    answer: Answer[str]


def published_values(records: StudyRecords) -> list[PublishedValue]:
    """Return the published values that the report shows, each once."""
    return records.once("published values", lambda: list(_distinct_values(records)))


def _distinct_values(records: StudyRecords) -> Iterable[PublishedValue]:
    values: dict[object, PublishedValue] = {}
    for part in records.parts:
        if isinstance(part, BesidePublished) and part.targets:
            variants = records.chosen(part.where) if isinstance(part, OfVariants) else []
            placement = place(records, part.targets, variants, part.shows)
            for index, name in placement.placed:
                result = cell(records, [index], name, placement)
                for placed, answer in result.answers:
                    key = placed.target.source, name, placed.value, answer.verdict
                    values.setdefault(key, PublishedValue(records.variants[index].label, result, placed, answer))
    return values.values()


def published_html(records: StudyRecords) -> Html:
    """Return a table of the published values; reasons that make values not comparable are listed once below it."""
    values = published_values(records)
    heads = ("variant", "metric", "published", "here", "verdict", "source")
    rows = [
        (
            value.label,
            metric(value.cell.metric).title,
            value.placed.text,
            cell_text(value.cell),
            outcome_words(value.placed, value.answer),
            value.placed.target.cited,
        )
        for value in values
    ]
    labels: dict[tuple[str, ...], dict[str, None]] = {}
    for value in values:
        if value.placed.reasons:
            labels.setdefault(value.placed.reasons, {})[value.label] = None
    notes = margin_notes([value.cell for value in values])
    notes += [f"Not comparable ({', '.join(names)}): {'; '.join(reasons)}." for reasons, names in labels.items()]
    return markup("published", heads, rows, notes, template="study") if rows else Html("")
