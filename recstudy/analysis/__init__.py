"""The reading half: folders of records in, tables and figures out. Loads neither torch nor Ray."""

from recstudy.analysis.spec import (
    Alignment,
    Arithmetic,
    Best,
    Captions,
    Curve,
    History,
    Importance,
    LearningCurves,
    LossTrace,
    Mistakes,
    ParallelCoordinates,
    Pareto,
    Slices,
    Table,
)

__all__ = [
    "Alignment",
    "Arithmetic",
    "Best",
    "Captions",
    "Curve",
    "History",
    "Importance",
    "LearningCurves",
    "LossTrace",
    "Mistakes",
    "ParallelCoordinates",
    "Pareto",
    "Slices",
    "Table",
]
