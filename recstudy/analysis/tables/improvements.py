"""By how much one variant is better than each of the others, in percent of the other's score: a column of 003's Table I.

    delta = 100 (ours - row) / row   (1)   or, of a metric that is better lower,   100 (row - ours) / row   (2)

Both are means over all runs of a variant; the paper takes (1) of two printed numbers: 6.33 of 0.638 and 0.600.
"""

from dataclasses import replace

from recstudy.analysis.caveats import LEAK
from recstudy.analysis.cells import Cell, cell_of, nearest_placed
from recstudy.analysis.fits import weighted
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.targets import Placement, place
from recstudy.evidence import Estimate, ratio
from recstudy.report import Table
from recstudy.report.names import improved, metric, plain

NOTHING = Estimate(None)
ZERO = "no percentage of a score of 0 or less"
NONE = "no variant to compare it with"


def improvement_cell(records: StudyRecords, spec: Table, index: int, name: str, placement: Placement) -> Cell:
    """The cell of a relative improvement. What speaks against either published number does against theirs."""
    ours, of = improving(records, spec, index), improved(name)
    row = cell_of(records, [index], of, records.by_variant[index])
    if ours is None or ours == index:
        made = _none(row, NONE if ours is None else "")
    else:
        made = _compared(records, row, cell_of(records, [ours], of, records.by_variant[ours]), index, ours)
    placed = nearest_placed(placement.placed.get((index, name), ()))
    doubts = _doubts(records, spec, ours, of) if placed else ()
    placed = tuple(replace(one, reasons=tuple(dict.fromkeys([*one.reasons, *doubts]))) for one in placed)
    return replace(made, metric=name, placed=placed)


def _compared(records: StudyRecords, row: Cell, ours: Cell, index: int, base: int) -> Cell:
    """The row's cell as that of the ratio; runs that either side lost count for both."""
    refused = _refused(records, index, base)
    if row.value is None or refused:
        return _none(row, refused)
    if ours.value is None or row.value <= 0:
        return _none(row, ZERO if ours.value is not None else f"{records.variants[base].label}: no value")
    sign = -1.0 if metric(row.metric).better == "lower" else 1.0
    means = [weighted(records, at, row.metric) for at in (base, index)]
    again = [one and one._replace(variance=one.variance and one.variance * (one.n + 1)) for one in means]  # of one more run each
    return replace(
        row,
        estimate=ratio(means[0], means[1], sign),
        prediction=ratio(again[0], again[1], sign),
        left=row.left + ours.left,
        failed=(*row.failed, *ours.failed),
        diverged=row.diverged + ours.diverged,
        against=ours.run_ids,
        seeds=tuple(dict.fromkeys([*row.seeds, *ours.seeds])),
        commits=tuple(dict.fromkeys([*row.commits, *ours.commits])),
    )


def _none(row: Cell, why: str) -> Cell:
    """The row's cell without a number; `why` where runs have finished."""
    unavailable = row.unavailable or ((why,) if why and row.values else ())
    lacking = row.lacking + row.n
    return replace(
        row,
        estimate=NOTHING,
        prediction=NOTHING,
        values=(),
        run_ids=(),
        seeds=(),
        commits=(),
        lacking=lacking,
        unavailable=unavailable,
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


def improvement_notes(spec: Table) -> tuple[str, ...]:
    """What the deltas of a table are, where it has any."""
    titles = [metric(name).title for name in spec.metrics if improved(name)]
    ours = ", ".join(plain(level) for level in spec.improvement.values())
    how = f"by how much {ours} is better than the row, in percent of the row's score"
    return (f"{', '.join(titles)}: {how}",) if titles else ()


def _refused(records: StudyRecords, index: int, ours: int) -> str:
    """Why the two are not compared at all; empty where they are."""
    if records.leaks(index) or records.leaks(ours):
        return f"{'it' if records.leaks(index) else records.variants[ours].label} {LEAK}"
    return "" if records.variants[index].data == records.variants[ours].data else "measured on other data"
