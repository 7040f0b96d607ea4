"""A paper's table, with a setting such as the learning rate tuned in each of its cells, by the selection split alone."""

from collections.abc import Sequence
from dataclasses import replace

from recstudy.analysis.cells import TableData
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.tables.table import table_data
from recstudy.evidence import mean_of
from recstudy.report import Table, Tuned
from recstudy.report.names import axis_title, metric, plain

Place = tuple[str, str]  # levels of rows and columns, in words


def tuned_data(records: StudyRecords, spec: Tuned) -> TableData:
    """The table of the chosen variants, with notes on what was chosen. Places without a finished run keep all their levels open.

    Raises:
        ConfigError: `rows`, `columns`, `over` or `where` name what the study does not have.
    """
    places = _places(records, spec)
    best = {place: best_by(records, spec.by, variants) for place, variants in places.items()}
    chosen = [index for index in best.values() if index is not None]
    table = Table(spec.name, metrics=(spec.metric,), rows=spec.rows, columns=spec.columns, title=spec.heading)
    data = table_data(_only(records, chosen), table)
    words = [f"{', '.join(place)}: {_level(records, spec, index)}" for place, index in best.items() if index is not None]
    open_ = [", ".join(place) for place, index in best.items() if index is None]
    notes = [f"{axis_title(spec.over)} of each cell: {'; '.join(words)}"] if words else []
    notes += [f"no run has finished yet: {'; '.join(open_)}"] if open_ else []
    how = f"in each cell the {axis_title(spec.over)} with the best {metric(spec.by).title}"
    return replace(data, notes=(how, *data.notes, *notes))


def _places(records: StudyRecords, spec: Tuned) -> dict[Place, list[int]]:
    """The variants of each cell, which differ in the tuned setting."""
    places: dict[Place, list[int]] = {}
    for index in records.chosen(spec.where):
        _level(records, spec, index)  # an axis that the study does not have is refused
        place = plain(records.level(index, spec.rows)), plain(records.level(index, spec.columns))
        if not records.leaks(index):
            places.setdefault(place, []).append(index)
    return places


def best_by(records: StudyRecords, by: str, variants: Sequence[int]) -> int | None:
    """The variant with the best mean score on the selection split, the first of equals; None where none has one."""
    scores = {index: score for index in variants if (score := _score(records, by, index)) is not None}
    lower = metric(by).better == "lower"
    return min(scores, key=lambda index: scores[index] if lower else -scores[index], default=None)


def _score(records: StudyRecords, by: str, index: int) -> float | None:
    values = [run.objective(by) for run in records.by_variant[index] if run.done]
    known = [value for value in values if value is not None]
    return mean_of(known) if known else None


def _level(records: StudyRecords, spec: Tuned, index: int) -> str:
    return plain(records.level(index, spec.over))


def _only(records: StudyRecords, chosen: Sequence[int]) -> StudyRecords:
    """The records of these variants alone."""
    at = {old: new for new, old in enumerate(chosen)}
    plan = replace(records.plan, variants=tuple(records.variants[index] for index in chosen), runs=())
    rows = [replace(row, variant=at[row.variant]) for row in records.rows if row.variant in at]
    return StudyRecords(records.results, plan, rows)
