"""The published values beside the variants of a study: each once, with its verdict."""

from __future__ import annotations

from recstudy.report.family import published_values
from recstudy.report.markup import Html, markup
from recstudy.report.names import metric
from recstudy.report.study_records import StudyRecords
from recstudy.report.tables.render import cell_text, margin_notes, outcome_words


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
