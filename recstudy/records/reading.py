"""Records read from their files and written to them; what a file does not hold as it should is said in one
line.
"""

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from recstudy.errors import StorageError
from recstudy.opened import contents
from recstudy.records.files import Json, append_line, whole_lines, write_whole
from recstudy.records.schema import FORMAT, Marker, Result
from recstudy.records.study_schema import ClockLine, ConfirmLine, TrialLine

R = TypeVar("R")
Proposed = TrialLine | ConfirmLine | ClockLine

REMOVE_FILE = "Remove it and run the study again."
REMOVE_LINE = "Remove that line."
# parts of pydantic's paths that a file does not have
UNNAMED = ("scores", "values", "int", "constrained-int", "float")
REMEDIES: dict[type, str] = {
    Result: "Its run will be run again.",
    Marker: f'Write {{"format": {FORMAT}}} into it.',
}
# where pydantic found a value that is no whole number
NUMBER, INT = "a number", (("int",), ("constrained-int",))
RULES = {
    "int_type": "a whole number",
    "float_type": NUMBER,
    "finite_number": NUMBER,
    "string_too_long": "shorter",
}
KINDS: dict[str, type[Proposed]] = {"number": TrialLine, "confirms": ConfirmLine, "clock": ClockLine}

adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def read_record(path: Path | str, kind: type[R]) -> R | None:
    """Return the record in a file, or None where there is no file.

    Raises:
        StorageError: it is damaged, or of a newer format. The message names the file and the field.
    """
    try:
        content = contents(path)
    except FileNotFoundError:
        return None
    return _checked(content, kind, path, REMEDIES.get(kind, REMOVE_FILE))


def read_json(path: Path) -> Json | None:
    """Return the object in a file, or None where there is none (StorageError: it is damaged)."""
    return read_record(path, Json)


def read_log(path: Path, kind: type[R]) -> list[R]:
    """Return the lines of a log; none where there is no file. A last one that is no JSON is dropped: a crash
    leaves such.

    Raises:
        StorageError: another is damaged. The message names it and the field.
    """
    return [_checked(line, kind, place, REMOVE_LINE) for line, place in _numbered(path)]


def read_trials(path: Path) -> list[Proposed]:
    """Return `read_log` of a search's log; lines of a kind that only a newer version knows are passed
    over.
    """
    records: list[Proposed] = []
    for line, place in _numbered(path):
        values = _json(line)
        kind = (
            next((KINDS[key] for key in values if key in KINDS), None)
            if isinstance(values, dict)
            else TrialLine
        )
        if kind is not None:
            records.append(_checked(line, kind, place, REMOVE_LINE))
    return records


def _numbered(path: Path) -> Iterator[tuple[bytes, str]]:
    lines = whole_lines(path)
    if lines and _json(lines[-1]) is None:
        lines.pop()
    return ((line, f"line {number} of {path}") for number, line in enumerate(lines, 1))


def write_record(path: Path, record: Any) -> None:
    """Write a record so that it is there whole, or as it was before (StorageError).

    pydantic writes it, in C, like `write_json`: a plan of 10,000 runs in a tenth of the time.
    """
    write_whole(
        path, adapter(type(record)).dump_json(record, indent=1, by_alias=True, exclude_none=True) + b"\n"
    )


def append_record(path: Path, record: Any) -> None:
    """Append a line to a log (StorageError)."""
    append_line(path, dumped(record))


def dumped(record: Any) -> Json:
    """Return a record as plain JSON values, without the fields that are None."""
    values: Json = adapter(type(record)).dump_python(record, mode="json", by_alias=True, exclude_none=True)
    return values


def record_of(kind: type[R], values: Json) -> R:
    """Return a record of plain JSON values.

    Raises:
        ValueError: they are not such. The message names the field.
    """
    try:
        record: R = adapter(kind).validate_json(json.dumps(values))
    except ValidationError as error:
        raise ValueError(f"{kind.__name__}: {fault(error)}") from None
    return record


def fault(error: ValidationError) -> str:
    """Return the first thing that is wrong, in words: `metrics.top1_accuracy must be a number, but it is
    'high'`.
    """
    faults = error.errors(include_url=False)
    # of a number: the fault of any number
    first = next((fault for fault in faults if fault["loc"][-1:] not in INT), faults[0])
    if first["type"] == "json_invalid":
        return "it is not JSON"
    place = [str(part) for part in first["loc"] if part not in UNNAMED]
    field = ".".join(place) or "it"
    if first["type"] == "missing":
        return f"{field} is missing"
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    rule = RULES.get(first["type"]) or first["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    value = repr(first["input"])
    return f"{field} must be {rule}, but it is {value if len(value) <= 60 else value[:59] + '…'}"


def _checked(content: bytes, kind: type[R], place: object, remedy: str) -> R:
    try:
        record: R = adapter(kind).validate_json(content)
        written: Any = getattr(record, "format", FORMAT)
    except ValidationError as error:
        values = _json(content)
        written = values.get("format") if isinstance(values, dict) else None
        if not isinstance(written, int) or written <= FORMAT:
            raise StorageError(f"{place} is damaged: {fault(error)}. {remedy}") from None
    if written > FORMAT:
        raise StorageError(f"{place} was written by a newer recstudy (format {written}). Update this one.")
    return record


def _json(content: bytes) -> Any:
    """Return the values that JSON states; None where it is no JSON."""
    try:
        return from_json(content)
    except ValueError:
        return None
