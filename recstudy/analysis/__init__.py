"""The reading half: folders of records in, tables and figures out. Loads neither torch nor Ray."""

from recstudy.analysis.spec import Arithmetic, Curve, LearningCurves, LossTrace, Mistakes, Table

__all__ = ["Arithmetic", "Curve", "LearningCurves", "LossTrace", "Mistakes", "Table"]
