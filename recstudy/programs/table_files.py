"""Read a table from a file or a pandas frame: CSV, TSV, JSON, JSON lines and Parquet.

Whatever the format, a table is heads and texts of cells: roles and values follow from them (`columns.py`).
"""

import ast
import codecs
import hashlib
import io
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recstudy.base.csv_rows import CsvError, csv_rows
from recstudy.base.errors import ConfigError, choices
from recstudy.base.values import flatten
from recstudy.programs.columns import FIRST_ZONE, START, Column, settle
from recstudy.programs.table import RunTable
from recstudy.records.schema import current_time
from recstudy.records.study_schema import ImportedFile

if TYPE_CHECKING:
    import pandas as pd

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
WANDB_COLUMNS = ("config", "summary")  # of dictionaries, in W&B's example of an export


def read_table(path: Path) -> RunTable:
    """Read a file of finished runs.

    Args:
        path: A CSV file with a header line, whose cells are separated by commas, semicolons or tabs; or JSON
            lines (`.jsonl`), a JSON list (`.json`) or Parquet (`.parquet`).

    Raises:
        ConfigError: The file cannot be read. The message names the file and the line.
    """
    name = path.name.encode(errors="replace").decode()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}") from None
    kind = path.suffix.lower()
    if kind == ".parquet":
        import pandas as pd

        try:
            return _table(name, content, *_frame_cells(pd.read_parquet(path)))
        except ImportError:
            raise ConfigError(f"{name}: Parquet files need pyarrow: pip install pyarrow") from None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{name} is not a Parquet file: {error}") from None
    try:
        text = content.decode("utf-16" if content.startswith(UTF_16) else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{name}, line {line}: the text is not UTF-8. Export the file as CSV in UTF-8"
        ) from None
    if kind in (".jsonl", ".ndjson", ".json"):
        return _table(name, content, *_json_cells(name, text, is_list=kind == ".json"))
    return _table(name, content, *_csv_cells(name, text))


def frame_table(frame: "pd.DataFrame", name: str) -> RunTable:
    """Return the table of a pandas frame. A named index is a column."""
    lines, heads, rows = _frame_cells(frame)
    return _table(name, json.dumps([heads, rows]).encode(), lines, heads, rows)


def _table(
    name: str, content: bytes, lines: Sequence[int], heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> RunTable:
    if not rows:
        state = "has a header but no runs" if heads else "is empty"
        raise ConfigError(
            f"{name} {state}. It needs a header with the names of settings, seed and metrics, and a line for"
            " each run"
        )
    for head, count in Counter(filter(None, heads)).items():
        if count > 1:
            raise ConfigError(
                f"{name}, line 1, column {head!r}: {count} columns have this name. Rename or remove one"
            )
    file = ImportedFile(name=name, sha256=hashlib.sha256(content).hexdigest(), date=current_time())
    table = RunTable(file, lines)
    for position, (head, *cells) in enumerate(zip(heads, *rows, strict=True), 1):
        has_name = head and not head.lower().startswith("unnamed:")
        if not has_name and not all(cell.isdigit() or not cell for cell in cells):  # row numbers
            examples = choices(dict.fromkeys(cells), 3)
            fix = "Give it a name (in pandas: frame.index.name), or remove it"
            raise ConfigError(f"{name}: column {position} has no name, and its cells are {examples}. {fix}")
        table.columns += _parts(table, Column(head, cells)) if head else []
    settle(table.columns)
    columns = [column for column in table.columns if column.matches(START)]
    with suppress(ValueError):  # a start is unknown, or no column has it
        starts = [datetime.fromisoformat(cell) for column in columns for cell in column.cells]
        # A time without a zone may be that of the earliest zone.
        first = min(start if start.tzinfo else start.replace(tzinfo=FIRST_ZONE) for start in starts)
        if first < datetime.now(UTC):
            table.file = replace(file, started=first.isoformat())
    return table


# ------------------------------------------------------------------------------------------------------------
# formats: each returns the line of each row, the heads, and the rows of cells

Cells = tuple[list[int], list[str], list[list[str]]]


def _csv_cells(name: str, text: str) -> Cells:
    lines: list[int] = []
    rows: list[list[str]] = []
    try:
        for line, cells in csv_rows(io.StringIO(text, newline="")):
            lines.append(line)
            rows.append([cell.strip() for cell in cells])
            if len(cells) != len(rows[0]):
                raise ConfigError(
                    f"{name}, line {line}: it has {len(cells)} cells, but the header has {len(rows[0])}."
                    " Put cells that contain the separator in quotes"
                )
    except CsvError as error:
        raise ConfigError(
            f"{name}, line {error.line}: {error}. Close the quote of a cell, and double quotes inside it"
        ) from None
    return lines[1:], rows[0] if rows else [], rows[1:]


def _json_cells(name: str, text: str, is_list: bool) -> Cells:
    """Return the cells of objects with a name for each value. Nested objects become dotted names."""
    lines: list[int] = []
    objects: list[Any] = []
    try:
        if is_list:
            objects = json.loads(text)
            lines = list(range(1, len(objects) + 1)) if isinstance(objects, list) else []
        else:
            for line, row in enumerate(text.split("\n"), 1):  # a text may contain U+2028
                if row.strip():
                    lines.append(line)
                    objects.append(json.loads(row))
    except json.JSONDecodeError as error:
        line = error.lineno if is_list else lines[-1]
        raise ConfigError(f"{name}, line {line}: it is not JSON: {error.msg}") from None
    if not isinstance(objects, list) or not all(isinstance(row, dict) for row in objects):
        raise ConfigError(f"{name} needs an object for each run, such as {{'lr': 0.1, 'accuracy': 90.1}}")
    flat_rows = [flatten(row) for row in objects]
    heads = list(dict.fromkeys(head for row in flat_rows for head in row))
    return lines, heads, [[_cell(row.get(head)) for head in heads] for row in flat_rows]


def _frame_cells(frame: "pd.DataFrame") -> Cells:
    """Return the cells of a frame. Its index is a column, without a head if it has no name."""
    names = ["" if level is None else level for level in frame.index.names]
    frame = frame.reset_index(names=names, allow_duplicates=True)
    heads = [str(head) for head in frame.columns]
    objects = frame.astype(object).where(frame.notna(), None)
    rows = [[_cell(value) for value in row] for row in objects.itertuples(index=False, name=None)]
    return list(range(1, len(rows) + 1)), heads, rows


def _cell(value: Any) -> str:
    """Return a value as the text of a cell."""
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return json.dumps(value)
    return str(value).strip()


# ------------------------------------------------------------------------------------------------------------
# columns of dictionaries


def _parts(table: RunTable, column: Column) -> list[Column]:
    """Split a column of dictionaries into a column for each key; return other columns unchanged."""
    if not column.texts or not all(cell.startswith("{") and cell.endswith("}") for cell in column.texts):
        return [column]
    rows: list[dict[str, Any]] = []
    for row, cell in enumerate(column.cells):
        try:
            rows.append(flatten(_literal(ast.parse(cell or "{}", mode="eval").body)))
        except (AttributeError, SyntaxError, ValueError) as error:  # AttributeError: it is a set
            if column.head not in WANDB_COLUMNS:
                return [column]
            place = f" after {cell[: getattr(error, 'offset', 0) or 0][-30:]!r}"
            fix = "Export a column for each key with pandas.json_normalize"
            table.refuse(row, column, f"it is not a dictionary{place}. {fix}")
    columns = []
    for head in dict.fromkeys(head for row in rows for head in row):
        values = [row.get(head) for row in rows]
        cells = ["" if value in (None, "null") else str(value) for value in values]
        columns.append(Column(f"{column.head}.{head.removesuffix('.value')}", cells))  # W&B's {"value": 1}
    return columns


def _literal(node: Any) -> Any:
    """Return the dictionary, the constant or the text of an expression in Python or JSON."""
    if isinstance(node, ast.Dict):
        return {_literal(key): _literal(value) for key, value in zip(node.keys, node.values, strict=True)}
    if isinstance(node, ast.Call) and len(node.args) == 1:  # such as np.float64(0.9)
        return _literal(node.args[0])
    return node.value if isinstance(node, ast.Constant) else ast.unparse(node)
