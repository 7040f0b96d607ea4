"""Published tables of one's own: a CSV beside the study, a row a number, with the settings that it was
obtained with.

    model,metric,value,unit,item,train.batch_size,train.epochs,reference.train.optimizer
    ViTRM,top1_accuracy,93.1,percent,Table 2,128,1000,adamw

A column called by a setting is what the number is of: it finds the variant that the number stands beside.
Settings are config fields (`train.batch_size`), or those of a user's own program (`depth`). A column of
`reference.` and a setting is what its source states besides, and what a result must agree with or state as a
deviation. An empty cell says nothing; `?` says that the source leaves the value blank.

The file is read when the study's file is. Its names are checked when the study is planned: only then the
program is known.
"""

import csv
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from recstudy.errors import ConfigError, choices, nearest
from recstudy.papers.target import Target
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
# by the unit of a metric here
UNITS = {"%": ("percent", "%", "fraction"), "": ("", "million", "millions", "billion")}


@dataclass(frozen=True)
class SourceRow:
    """A row of a user's table: where it is, its cells by column, and the margin that `published` was
    given.
    """

    file: str
    line: int
    cells: Mapping[str, str]
    margin: float = 0.0

    def refuse(self, column: str, why: str, line: int = 0) -> NoReturn:
        raise ConfigError(f"{self.file}, line {line or self.line}, column {column!r}: {why}")

    def choose(self, column: str, words: Collection[str]) -> str:
        """Return a cell, or the first of these words if it is empty (ConfigError: it is none of them)."""
        word = self.cells.get(column) or next(iter(words))
        if word not in words:
            self.refuse(column, f"must be one of {choices(words)}, but got {word!r}")
        return word


def read_targets(table: str | Path, margin: float, why: str) -> list[Target]:
    """Read a file, which is relative to the file that names it, or in a notebook to the current folder.

    Raises:
        ConfigError: The file does not exist, or a column or cell cannot be read. The message names file, line
            and column.
    """
    study_file = caller().get("__file__")
    path = (Path(study_file).resolve().parent if study_file else Path()) / table
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            heads = [head.strip() for head in next(lines, [])]
            rows = [
                (lines.line_num, [cell.strip() for cell in cells])
                for cells in lines
                if any(map(str.strip, cells))
            ]
    except OSError as error:
        raise ConfigError(f"no published table {str(path)!r}: {error.strerror}") from None
    except (csv.Error, UnicodeError) as error:
        raise ConfigError(f"{path.name} is no CSV file: {error}") from None
    first = SourceRow(path.name, 1, {})
    for column in NEEDED:
        if column not in heads:
            first.refuse(column, f"it is missing: there are {choices(heads) or 'none'}")
    for column, count in Counter(heads).items():
        if count > 1:
            first.refuse(column, "it is there twice")
    targets: dict[str, Target] = {}  # by their sources, which are unique
    for line, cells in rows:
        row = SourceRow(path.name, line, dict(zip(heads, cells, strict=False)), margin)
        if len(cells) != len(heads):
            column = heads[min(len(cells), len(heads)) - 1]
            row.refuse(column, f"the line has {len(cells)} cells, and {len(heads)} columns have a name")
        target = _target(row, why)
        if (other := targets.setdefault(target.source, target)) is not target:
            row.refuse("id", f"{target.source!r} is line {other.read_from.line} already")
    return [*targets.values()]


def _target(row: SourceRow, why: str) -> Target:
    """Return a row as a target without settings and unit, which depend on the program."""
    cells = row.cells
    try:
        value = float(cells["value"])
    except ValueError:
        value = inf
    if not isfinite(value):
        row.refuse("value", f"must be a number, but got {cells['value']!r}")
    stem = Path(row.file).stem
    source = f"{cells.get('paper') or stem} {cells.get('item', '')}".strip()
    return Target(
        source=f"{source} ({cells.get('id') or f'{stem}#{row.line - 1}'})",
        metric=cells["metric"],
        value=value,
        unit=cells.get("unit", ""),
        kind=row.choose("kind", KINDS_OF_NUMBERS),
        where={},
        approximate=row.choose("approximate", ("no", "yes")) == "yes",
        decimals=len(cells["value"].lower().partition("e")[0].partition(".")[2]),
        margin=row.margin,
        margin_reason=why,
        read_from=row,
        **{column: cells[column] for column in ("note", "model", "assumed") if column in cells},
    )


def setting_fields(configs: Sequence[RunSettings]) -> Mapping[str, Any]:
    """Return what a table may name: of a user's own program setting -> an example, else config field -> its
    definitions.
    """
    if not (configs and configs[0].metrics):
        return load_program().published_fields()
    examples: Json = {}
    for config in reversed(configs):  # imported runs need not have the same settings
        examples |= flatten(config.values)
    return {path: value for path, value in examples.items() if path.startswith(PREFIX)}


def with_settings(target: Target, configs: Sequence[RunSettings], fields: Mapping[str, Any]) -> Target:
    """Return a target of a user's table with its settings, and with the unit of its metric.

    Args:
        target: Of `read_targets`.
        configs: Settings of the runs.
        fields: What a table may name, by `setting_fields`.

    Raises:
        ConfigError: A setting, the metric or its unit is unknown. The message names file, line and column.
    """
    row, prefix = target.read_from, PREFIX if configs and configs[0].metrics else ""
    where: Json = {}
    reference: Json = {}
    columns: dict[str, str] = {}  # name of a setting that is stated -> column
    for column, text in row.cells.items():
        if column in COLUMNS:
            continue
        name = column.removeprefix(REFERENCE).removeprefix(prefix)
        field: Any = fields.get(prefix + name)
        if prefix + name not in fields:
            names = [path.removeprefix(prefix) for path in fields]
            why = f"no config has such a field.{nearest(name, names)}"
            if prefix:
                why = (
                    "no setting is called so: there are"
                    f" {choices(names)}.{nearest(name, names) or nearest(column, COLUMNS)}"
                )
            elif "." not in column:
                why = (
                    f"no column is called so: there are {choices(COLUMNS)}, and config"
                    f" fields.{nearest(column, COLUMNS)}"
                )
            row.refuse(column, why, line=1)
        value = None if text in ("", BLANK) else text
        if value and not prefix:
            value = _field_value(row, column, text, field)
        elif value and not isinstance(field, str):
            value = _value(text)
        if text == BLANK and column.startswith(REFERENCE):
            continue
        if text == BLANK or (value is not None and not column.startswith(REFERENCE)):
            where[prefix + name] = value  # None says that the source leaves it blank
        elif text:
            reference[prefix + name] = value
        if text not in ("", BLANK):
            columns[name] = column
    if prefix:
        try:
            configs[0].with_changes({prefix + name: (where | reference)[prefix + name] for name in columns})
        except ConfigError as error:
            named = [column for name, column in columns.items() if name in str(error)]
            row.refuse((named or [*columns.values()])[0], str(error))
    score = target.metric.partition("@")[0].partition(".")[0].removesuffix("_delta")
    metric = METRICS.get(score) or METRICS.get(score.removeprefix("train_").removeprefix("selection_"))
    if metric is None:
        row.refuse("metric", f"no metric is called {target.metric!r}.{nearest(score, METRICS)}")
    unit = row.choose("unit", UNITS.get(metric.unit, (metric.unit,)))
    if target.model and "model.family" not in where:  # else it is found by its settings, and not by its name
        where["model"] = target.model
    margin = row.margin / 100 if unit == "fraction" else row.margin
    return target.model_copy(update={"where": where, "reference": reference, "unit": unit, "margin": margin})


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
