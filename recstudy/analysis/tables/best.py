"""The best trials of a search as a table: what the search saw of them, and what fresh seeds make of them."""

from dataclasses import replace

from recstudy.analysis.caveats import caption, text_notes, warnings
from recstudy.analysis.cells import Cell, TableData, TableRow, cell_of
from recstudy.analysis.fits import spread_notes
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.trials import ranked, search_of, trial_table
from recstudy.records.study_schema import SearchRecord
from recstudy.report import Best
from recstudy.report.names import metric

LUCKY = (
    "Scores of fresh seeds leave out the seed that the search used: the best of many trials is also the luckiest of them "
    "(winner's curse). Of several fresh means the best is again a little lucky, so none is marked"
)


def best_data(records: StudyRecords, spec: Best) -> TableData:
    """One row a trial, the best first: each objective as the search saw it, then the metrics over the fresh seeds.

    Raises:
        ConfigError: the study is no search.
    """
    search = search_of(records, spec.name)
    order = ranked(trial_table(records, search), search.objectives).head(spec.most)
    seen = [name for name in search.objectives if name not in spec.metrics]
    variants = [int(index) for index in order["variant"]]
    rows = [
        TableRow(
            f"{number}: {records.variants[index].label}",
            (
                *(_searched(records, index, name) for name in seen),
                *(_fresh(records, search, index, name) for name in spec.metrics),
            ),
        )
        for number, index in zip(order["trial"], variants, strict=True)
    ]
    return TableData(
        name=spec.name,
        title=spec.heading,
        corner="trial",
        columns=(*(f"{metric(name).heading}, in the search" for name in seen), *map(_head, spec.metrics)),
        rows=tuple(rows),
        beneath=False,
        caption=caption(records, range(len(records.variants))),
        warnings=(*warnings(records), *([] if rows else ["no trial has finished yet"])),
        notes=(
            *text_notes(records, variants, spec.metrics),
            *spread_notes(records, variants, spec.metrics),
            *_notes(search),
        ),
        unmatched_targets=(),
    )


def _searched(records: StudyRecords, index: int, name: str) -> Cell:
    """An objective of the search's own run."""
    run = records.by_variant[index][0]
    value = run.objective(name)
    return cell_of(records, [index], name, [run if value is None else replace(run, added={name: value})])


def _fresh(records: StudyRecords, search: SearchRecord, index: int, name: str) -> Cell:
    """A metric over the fresh seeds; what follows from the config alone is known without them."""
    own, *fresh = records.by_variant[index]
    if metric(name).computed:
        return cell_of(records, [index], name, [own, *fresh])
    planned = len(search.confirm.seeds) if index in search.confirmed else 0
    return replace(cell_of(records, [index], name, fresh), expected=max(planned, len(fresh)))


def _head(name: str) -> str:
    return metric(name).heading if metric(name).computed else f"{metric(name).heading}, fresh seeds"


def _notes(search: SearchRecord) -> tuple[str, ...]:
    planned = search.confirm
    seeds = ", ".join(map(str, planned.seeds))
    none = "No fresh seeds are planned, so no score here is free of luck"
    several = len(search.objectives) > 1
    front = ["Rows are ordered by the first objective, those on the Pareto front before all others"] if several else []
    plan = f"{LUCKY}. The best {planned.best} are run again with {'seeds' if planned.seeds[1:] else 'seed'} {seeds}"
    return (*front, plan if planned.seeds else none)
