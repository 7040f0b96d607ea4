"""One number of a table, and everything behind it: its runs, where they come from, and how it follows from theirs."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from recstudy.analysis.frame import StudyRecords, load_studies
from recstudy.analysis.rows import Row
from recstudy.analysis.tables.cell_names import find, study_of, tables_of
from recstudy.analysis.tables.explain_cells import Behind
from recstudy.plugins import reading
from recstudy.records import Results
from recstudy.terminal import shortest

HEADS = ("run", "seed", "variant", "value", "commit", "data checksum", "machine", "finished")
SHORT = 12  # characters of a checksum or commit that tell it apart


def show_cell(studies: Sequence[tuple[Results, str, str]], name: str, out: Console) -> None:
    """Print what is behind a number; of several studies (results folder, name, preset), the one that has its table.

    Raises:
        ConfigError: no study or more than one has it.
        StorageError: none that can be read has it, and one is damaged.
    """
    readable, damaged = load_studies(studies)
    if damaged and not any(name.partition(":")[0] in tables_of(records) for records in readable.values()):
        raise damaged[0]
    records = study_of(list(readable.values()), name)
    with reading(records.plugins):
        found = find(records, name)
        told = found.behind(records)
    out.print(Text(f"{found.table}, row {found.row!r}, column {found.column!r}: {told.number}", style="bold"), soft_wrap=True)
    shown = RichTable(*HEADS, box=None)
    for row in runs_behind(records, told):
        shown.add_row(*map(Text, row))
    out.print(shown if told.runs else Text("No run is behind it."))
    for line in told.lines:
        out.print(Text(line), soft_wrap=True)
    out.print(Text(f"Records: {shortest(records.results.root / 'runs')}/RUN"), soft_wrap=True)


def runs_behind(records: StudyRecords, told: Behind) -> list[tuple[str, ...]]:
    """A row of words a run, under `HEADS`."""
    rows = {row.id: row for row in records.rows}
    return [_run(rows[run_id], value) for run_id, value in told.runs]


def _run(row: Row, value: float) -> tuple[str, ...]:
    made = row.provenance
    commits = [part[:SHORT] for part in (made.made_by or "unknown").split(", then ")]
    commit = ", then ".join(commits) + " with uncommitted changes" * made.dirty
    machine = ", ".join(filter(None, (made.hardware.host, made.hardware.gpu or made.hardware.cpu)))
    return row.id, str(row.seed), row.label, f"{value:.10g}", commit, made.data_checksum[:SHORT], machine, made.finished
