"""Published tables of one's own: a CSV beside the study, a row a number, with the settings that it was obtained with.

    model,metric,value,unit,item,train.batch_size,train.epochs,reference.train.optimizer
    ViTRM,top1_accuracy,93.1,percent,Table 2,128,1000,adamw

A column called by a config field (`train.batch_size`) is what the number is of: it finds the variant that the number stands
beside. One of `reference.` and a field is what its source states besides, and what a result must agree with or state as a
deviation. An empty cell says nothing; `?` says that the source leaves the value blank.
"""

import csv
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from math import inf, isfinite
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from recstudy.config import DATASETS, FAMILIES, TrainConfig
from recstudy.errors import ConfigError, choices, nearest
from recstudy.programs.metric import METRICS
from recstudy.programs.settings import Config

NEEDED = ("metric", "value")
COLUMNS = (*NEEDED, "unit", "model", "paper", "item", "id", "kind", "note", "assumed", "approximate")
KINDS_OF_NUMBERS = ("reported", "derived", "author_repo")
REFERENCE = "reference."
BLANK = "?"
UNITS = {"%": ("percent", "%", "fraction"), "": ("", "million", "millions", "billion")}  # by the unit of a metric here
At = tuple[str, int]  # file and line


def own_rows(table: str | Path) -> list[dict[str, Any]]:
    """Read the fields of a `Target` for each row of a file, which lies relative to the file that asks for it.

    Raises:
        ConfigError: it is not there, or some of it is no published number. The message names file, line and column.
    """
    path = asking_folder() / table
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            heads = [head.strip() for head in next(lines, [])]
            fields = _checked(path.name, heads)
            rows = [(lines.line_num, [cell.strip() for cell in cells]) for cells in lines if any(map(str.strip, cells))]
    except OSError as error:
        raise ConfigError(f"no published table {str(path)!r}: {error.strerror}") from None
    except (csv.Error, UnicodeError) as error:
        raise ConfigError(f"{path.name} is no CSV file: {error}") from None
    found = [_row((path.name, line), heads, cells, fields) for line, cells in rows]
    known: dict[str, int] = {}
    for (line, _), row in zip(rows, found, strict=True):
        if (first := known.setdefault(row["source"], line)) != line:
            raise ConfigError(f"{path.name}, line {line}, column 'id': {row['source']!r} is line {first} already")
    return found


def asking_folder() -> Path:
    """Return the folder of the first file outside of recstudy that is being run; in a notebook, where there is none, this one."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __name__.partition(".")[0]:
        frame = frame.f_back
    file = frame.f_globals.get("__file__") if frame is not None else None
    return Path(file).resolve().parent if file else Path()


def _refuse(at: At, column: str, why: str) -> NoReturn:
    raise ConfigError(f"{at[0]}, line {at[1]}, column {column!r}: {why}")


def _checked(file: str, heads: Sequence[str]) -> dict[str, list[FieldInfo]]:
    """Return what each column of settings may hold (ConfigError where a column is none, or one is missing or there twice)."""
    at, known = (file, 1), _fields()
    for column in NEEDED:
        if column not in heads:
            _refuse(at, column, f"it is missing: there are {choices(heads) or 'none'}")
    for place, head in enumerate(heads):
        path = head.removeprefix(REFERENCE)
        if head in heads[:place]:
            _refuse(at, head, "it is there twice")
        if head not in COLUMNS and path not in known:
            columns = f"no column is called so: there are {choices(COLUMNS)}, and config fields.{nearest(head, COLUMNS)}"
            _refuse(at, head, f"no config has such a field.{nearest(path, known)}" if "." in head else columns)
    return {head: known[path] for head in heads if (path := head.removeprefix(REFERENCE)) in known}


def _fields() -> dict[str, list[FieldInfo]]:
    """Return every config field by its dotted path, with what each family or data set that has it says of it."""
    found: dict[str, list[FieldInfo]] = {}

    def walk(kind: type[Config], prefix: str) -> None:
        for name, field in kind.model_fields.items():
            if isinstance(field.annotation, type) and issubclass(field.annotation, Config):
                walk(field.annotation, f"{prefix}{name}.")
            else:
                found.setdefault(prefix + name, []).append(field)

    walk(TrainConfig, "train.")
    for prefix, kinds in (("data.", DATASETS), ("model.", FAMILIES)):
        for kind in kinds.complete().values():
            walk(kind, prefix)
    return found


def _row(at: At, heads: Sequence[str], cells: Sequence[str], fields: Mapping[str, list[FieldInfo]]) -> dict[str, Any]:
    if len(cells) != len(heads):
        column = heads[min(len(cells), len(heads)) - 1]
        _refuse(at, column, f"the line has {len(cells)} cells, and {len(heads)} columns have a name")
    row = dict(zip(heads, cells, strict=True))
    where: dict[str, Any] = {}
    reference: dict[str, Any] = {}
    for column in (column for column in fields if row[column]):
        path, blank = column.removeprefix(REFERENCE), row[column] == BLANK
        setting = None if blank else _setting(at, column, row[column], fields[column])
        if path == column and (blank or setting is not None):
            where[path] = setting  # of which None says that the source leaves it blank
        elif not blank:
            reference[path] = setting
    if row.get("model") and "model.family" not in where:  # else found by its settings, and not by its name
        where["model"] = row["model"]
    try:
        value = float(row["value"])
    except ValueError:
        value = inf
    if not isfinite(value):
        _refuse(at, "value", f"must be a number, but got {row['value']!r}")
    name = row["metric"].partition("@")[0].partition(".")[0].removesuffix("_delta")
    metric = METRICS.get(name) or METRICS.get(name.removeprefix("train_").removeprefix("selection_"))
    if metric is None:
        _refuse(at, "metric", f"no metric is called {row['metric']!r}.{nearest(name, METRICS)}")
    units = UNITS.get(metric.unit, (metric.unit,))
    unit = row.get("unit") or units[0]
    _one_of(at, "unit", unit, units)
    kind = row.get("kind") or KINDS_OF_NUMBERS[0]
    _one_of(at, "kind", kind, KINDS_OF_NUMBERS)
    _one_of(at, "approximate", row.get("approximate", ""), ("", "yes", "no"))
    stem = Path(at[0]).stem
    source = f"{row.get('paper') or stem} {row.get('item', '')}".strip()
    return {
        "source": f"{source} ({row.get('id') or f'{stem}#{at[1] - 1}'})",
        "metric": row["metric"],
        "value": value,
        "unit": unit,
        "kind": kind,
        "note": row.get("note", ""),
        "model": row.get("model", ""),
        "where": where,
        "reference": reference,
        "assumed": row.get("assumed", ""),
        "approximate": row.get("approximate") == "yes",
        "decimals": len(row["value"].lower().partition("e")[0].partition(".")[2]),
    }


def _one_of(at: At, column: str, word: str, words: Collection[str]) -> None:
    if word not in words:
        _refuse(at, column, f"must be one of {choices(word or 'nothing' for word in words)}, but got {word!r}")


def _setting(at: At, column: str, text: str, fields: Sequence[FieldInfo]) -> Any:
    """Return a value as a plan has it, if any family or data set with such a field takes it."""
    try:
        read = json.loads(text)
    except ValueError:
        read = {"none": None}.get(text, text)
    why = ""
    for field in fields:
        kind: TypeAdapter[Any] = TypeAdapter(cast(Any, Annotated[field.annotation, field]))
        for value in (read, text):
            try:
                return kind.dump_python(kind.validate_python(value), mode="json")
            except ValidationError as error:
                why = why or error.errors(include_url=False)[0]["msg"].removeprefix("Input should be ")
    return _refuse(at, column, f"must be {why}, but got {text!r}")
