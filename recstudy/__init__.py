"""recstudy: ablation studies and hyperparameter searches on Ray.

    study     variants, seeds, claims and the parts of a report
    run       a variant with a seed; its id is a digest of all settings that decide its numbers
    record    the files of a run
    target    a published number with its source
    load      reads a study's records as frames, tables and figures; `run` runs it first

Importing this package loads no other library. Each name is imported on first use; the recursive models are in
`recstudy.recursive`.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recstudy.base.moved import MovedModules, missing_name
from recstudy.base.terminal import tell_uncaught

if TYPE_CHECKING:
    from recstudy.cli.study import main, run
    from recstudy.papers import deviations, published
    from recstudy.programs.command import Command
    from recstudy.programs.function import Function, RunContext
    from recstudy.programs.inputs import Yaml
    from recstudy.programs.metric import Metric
    from recstudy.programs.settings import Range, Resources
    from recstudy.programs.sources import CsvFile, JsonFile, LastLine, Wandb
    from recstudy.records.study_schema import Deviation
    from recstudy.report import Claim, Interaction
    from recstudy.report.loaded import Loaded
    from recstudy.study.commits import Commits
    from recstudy.study.design import Variant, factorial, grid, leave_one_out, one_at_a_time
    from recstudy.study.search import Search
    from recstudy.study.study import Study
    from recstudy.study.table_study import judge

__all__ = [
    "Claim",
    "Command",
    "Commits",
    "CsvFile",
    "Deviation",
    "Function",
    "Interaction",
    "JsonFile",
    "LastLine",
    "Metric",
    "Range",
    "Resources",
    "RunContext",
    "Search",
    "Study",
    "Variant",
    "Wandb",
    "Yaml",
    "deviations",
    "factorial",
    "grid",
    "judge",
    "leave_one_out",
    "load",
    "main",
    "one_at_a_time",
    "published",
    "run",
]

_MODULES = {
    "recstudy.cli.study": "main run",
    "recstudy.papers": "deviations published",
    "recstudy.programs.command": "Command",
    "recstudy.programs.function": "Function RunContext",
    "recstudy.programs.inputs": "Yaml",
    "recstudy.programs.metric": "Metric",
    "recstudy.programs.settings": "Resources Range",
    "recstudy.programs.sources": "CsvFile JsonFile LastLine Wandb",
    "recstudy.records.study_schema": "Deviation",
    "recstudy.report": "Claim Interaction",
    "recstudy.study.commits": "Commits",
    "recstudy.study.design": "Variant factorial grid leave_one_out one_at_a_time",
    "recstudy.study.search": "Search",
    "recstudy.study.study": "Study",
    "recstudy.study.table_study": "judge",
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names.split()}

tell_uncaught()
sys.meta_path.append(MovedModules())


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _PLACES:
        raise missing_name("recstudy", name)
    value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *_PLACES]


def load(path: str | Path, trust: bool = False) -> "Loaded":
    """Return a study from its records, for a notebook: `.runs` and `.epochs` as pandas frames, tables and
    figures by name.

    Args:
        path: `results/studies/NAME/PRESET`, or a results folder with one study.
        trust: Import the current modules of the study.

    Raises:
        ConfigError: There is no study, or there are several.
    """
    from recstudy.report.loaded import load as read  # pandas and plotly, which no command needs to start

    return read(path, trust)
