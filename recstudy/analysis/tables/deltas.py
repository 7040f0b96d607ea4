"""By how much one variant is better than each of the others, in percent of the other's score: a column of 003's Table I.

    delta = 100 (ours - row) / row   (1)   or, of a metric that is better lower,   100 (row - ours) / row   (2)

The paper takes (1) of two printed numbers: 6.33 of 0.638 and 0.600. Here it is taken of the two runs of each seed.
"""

from recstudy.analysis.captions import LEAK
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.names import improved, metric, plain
from recstudy.analysis.spec import Table
from recstudy.analysis.tables.gaps import gap
from recstudy.records import Json

ZERO = "no percentage of a score of 0 or less"
NONE = "no variant to compare it with"


def improving(records: StudyRecords, spec: Table, index: int) -> int | None:
    """The variant at the levels of `improvement`, and at the row's own of every other axis; None where no single one is there.

    Raises:
        ConfigError: the study has no such axis.
    """
    others = {axis: records.level(index, axis) for axis in records.variants[index]["levels"] if axis not in spec.improvement}
    found = records.chosen(others | spec.improvement)
    return found[0] if len(found) == 1 else None


def improvements(records: StudyRecords, index: int, ours: int | None, name: str) -> list[Json]:
    """The row's runs, each with the improvement `name` (`avg_bleu_delta`), or with why it has none."""
    runs = records.by_variant[index]
    if ours == index:
        return runs
    theirs = {run["seed"]: run for run in records.by_variant[ours]} if ours is not None else {}
    refused = _refused(records, index, ours)
    return [run | _improvement(run, theirs.get(run["seed"]), name, refused) for run in runs]


def delta_notes(spec: Table) -> tuple[str, ...]:
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
        return f"{'it' if records.leaks(index) else records.variants[ours]['label']} {LEAK}"
    return "" if records.variants[index]["data"] == records.variants[ours]["data"] else "measured on other data"


def _improvement(run: Json, other: Json | None, name: str, refused: str) -> Json:
    of = improved(name)
    if run["status"] != "done":
        return {}  # a cell says so by itself
    if not refused and not gap(run, of) and not gap(other, of) and other is not None and run[of] > 0:
        return {name: relative(of, float(other[of]), float(run[of]))}
    why = refused or run.get("unavailable", {}).get(of) or gap(run, of) or _theirs(other, of) or ZERO
    return {"unavailable": {**run.get("unavailable", {}), name: why}}


def _theirs(other: Json | None, of: str) -> str:
    why = gap(other, of)
    return f"{other['label'] if other else 'the other variant at this seed'} {why}" if why else ""
