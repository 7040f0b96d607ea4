"""The reading half: folders of records in, tables, figures and pages out. Loads neither torch nor Ray.

The parts of a report are declared here. What draws them is loaded when it is first used, because it needs
pandas and Plotly.
"""

from typing import TYPE_CHECKING, Any

from recstudy.plugins import import_object
from recstudy.report.claims import Claim, Claims, Differences, Effects, Interaction
from recstudy.report.figures.captioner import AttentionMaps, ExpertLoad, ExpertPath, FeatureMaps
from recstudy.report.figures.captions import Alignment, Captions
from recstudy.report.figures.curve import Curve, Residuals
from recstudy.report.figures.effort import Budgets, Effort
from recstudy.report.figures.forest import Replications
from recstudy.report.figures.learning_curves import LearningCurves, LossTrace
from recstudy.report.figures.ranks import Ranks
from recstudy.report.figures.search import History, Importance, ParallelCoordinates, Pareto, Slices
from recstudy.report.figures.thinking import Thinking
from recstudy.report.figures.two_axes import HeatMap, Interactions
from recstudy.report.parts import (
    PARTS,
    BesidePublished,
    FigurePart,
    OfVariants,
    Part,
    TablePart,
    check_report,
    dump_report,
    read_report,
)
from recstudy.report.tables.arithmetic import Arithmetic
from recstudy.report.tables.table import Table
from recstudy.report.tiles import Mistakes
from recstudy.report.trials import Best

if TYPE_CHECKING:
    from recstudy.report.cells import Cell, TableData, TableRow, cell_of_values
    from recstudy.report.examples import answers_of
    from recstudy.report.study_records import StudyRecords

LAZY = {
    **dict.fromkeys(("Cell", "TableData", "TableRow", "cell_of_values"), "recstudy.report.cells"),
    "answers_of": "recstudy.report.examples",
    "StudyRecords": "recstudy.report.study_records",
}

__all__ = [
    "PARTS",
    "Alignment",
    "Arithmetic",
    "AttentionMaps",
    "BesidePublished",
    "Best",
    "Budgets",
    "Captions",
    "Cell",
    "Claim",
    "Claims",
    "Curve",
    "Differences",
    "Effects",
    "Effort",
    "ExpertLoad",
    "ExpertPath",
    "FeatureMaps",
    "FigurePart",
    "HeatMap",
    "History",
    "Importance",
    "Interaction",
    "Interactions",
    "LearningCurves",
    "LossTrace",
    "Mistakes",
    "OfVariants",
    "ParallelCoordinates",
    "Pareto",
    "Part",
    "Ranks",
    "Replications",
    "Residuals",
    "Slices",
    "StudyRecords",
    "Table",
    "TableData",
    "TablePart",
    "TableRow",
    "Thinking",
    "answers_of",
    "cell_of_values",
    "check_report",
    "dump_report",
    "read_report",
]


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module 'recstudy.report' has no attribute {name!r}")
    return import_object(f"{LAZY[name]}:{name}")
