"""The reading half: folders of records in, tables and figures out. Loads neither torch nor Ray."""

from recstudy.analysis.spec import Curve, LearningCurves, Table

__all__ = ["Curve", "LearningCurves", "Table"]
