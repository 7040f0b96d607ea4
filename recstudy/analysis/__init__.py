"""The reading half: folders of records in, tables and figures out. Loads neither torch nor Ray.

The parts of a report are here as in `recstudy.report`, and what a kind of your own is made from.
"""

from typing import TYPE_CHECKING, Any

from recstudy.plugins import named
from recstudy.report import *  # noqa: F403
from recstudy.report import __all__ as PARTS_OF_REPORTS

if TYPE_CHECKING:
    from recstudy.analysis.cells import Cell, TableData, TableRow, cell_of_values
    from recstudy.analysis.figures.layout import Drawn
    from recstudy.analysis.frame import StudyRecords
    from recstudy.analysis.kept import answers_of

PLACES = {  # these load pandas or Plotly, which a study's file does without
    **dict.fromkeys(("Cell", "TableData", "TableRow", "cell_of_values"), "recstudy.analysis.cells"),
    "Drawn": "recstudy.analysis.figures.layout",
    "answers_of": "recstudy.analysis.kept",
    "StudyRecords": "recstudy.analysis.frame",
}

__all__ = [*PARTS_OF_REPORTS, "Cell", "Drawn", "StudyRecords", "TableData", "TableRow", "answers_of", "cell_of_values"]


def __getattr__(name: str) -> Any:
    if name not in PLACES:
        raise AttributeError(f"module 'recstudy.analysis' has no attribute {name!r}")
    return named(f"{PLACES[name]}:{name}")
