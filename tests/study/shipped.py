"""The studies of the project, and what their tables place beside published numbers before anything has
run.
"""

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from recstudy import Search, Study
from recstudy.records import Results
from recstudy.report import Table
from recstudy.report.cells import Cell
from recstudy.report.study_records import load_study
from recstudy.report.table import TableData
from recstudy.report.tables.render import verdicts
from recstudy.study.plan import make_plan
from recstudy.study.record import record_plan

ROOT = Path(__file__).parents[2]
STUDIES, TOOLS = ROOT / "studies", ROOT / "docs" / "tools"


def load(name: str) -> Study | Search:
    return module(STUDIES / f"{name}.py").study


def module(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    loaded_module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded_module)
    return loaded_module


def first_table(
    folder: Path, name: str, preset: str, changes: Mapping[str, Any] | None = None
) -> tuple[Table, TableData]:
    """A study's first table, without groups, before anything has run."""
    study, results = load(name), Results(folder).create()
    record_plan(make_plan(study, preset, changes), results)
    table = next(part for part in study.by_preset(study.report, preset) if isinstance(part, Table))
    return table, replace(table, group=None).cells(load_study(results, name, preset))


def compared(cell: Cell) -> tuple[str, str, str]:
    """What is published beside a cell, as the paper prints it; the verdict; and what speaks against a
    comparison.
    """
    texts = dict.fromkeys(match.text for match in cell.matches)
    return ", ".join(texts), ", ".join(verdicts(cell)), "; ".join(cell.reasons)
