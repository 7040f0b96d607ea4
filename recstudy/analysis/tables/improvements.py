"""By how much one variant is better than each of the others, in percent of the other's score: a column of 003's Table I.

    delta = 100 (ours - row) / row   (1)   or, of a metric that is better lower,   100 (row - ours) / row   (2)

The paper takes (1) of two printed numbers: 6.33 of 0.638 and 0.600. Here it is taken of the two runs of each seed.
"""

from dataclasses import replace

from recstudy.analysis.caveats import LEAK
from recstudy.analysis.cells import Cell, cell_of, commit, gap, nearest_placed
from recstudy.analysis.fits import weighted
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.analysis.targets import Placement, place
from recstudy.evidence import ratio
from recstudy.report import Table
from recstudy.report.names import improved, metric, plain

ZERO = "no percentage of a score of 0 or less"
NONE = "no variant to compare it with"


def improvement_cell(records: StudyRecords, spec: Table, index: int, name: str, placement: Placement) -> Cell:
    """The cell of a relative improvement, on pairs of runs. What speaks against either published number does against theirs."""
    ours = improving(records, spec, index)
    made = cell_of(records, [index], name, improvements(records, index, ours, name))
    if ours is not None and made.values:
        of = improved(name)
        sign = -1.0 if metric(of).better == "lower" else 1.0
        made = replace(made, estimate=ratio(weighted(records, ours, of), weighted(records, index, of), sign))
    against = {run.seed: run for run in records.by_variant[ours] if run.seed in made.seeds} if ours is not None else {}
    placed = nearest_placed(placement.placed.get((index, name), ()))
    doubts = _doubts(records, spec, ours, improved(name)) if placed else ()
    return replace(
        made,
        placed=tuple(replace(one, reasons=tuple(dict.fromkeys([*one.reasons, *doubts]))) for one in placed),
        against=tuple(against[seed].id for seed in made.seeds),
        commits=tuple(dict.fromkeys([*made.commits, *map(commit, against.values())])),
    )


def _doubts(records: StudyRecords, spec: Table, index: int | None, name: str) -> tuple[str, ...]:
    """Why no published value of this metric compares with the variant's; empty where one does."""
    if index is None:
        return (NONE,)
    found = nearest_placed(place(records, spec.targets, [index], [name]).placed.get((index, name), ()))
    none = f"no published {metric(name).title} has the settings of {records.variants[index].label}"
    return tuple(reason for one in found for reason in one.reasons) if found else (none,)


def improving(records: StudyRecords, spec: Table, index: int) -> int | None:
    """The variant at the levels of `improvement`, and at the row's own of every other axis; None where no single one is there.

    Raises:
        ConfigError: the study has no such axis.
    """
    others = {axis: records.level(index, axis) for axis in records.variants[index].levels if axis not in spec.improvement}
    found = records.chosen(others | spec.improvement)
    return found[0] if len(found) == 1 else None


def improvements(records: StudyRecords, index: int, ours: int | None, name: str) -> list[Row]:
    """The row's runs, each with the improvement `name` (`avg_bleu_delta`), or with why it has none."""
    runs = records.by_variant[index]
    if ours == index:
        return runs
    theirs = {run.seed: run for run in records.by_variant[ours]} if ours is not None else {}
    refused = _refused(records, index, ours)
    return [_improved(run, theirs.get(run.seed), name, refused) for run in runs]


def improvement_notes(spec: Table) -> tuple[str, ...]:
    """What the deltas of a table are, where it has any."""
    titles = [metric(name).title for name in spec.metrics if improved(name)]
    ours = ", ".join(plain(level) for level in spec.improvement.values())
    how = f"by how much {ours} is better than the row, in percent of the row's score, on the seeds that both have"
    return (f"{', '.join(titles)}: {how}",) if titles else ()


def relative(of: str, ours: float, row: float) -> float:
    """(1) or (2); what the division leaves beyond the ninth decimal is rounding, and no spread."""
    gain = row - ours if metric(of).better == "lower" else ours - row
    return round(100 * gain / row, 9)


def _refused(records: StudyRecords, index: int, ours: int | None) -> str:
    """Why the two are not compared at all; empty where they are."""
    if ours is None:
        return NONE
    if records.leaks(index) or records.leaks(ours):
        return f"{'it' if records.leaks(index) else records.variants[ours].label} {LEAK}"
    return "" if records.variants[index].data == records.variants[ours].data else "measured on other data"


def _improved(run: Row, other: Row | None, name: str, refused: str) -> Row:
    of = improved(name)
    if not run.done:
        return run  # a cell says so by itself
    if not refused and not gap(run, of) and not gap(other, of) and other is not None and run.number(of) > 0:
        return replace(run, added={name: relative(of, other.number(of), run.number(of))})
    return replace(run, lacking={name: refused or run.unavailable.get(of) or gap(run, of) or _theirs(other, of) or ZERO})


def _theirs(other: Row | None, of: str) -> str:
    why = gap(other, of)
    return f"{other.label if other else 'the other variant at this seed'} {why}" if why else ""
