"""Read a user's own table of published numbers: a CSV file beside the study with one number in each row.

    model,metric,value,unit,item,train.batch_size,train.epochs,reference.train.optimizer
    ViTRM,top1_accuracy,93.1,percent,Table 2,128,1000,adamw

A column named after a setting selects the variant that the number is compared with. Settings are config
fields (`train.batch_size`) or settings of a user's own program (`depth`). A column `reference.SETTING` has a
setting that the source also states: a result must agree with it or state a deviation. An empty cell has no
meaning; `?` means that the source does not state the value.

`published` reads the file when the study's file is imported. The names are checked when the study is planned,
because the program is not known before.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from recstudy.base.csv_rows import CsvError, csv_rows
from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.values import flatten
from recstudy.papers.target import Target, number_of
from recstudy.plugins import caller
from recstudy.programs.base import RunSettings, load_program
from recstudy.programs.metric import METRICS
from recstudy.programs.settings import PREFIX
from recstudy.records.files import Json

REQUIRED_COLUMNS = ("metric", "value")
COLUMNS = (
    *REQUIRED_COLUMNS,
    "unit",
    "model",
    "paper",
    "item",
    "id",
    "kind",
    "note",
    "assumed",
    "approximate",
    "page",
    "cell",
    "quote",
)
KINDS_OF_NUMBERS = ("reported", "derived", "author_repo")
REFERENCE = "reference."
BLANK = "?"
# Unit of a metric in recstudy -> units that a table may use for it. The first is the default.
UNITS = {"%": ("percent", "%", "fraction"), "": ("", "million", "millions", "billion")}


@dataclass(frozen=True)
class SourceRow:
    """A row of a user's table.

    Args:
        file: Name of the CSV file.
        line: Number of the line, from 1.
        cells: Text of the cells, by column.
    """

    file: str
    line: int
    cells: Mapping[str, str]

    def refuse(self, column: str, why: str, line: int = 0) -> NoReturn:
        """Raise a ConfigError that names file, line and column; `line` replaces that of the row."""
        raise ConfigError(f"{self.file}, line {line or self.line}, column {column!r}: {why}")

    def choose(self, column: str, words: Collection[str]) -> str:
        """Return a cell that must be one of these words, or the first word if the cell is empty."""
        word = self.cells.get(column) or next(iter(words))
        if word not in words:
            self.refuse(column, f"must be one of {choices(words)}, but got {word!r}")
        return word


def read_targets(table: str | Path, margin: float, why: str) -> list[Target]:
    """Read the targets of a CSV file, without settings and units, which depend on the program.

    Args:
        table: Path of the file, relative to the file that calls `published`; relative to the current folder
            in a notebook.
        margin: Margin of every target.
        why: Reason for the margin.

    Raises:
        ConfigError: The file does not exist, or a column or cell cannot be read. The message names file, line
            and column.
    """
    study_file = caller().get("__file__")
    path = (Path(study_file).resolve().parent if study_file else Path()) / table
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            # Spreadsheets write a byte order mark (utf-8-sig) and empty rows; both are skipped.
            rows = [(line, list(map(str.strip, cells))) for line, cells in csv_rows(file, ",")]
    except OSError as error:
        raise ConfigError(f"no published table {str(path)!r}: {error.strerror}") from None
    except (CsvError, UnicodeError) as error:
        raise ConfigError(f"{path.name} cannot be read as a CSV file: {error}") from None
    first, heads = SourceRow(path.name, 1, {}), rows.pop(0)[1] if rows else []
    for column in REQUIRED_COLUMNS:
        if column not in heads:
            first.refuse(column, f"the column is missing. The file has {choices(heads) or 'none'}")
    for column, count in Counter(heads).items():
        if count > 1:
            first.refuse(column, "the column appears twice")
    targets: dict[str, Target] = {}  # by their sources, which are unique
    for line, cells in rows:
        row = SourceRow(path.name, line, dict(zip(heads, cells, strict=False)))
        if len(cells) != len(heads):
            column = heads[min(len(cells), len(heads)) - 1]
            row.refuse(column, f"the line has {len(cells)} cells, but there are {len(heads)} columns")
        target = _target(row, margin, why)
        if (first_target := targets.setdefault(target.source, target)) is not target:
            row.refuse("id", f"{target.source!r} is already in line {first_target.read_from.line}")
    return [*targets.values()]


def _target(row: SourceRow, margin: float, why: str) -> Target:
    cells = row.cells
    value = number_of(cells["value"])
    if value is None:
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
        margin=margin,
        margin_reason=why,
        read_from=row,
        cell=", ".join(
            filter(None, [f"page {cells['page']}" if cells.get("page") else "", cells.get("cell")])
        ),
        **{column: cells[column] for column in ("note", "model", "assumed", "quote") if column in cells},
    )


def setting_fields(configs: Sequence[RunSettings]) -> Mapping[str, Any]:
    """Return the settings that a table may name as columns.

    Returns:
        For a user's own program: setting -> an example of its value. Otherwise: config field -> its
        definitions in the families and data sets.
    """
    if not (configs and configs[0].metrics):
        return load_program().published_fields()
    examples: Json = {}
    for config in reversed(configs):  # imported runs need not have the same settings
        examples |= flatten(config.values)
    return {path: value for path, value in examples.items() if path.startswith(PREFIX)}


def with_settings(target: Target, configs: Sequence[RunSettings], fields: Mapping[str, Any]) -> Target:
    """Return a target of a user's table with its settings and the unit of its metric.

    Args:
        target: A target of `read_targets`.
        configs: Settings of the runs.
        fields: The result of `setting_fields`.

    Raises:
        ConfigError: A setting, the metric or its unit is unknown. The message names file, line and column.
    """
    row, prefix = target.read_from, PREFIX if configs and configs[0].metrics else ""
    own_settings: Json = {}
    reference: Json = {}
    stated_columns: dict[str, tuple[str, Any]] = {}  # column -> the setting and its value
    for column, text in row.cells.items():
        if column in COLUMNS:
            continue
        path = prefix + column.removeprefix(REFERENCE).removeprefix(prefix)
        if path not in fields:
            row.refuse(column, _unknown_column(column, path.removeprefix(prefix), prefix, fields), line=1)
        is_reference = column.startswith(REFERENCE)
        if text == BLANK and not is_reference:
            own_settings[path] = None  # the source does not state it
        elif text not in ("", BLANK):
            value: Any = text
            if not prefix:
                value = _field_value(row, column, text, fields[path])
            elif not isinstance(fields[path], str):
                value = _value(text)
            (reference if is_reference or value is None else own_settings)[path] = value
            stated_columns[column] = path, value
    if prefix:
        _check_settings(row, configs[0], stated_columns)
    # `METRIC@EPOCH`, `METRIC.CLASS` and `METRIC_delta` have the unit of METRIC.
    score = target.metric.partition("@")[0].partition(".")[0].removesuffix("_delta")
    metric = METRICS.get(score) or METRICS.get(score.removeprefix("train_").removeprefix("selection_"))
    if metric is None:
        row.refuse("metric", f"unknown metric {target.metric!r}.{nearest(score, METRICS)}")
    unit = row.choose("unit", UNITS.get(metric.unit, (metric.unit,)))
    # With a family, the settings identify the variant, so its name need not match.
    if target.model and "model.family" not in own_settings:
        own_settings["model"] = target.model
    margin = target.margin / 100 if unit == "fraction" else target.margin
    return target.model_copy(
        update={"where": own_settings, "reference": reference, "unit": unit, "margin": margin}
    )


def _unknown_column(column: str, name: str, prefix: str, fields: Mapping[str, Any]) -> str:
    names = [path.removeprefix(prefix) for path in fields]
    if prefix:
        hint = nearest(name, names) or nearest(column, COLUMNS)
        return f"the program has no such setting. Its settings are {choices(names)}.{hint}"
    if "." in column:
        return f"no config has this field.{nearest(name, names)}"
    hint = nearest(column, COLUMNS)
    return f"unknown column. The columns are {choices(COLUMNS)} and config fields.{hint}"


def _check_settings(row: SourceRow, config: RunSettings, columns: Mapping[str, tuple[str, Any]]) -> None:
    """Let a user's own program check the settings of a row; an error names the first column that it refuses.

    Args:
        row: The row.
        config: Settings of a run.
        columns: Column -> the setting that it states and its value.
    """
    try:
        config.with_changes(dict(columns.values()))
    except ConfigError as error:
        for column, setting in columns.items():
            try:
                config.with_changes(dict([setting]))
            except ConfigError:
                row.refuse(column, str(error))
        row.refuse(next(iter(columns)), str(error))  # the settings do not fit each other


def _field_value(row: SourceRow, column: str, text: str, fields: Sequence[FieldInfo]) -> Any:
    """Return the value as the plan stores it, if some family or data set with this field accepts it."""
    why = ""
    for field in fields:
        kind: TypeAdapter[Any] = TypeAdapter(cast(Any, Annotated[field.annotation, field]))
        for value in (_value(text), text):  # the text itself for a string that looks like a number
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
