"""One number of a table, and everything behind it: its runs, where they come from, and how it follows from theirs."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from recstudy.analysis.frame import StudyRecords, load_study
from recstudy.analysis.report import shortest
from recstudy.analysis.tables.cell_names import Found, find, study_of
from recstudy.analysis.tables.cells import Cell
from recstudy.analysis.tables.differences import Difference, DifferencesData
from recstudy.analysis.tables.effects import Effect, EffectsData
from recstudy.analysis.tables.explain_cells import Behind, cell_behind
from recstudy.analysis.tables.explain_tests import difference_behind, effect_behind
from recstudy.analysis.tables.settings import settings_text
from recstudy.records import Json, Results

HEADS = ("run", "seed", "variant", "value", "commit", "data checksum", "machine", "finished")
SHORT = 12  # characters of a checksum or commit that tell it apart


def show_cell(studies: Sequence[tuple[Results, str, str]], name: str, out: Console) -> None:
    """Print what is behind a number; of several studies (results folder, name, preset), the one that has its table.

    Raises:
        ConfigError: no study or more than one has it.
    """
    records = study_of([load_study(*study) for study in studies], name)
    found = find(records, name)
    told = behind(records, found)
    out.print(Text(f"{found.table}, row {found.row!r}, column {found.column!r}: {told.number}", style="bold"), soft_wrap=True)
    shown = RichTable(*HEADS, box=None)
    for row in runs_behind(records, told):
        shown.add_row(*map(Text, row))
    out.print(shown if told.runs else Text("No run is behind it."))
    for line in told.lines:
        out.print(Text(line), soft_wrap=True)
    out.print(Text(f"Records: {shortest(records.results.root / 'runs')}/RUN"), soft_wrap=True)


def behind(records: StudyRecords, found: Found) -> Behind:
    """The number in words, its runs, and how it follows from them."""
    match found.thing, found.among:
        case Cell() as cell, _:
            return cell_behind(records, cell)
        case Difference() as row, DifferencesData() as data:
            return difference_behind(records, row, data)
        case Effect() as effect, EffectsData() as data:
            return effect_behind(effect, data)
        case dict() as setting, _:
            return _setting(setting)
    raise AssertionError(found)  # a thing without the table that it is of


def runs_behind(records: StudyRecords, told: Behind) -> list[tuple[str, ...]]:
    """A row of words a run, under `HEADS`."""
    rows = {row["id"]: row for row in records.rows}
    return [_run(rows[run_id], value) for run_id, value in told.runs]


def _setting(setting: dict[str, str]) -> Behind:
    fields = [f"{path} = {word}" for path, word in setting.items()]
    return Behind(settings_text(tuple(setting.values())), (), ("A setting of the row, from its config:", *fields))


def _run(row: Json, value: float) -> tuple[str, ...]:
    made = {key: row.get(f"provenance.{key}") for key in ("commit", "data_checksum", "host", "cpu", "gpu", "finished")}
    commits = [part[:SHORT] for part in str(made["commit"] or "unknown").split(", then ")]
    commit = ", then ".join(commits) + " with uncommitted changes" * bool(row.get("provenance.dirty"))
    machine = ", ".join(str(made[key]) for key in ("host", "gpu" if made["gpu"] else "cpu") if made[key])
    checksum, finished = str(made["data_checksum"] or "")[:SHORT], str(made["finished"] or "")
    return row["id"], str(row["seed"]), row["label"], f"{value:.10g}", commit, checksum, machine, finished
