"""One cell of a table, and everything behind it: its runs, where they come from, and how its number follows from theirs."""

from collections.abc import Iterator, Sequence
from statistics import stdev

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text
from scipy.special import stdtrit

from recstudy.analysis.frame import StudyRecords, load_study
from recstudy.analysis.names import metric, number, plain
from recstudy.analysis.report import shortest
from recstudy.analysis.stats import LEVEL
from recstudy.analysis.tables.cell_names import Found, find_cell, study_of
from recstudy.analysis.tables.cells import Cell
from recstudy.analysis.tables.differences import gap
from recstudy.analysis.tables.render import cell_text
from recstudy.analysis.targets import Placed
from recstudy.records import Json, Results

HEADS = ("run", "seed", "variant", "value", "commit", "data checksum", "machine", "finished")
SHORT = 12  # characters of a checksum or commit that tell it apart


def show_cell(studies: Sequence[tuple[Results, str, str]], name: str, out: Console) -> None:
    """Print what is behind the cell; of several studies (results folder, name, preset), the one that has its table.

    Raises:
        ConfigError: no study or more than one has it.
    """
    records = study_of([load_study(*study) for study in studies], name)
    found = find_cell(records, name)
    out.print(Text(heading(found), style="bold"), soft_wrap=True)
    shown = RichTable(*HEADS, box=None)
    for row in runs_behind(records, found.cell):
        shown.add_row(*map(Text, row))
    out.print(shown if found.cell.run_ids else Text("No run is behind it."))
    for line in explain(records, found):
        out.print(Text(line), soft_wrap=True)
    out.print(Text(f"Records: {shortest(records.results.root / 'runs')}/RUN"), soft_wrap=True)


def explain(records: StudyRecords, found: Found) -> Iterator[str]:
    """The lines under the table of runs: how the number follows, what is not in it, and what is published."""
    cell = found.cell
    yield from _arithmetic(cell)
    yield from (f"Not in it: run {run['id']}, seed {run['seed']}, {run['label']}: {why}" for run, why in _others(records, cell))
    yield from (f"Not available: {why}" for why in cell.unavailable)
    yield from (line for placed in cell.placed for line in _published(placed, cell))
    yield from [] if cell.placed else ["Published: no value belongs here."]


def runs_behind(records: StudyRecords, cell: Cell) -> list[tuple[str, ...]]:
    """A row of words a run, under `HEADS`."""
    rows = {row["id"]: row for row in records.rows}
    return [_run(rows[run_id], cell.metric, value) for run_id, value in zip(cell.run_ids, cell.values, strict=True)]


def heading(found: Found) -> str:
    place = f"{found.table.name}, row {found.row!r}, column {found.column!r}"
    return f"{place}: {metric(found.cell.metric).heading} {cell_text(found.cell)}"


def _run(row: Json, name: str, value: float) -> tuple[str, ...]:
    made = {key: row.get(f"provenance.{key}") for key in ("commit", "data_checksum", "host", "cpu", "gpu", "finished")}
    commits = [part[:SHORT] for part in str(made["commit"] or "unknown").split(", then ")]
    commit = ", then ".join(commits) + " with uncommitted changes" * bool(row.get("provenance.dirty"))
    machine = ", ".join(str(made[key]) for key in ("host", "gpu" if made["gpu"] else "cpu") if made[key])
    checksum, finished = str(made["data_checksum"] or "")[:SHORT], str(made["finished"] or "")
    return row["id"], str(row["seed"]), row["label"], f"{value:.10g}", commit, checksum, machine, finished


def _arithmetic(cell: Cell) -> Iterator[str]:
    """How mean and interval follow from the values."""
    values, n = cell.values, cell.n
    if not values:
        yield f"No number: {cell_text(cell)}"
        return
    yield f"Mean: ({' + '.join(f'{value:.10g}' for value in values)}) / {n} = {cell.value:.10g}"
    if metric(cell.metric).computed:
        yield "It follows from the config, so that seeds do not matter and it has no interval."
    elif cell.low is None or cell.high is None or cell.value is None:
        yield "95 % interval: none, of one run."
    else:
        deviation = stdev(values)
        half = f"{stdtrit(n - 1, 0.5 + LEVEL / 2):.4g} * {deviation:.4g} / sqrt({n}) = {cell.high - cell.value:.4g}"
        yield f"Standard deviation (n - 1): {deviation:.4g}"
        yield f"95 % interval: {cell.low:.6g} to {cell.high:.6g}, the mean ± t(0.975; {n - 1}) * s / sqrt(n) = {half}"


def _others(records: StudyRecords, cell: Cell) -> Iterator[tuple[Json, str]]:
    """The other runs of the same variants, and why they are not in the cell."""
    variants = {row["variant"] for row in records.rows if row["id"] in cell.run_ids}
    for row in records.rows:
        if row["variant"] in variants and row["id"] not in cell.run_ids:
            yield row, gap(row, cell.metric) or "finished, and of another purpose than this cell"


def _published(placed: Placed, cell: Cell) -> Iterator[str]:
    """The published value, its source and settings, and how the verdict follows."""
    target = placed.target
    note = f" Note: {target.note}." if target.note else ""
    yield f"Published: {number(target.metric, placed.value)} {metric(target.metric).unit} ({target.kind}), {target.source}.{note}"
    yield f"    of {', '.join(f'{path} {plain(value)}' for path, value in target.where.items())}"
    verdict = placed.verdict(cell.values)
    yield f"Verdict: {verdict}{_why(verdict, placed, cell)}"


def _why(verdict: str, placed: Placed, cell: Cell) -> str:
    margin = f"{placed.margin:.4g} {metric(cell.metric).unit}".strip()
    match verdict:
        case "not comparable":
            return f": {'; '.join(placed.reasons)}"
        case "not run":
            return ""
        case "reproduced" if metric(cell.metric).computed:
            return f": the count rounds to the published digits (within {margin})"
        case "differs" if metric(cell.metric).computed:
            return f": the count is more than {margin} off"
        case "reproduced":
            return f": both one-sided t tests at 0.05 place the mean within {margin} of it (equivalence)"
        case "differs":
            return ": the 95 % interval excludes it, and the mean was not shown to be within the margin of " + margin
        case _:
            few = "one run has no interval" if cell.n == 1 else "the 95 % interval holds it"
            return f": {few}, and the mean was not shown to be within the margin of {margin}"
