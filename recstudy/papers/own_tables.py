"""Published tables of one's own: a CSV beside the study, a row a number, with the settings that it was obtained with.

    model,metric,value,unit,item,train.batch_size,train.epochs,reference.train.optimizer
    ViTRM,top1_accuracy,93.1,percent,Table 2,128,1000,adamw

A column called by a setting is what the number is of: it finds the variant that the number stands beside. Settings are config
fields (`train.batch_size`), or those of a user's own program (`depth`). A column of `reference.` and a setting is what its source
states besides, and what a result must agree with or state as a deviation. An empty cell says nothing; `?` says that the source
leaves the value blank.

The file is read when the study's file is. Its names are checked when the study is planned: only then the program is known.
"""

import csv
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from recstudy.errors import ConfigError, choices, nearest
from recstudy.plugins import caller
from recstudy.programs.base import load_program
from recstudy.programs.metric import METRICS
from recstudy.programs.settings import PREFIX, RunSettings, flatten
from recstudy.records.files import Json

NEEDED = ("metric", "value")
COLUMNS = (*NEEDED, "unit", "model", "paper", "item", "id", "kind", "note", "assumed", "approximate")
KINDS_OF_NUMBERS = ("reported", "derived", "author_repo")
REFERENCE = "reference."
BLANK = "?"
UNITS = {"%": ("percent", "%", "fraction"), "": ("", "million", "millions", "billion")}  # by the unit of a metric here
Settings = dict[str, tuple[str, Any]]  # column -> the setting's path, and its value as a plan has it; None of a blank


@dataclass(frozen=True)
class SourceRow:
    """A row of a user's table: where it is, its cells by column, and the margin that `published` was given."""

    file: str
    line: int
    cells: Mapping[str, str]
    margin: float = 0.0

    def refuse(self, column: str, why: str, line: int = 0) -> NoReturn:
        raise ConfigError(f"{self.file}, line {line or self.line}, column {column!r}: {why}")

    @property
    def settings(self) -> dict[str, str]:
        """The columns of settings, with what stands in them."""
        return {column: text for column, text in self.cells.items() if column not in COLUMNS}


def own_rows(table: str | Path) -> list[SourceRow]:
    """Read the rows of a file, which lies relative to the file that asks for it.

    Raises:
        ConfigError: it is not there, or a column or cell is missing. The message names file, line and column.
    """
    path = asking_folder() / table
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            heads = [head.strip() for head in next(lines, [])]
            _check_heads(SourceRow(path.name, 1, {}), heads)
            rows = [(lines.line_num, [cell.strip() for cell in cells]) for cells in lines if any(map(str.strip, cells))]
    except OSError as error:
        raise ConfigError(f"no published table {str(path)!r}: {error.strerror}") from None
    except (csv.Error, UnicodeError) as error:
        raise ConfigError(f"{path.name} is no CSV file: {error}") from None
    for line, cells in rows:
        if len(cells) != len(heads):
            column = heads[min(len(cells), len(heads)) - 1]
            found = f"the line has {len(cells)} cells, and {len(heads)} columns have a name"
            SourceRow(path.name, line, {}).refuse(column, found)
    return [SourceRow(path.name, line, dict(zip(heads, cells, strict=True))) for line, cells in rows]


def asking_folder() -> Path:
    """Return the folder of the first file outside of recstudy that is being run; in a notebook, where there is none, this one."""
    file = caller().get("__file__")
    return Path(file).resolve().parent if file else Path()


def _check_heads(row: SourceRow, heads: Sequence[str]) -> None:
    for column in NEEDED:
        if column not in heads:
            row.refuse(column, f"it is missing: there are {choices(heads) or 'none'}")
    for place, head in enumerate(heads):
        if head in heads[:place]:
            row.refuse(head, "it is there twice")


def target_fields(row: SourceRow, settings: Settings) -> dict[str, Any]:
    """Return the fields of a `Target`, with the settings that its row names.

    Raises:
        ConfigError: the metric or its unit is unknown. The message names file, line and column.
    """
    cells = row.cells
    where: dict[str, Any] = {}
    reference: dict[str, Any] = {}
    for column, (path, value) in settings.items():
        blank = cells[column] == BLANK
        if not column.startswith(REFERENCE) and (blank or value is not None):
            where[path] = value  # of which None says that the source leaves it blank
        elif not blank:
            reference[path] = value
    if cells.get("model") and "model.family" not in where:  # else found by its settings, and not by its name
        where["model"] = cells["model"]
    name = cells["metric"].partition("@")[0].partition(".")[0].removesuffix("_delta")
    metric = METRICS.get(name) or METRICS.get(name.removeprefix("train_").removeprefix("selection_"))
    if metric is None:
        row.refuse("metric", f"no metric is called {cells['metric']!r}.{nearest(name, METRICS)}")
    units = UNITS.get(metric.unit, (metric.unit,))
    unit = cells.get("unit") or units[0]
    _one_of(row, "unit", unit, units)
    return plain_fields(row) | {"unit": unit, "where": where, "reference": reference}


def plain_fields(row: SourceRow) -> dict[str, Any]:
    """Return the fields of a `Target` that depend on no program (ConfigError)."""
    cells = row.cells
    try:
        value = float(cells["value"])
    except ValueError:
        value = inf
    if not isfinite(value):
        row.refuse("value", f"must be a number, but got {cells['value']!r}")
    kind = cells.get("kind") or KINDS_OF_NUMBERS[0]
    _one_of(row, "kind", kind, KINDS_OF_NUMBERS)
    _one_of(row, "approximate", cells.get("approximate", ""), ("", "yes", "no"))
    stem = Path(row.file).stem
    source = f"{cells.get('paper') or stem} {cells.get('item', '')}".strip()
    return {
        "source": f"{source} ({cells.get('id') or f'{stem}#{row.line - 1}'})",
        "metric": cells["metric"],
        "value": value,
        "unit": cells.get("unit", ""),
        "kind": kind,
        "note": cells.get("note", ""),
        "model": cells.get("model", ""),
        "where": {},
        "assumed": cells.get("assumed", ""),
        "approximate": cells.get("approximate") == "yes",
        "decimals": len(cells["value"].lower().partition("e")[0].partition(".")[2]),
    }


def _one_of(row: SourceRow, column: str, word: str, words: Collection[str]) -> None:
    if word not in words:
        row.refuse(column, f"must be one of {choices(word or 'nothing' for word in words)}, but got {word!r}")


def own_settings(rows: Sequence[SourceRow], configs: Sequence[RunSettings]) -> list[Settings]:
    """Read the columns of each row as settings of a user's own program.

    Args:
        rows: Of one table or several.
        configs: Settings of all runs: imported ones need not have the same.

    Raises:
        ConfigError: a column is no setting, or a value does not fit. The message names file, line and column.
    """
    fields: Json = {}
    for config in reversed(configs):
        fields.update(flatten(config.values))
    examples = {path.removeprefix(PREFIX): value for path, value in fields.items() if path.startswith(PREFIX)}

    def read(row: SourceRow) -> Settings:
        settings: Settings = {}
        for column, text in row.settings.items():
            name = column.removeprefix(REFERENCE).removeprefix(PREFIX)
            if name not in examples:
                hint = nearest(name, examples) or nearest(column, COLUMNS)
                row.refuse(column, f"no setting is called so: there are {choices(examples)}.{hint}", line=1)
            if text:
                value = None if text == BLANK else text if isinstance(examples[name], str) else _value(text)
                settings[column] = PREFIX + name, value
        changes = {column: pair for column, pair in settings.items() if row.cells[column] != BLANK}
        try:
            configs[0].with_changes(dict(changes.values()))
        except ConfigError as error:
            columns = [column for column, (path, _) in changes.items() if path.removeprefix(PREFIX) in str(error)]
            row.refuse((columns or [*changes])[0], str(error))
        return settings

    return list(map(read, rows))


def recursive_settings(rows: Sequence[SourceRow]) -> list[Settings]:
    """Read the columns of each row as fields of the recursive models' configs. Raises as `own_settings`."""
    fields = load_program().published_fields()

    def read(row: SourceRow) -> Settings:
        settings: Settings = {}
        for column, text in row.settings.items():
            path = column.removeprefix(REFERENCE)
            if path not in fields:
                columns = f"no column is called so: there are {choices(COLUMNS)}, and config fields.{nearest(column, COLUMNS)}"
                row.refuse(column, f"no config has such a field.{nearest(path, fields)}" if "." in column else columns, line=1)
            if text:
                settings[column] = path, None if text == BLANK else _field_value(row, column, text, fields[path])
        return settings

    return list(map(read, rows))


def _field_value(row: SourceRow, column: str, text: str, fields: Sequence[FieldInfo]) -> Any:
    """Return a value as a plan has it, if any family or data set with such a field takes it."""
    why = ""
    for field in fields:
        kind: TypeAdapter[Any] = TypeAdapter(cast(Any, Annotated[field.annotation, field]))
        for value in (_value(text), text):
            try:
                return kind.dump_python(kind.validate_python(value), mode="json")
            except ValidationError as error:
                why = why or error.errors(include_url=False)[0]["msg"].removeprefix("Input should be ")
    return row.refuse(column, f"must be {why}, but got {text!r}")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {"none": None}.get(text, text)
