"""Claims and report parts, and what turns records into tables, figures, verdicts and pages.

The parts of a report are declared here. Pandas and Plotly are loaded when a part is first drawn.
"""

from typing import Any

from recstudy.base.moved import missing_name
from recstudy.report.cells import Cell, cell_of_values
from recstudy.report.claims import Claim, Claims, Differences, Effects, Interaction
from recstudy.report.figures.curve import Curve
from recstudy.report.figures.effort import Budgets, Effort
from recstudy.report.figures.forest import Replications
from recstudy.report.figures.heat_map import HeatMap
from recstudy.report.figures.learning_curves import LearningCurves, LossTrace
from recstudy.report.figures.means import Means
from recstudy.report.figures.ranks import Ranks
from recstudy.report.figures.search import History, Importance, ParallelCoordinates, Slices
from recstudy.report.figures.trade_off import Pareto
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
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import TableData, TableRow
from recstudy.report.tables.arithmetic import Arithmetic
from recstudy.report.tables.table import Table
from recstudy.report.trials import Best

__all__ = [
    "PARTS",
    "Arithmetic",
    "BesidePublished",
    "Best",
    "Budgets",
    "Cell",
    "Claim",
    "Claims",
    "Curve",
    "Differences",
    "Effects",
    "Effort",
    "FigurePart",
    "HeatMap",
    "History",
    "Importance",
    "Interaction",
    "LearningCurves",
    "LossTrace",
    "Means",
    "OfVariants",
    "ParallelCoordinates",
    "Pareto",
    "Part",
    "Ranks",
    "Replications",
    "Slices",
    "StudyRecords",
    "Table",
    "TableData",
    "TablePart",
    "TableRow",
    "cell_of_values",
    "check_report",
    "dump_report",
    "read_report",
]


def __getattr__(name: str) -> Any:
    raise missing_name("recstudy.report", name)
