"""Read records from files and write them. Errors name the file, the field and the fix in one line.

The classes of `schema.py` and `study_schema.py` are checked by pydantic; this module turns its errors into
messages for users.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json

from recstudy.base.errors import NewerFormatError, StorageError
from recstudy.base.files import encoded
from recstudy.base.opened import contents
from recstudy.records.files import Json, append_line, whole_lines, write_json, write_whole
from recstudy.records.schema import FORMAT, Marker, Result
from recstudy.records.study_schema import ClockLine, ConfirmLine, TrialLine

R = TypeVar("R")
Proposed = TrialLine | ConfirmLine | ClockLine

EARLIER_KEYS = ("code", "sources", "registered")  # of records of earlier versions
REMOVE_FILE = "Remove it and run the study again."
REMOVE_LINE = "Remove that line."
# Parts of pydantic's error paths that are not keys of a file.
UNNAMED = ("scores", "values", "int", "constrained-int", "float")
REMEDIES: dict[type, str] = {
    Result: "The next command runs this run again.",
    Marker: f'Write {{"format": {FORMAT}}} into it.',
}
# The end of pydantic's error path if a value is not an integer.
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
    """Return the record in a file, or None if there is no file.

    Args:
        path: The file.
        kind: The class of the record.

    Raises:
        StorageError: The file is damaged or has a newer format. The message names the file and the field.
    """
    try:
        content = contents(path)
    except FileNotFoundError:
        return None
    return _checked(content, kind, path, REMEDIES.get(kind, REMOVE_FILE))


def read_json(path: Path) -> Json | None:
    """Return the JSON object in a file, or None if there is no file. Raises StorageError if it is damaged."""
    return read_record(path, Json)


def read_log(path: Path, kind: type[R]) -> list[R]:
    """Return the records of a log, one per line; an empty list if there is no file.

    A last line that is not JSON is dropped, because a crash can leave one.

    Args:
        path: The log.
        kind: The class of the records.

    Raises:
        StorageError: Another line is damaged. The message names the line and the field.
    """
    return [_checked(line, kind, place, REMOVE_LINE) for line, place in _numbered(path)]


def find_strict_faults(path: Path, kind: Any) -> Iterator[str]:
    """Yield faults that readers of results forgive and `recstudy verify` does not.

    These are repeated and unknown keys, and a last line of a log that is not JSON.

    Args:
        path: A file with JSON, or a log.
        kind: The class of its records.
    """
    content, is_log = contents(path), path.suffix == ".jsonl"
    for number, text in enumerate(content.splitlines() if is_log else [content], 1):
        place = f"line {number} of {path}" if is_log else path
        try:
            values = json.loads(text, object_pairs_hook=_current_keys)
            adapter(kind).validate_json(json.dumps(values), extra="forbid")
        except ValidationError as error:
            yield f"{place}: {fault(error)}"
        except (ValueError, RecursionError) as error:
            yield f"{place}: {error}"


def _current_keys(pairs: list[tuple[str, Any]]) -> Json:
    values: Json = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"the key {key!r} is given twice")
        values[key] = value
    return {key: value for key, value in values.items() if key not in EARLIER_KEYS}


def read_trials(path: Path) -> list[Proposed]:
    """Return the records in the log of a search. Unknown kinds of a newer version are skipped."""
    records: list[Proposed] = []
    for line, place in _numbered(path):
        values = _json(line)
        kind: type[Proposed] | None = TrialLine
        if isinstance(values, dict):
            kind = next((KINDS[key] for key in values if key in KINDS), None)
        if kind is not None:
            records.append(_checked(line, kind, place, REMOVE_LINE))
    return records


def _numbered(path: Path) -> Iterator[tuple[bytes, str]]:
    lines = whole_lines(path)
    if lines and _json(lines[-1]) is None:
        lines.pop()
    return ((line, f"line {number} of {path}") for number, line in enumerate(lines, 1))


def write_record(path: Path, record: Any) -> None:
    """Write a record to a file atomically.

    Raises:
        StorageError: The file could not be written.
    """
    # The layout is that of `write_json`; pydantic writes a plan of 10,000 runs ten times faster than json.
    try:
        write_whole(
            path, adapter(type(record)).dump_json(record, indent=1, by_alias=True, exclude_none=True) + b"\n"
        )
    except PydanticSerializationError:  # `write_json` names the text that cannot be encoded
        write_json(path, dumped(record))


def append_record(path: Path, record: Any) -> None:
    """Append a record to a log as one line. Raises StorageError if it could not be written."""
    append_line(path, dumped(record))


def dumped(record: Any) -> Json:
    """Return a record as JSON values, without fields that are None."""
    return adapter(type(record)).dump_python(record, mode="json", by_alias=True, exclude_none=True)


def record_of(kind: type[R], values: Json) -> R:
    """Return a record of this class from JSON values.

    Raises:
        ValueError: The values do not fit the class. The message names the field.
    """
    try:
        record: R = adapter(kind).validate_json(encoded(json.dumps(values, ensure_ascii=False)))
    except ValidationError as error:
        raise ValueError(f"{kind.__name__}: {fault(error)}") from None
    return record


def fault(error: ValidationError) -> str:
    """Return the first fault in words: `metrics.top1_accuracy must be a number, but it is 'high'`."""
    faults = error.errors(include_url=False)
    # A number that is neither int nor float has two faults; the one about float names the right rule.
    first = next((fault for fault in faults if fault["loc"][-1:] not in INT), faults[0])
    if first["type"] == "json_invalid":
        return "it is not JSON"
    place = [str(part) for part in first["loc"] if part not in UNNAMED]
    field = ".".join(place) or "it"
    if first["type"] == "missing":
        return f"{field} is missing"
    if first["type"] == "unexpected_keyword_argument":
        return f"the key {field!r} is unknown"
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    rule = RULES.get(first["type"]) or first["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    value = repr(first["input"])
    return f"{field} must be {rule}, but it is {value if len(value) <= 60 else value[:59] + '…'}"


def _checked(content: bytes, kind: type[R], place: object, remedy: str) -> R:
    try:
        record: R = adapter(kind).validate_json(content)
        file_format: Any = getattr(record, "format", FORMAT)
    except ValidationError as error:
        values = _json(content)
        file_format = values.get("format") if isinstance(values, dict) else None
        if not isinstance(file_format, int) or file_format <= FORMAT:
            raise StorageError(f"{place} is damaged: {fault(error)}. {remedy}") from None
    if file_format > FORMAT:
        raise NewerFormatError(
            f"{place} was written by a newer recstudy (format {file_format}). Update this one."
        )
    return record


@contextmanager
def suppress_damage() -> Iterator[None]:
    """Suppress the error of a damaged record, but not that of a record of a newer version."""
    try:
        yield
    except NewerFormatError:
        raise
    except StorageError:
        pass


def _json(content: bytes) -> Any:
    """Return the values of JSON text, or None if it is not JSON."""
    try:
        return from_json(content)
    except ValueError:
        return None
