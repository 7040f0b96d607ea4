"""The metrics of runs, in one registry for recstudy's and the users' metrics.

Importing this package does not load numpy, torch, pandas or scikit-learn. Each metric imports them when it is
computed, so that commands start quickly.
"""

from recstudy.metrics import arc, classification, grids, quantities  # noqa: F401  registers the metrics
from recstudy.metrics.answers import TASKS, UNKNOWN, Answers
from recstudy.metrics.registry import Value, measured, metric
from recstudy.programs.metric import METRICS, Metric, NotAvailable

__all__ = ["METRICS", "TASKS", "UNKNOWN", "Answers", "Metric", "NotAvailable", "Value", "measured", "metric"]
