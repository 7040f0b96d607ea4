"""What a run is judged by, and what it cost: one registry, to which recstudy's own metrics are added as a
user's are.

Importing this loads neither numpy, torch, pandas nor scikit-learn: what computes is imported when it does.
"""

from recstudy.metrics import arc, classification, grids, quantities  # noqa: F401  each adds its own
from recstudy.metrics.answers import TASKS, UNKNOWN, Answers
from recstudy.metrics.registry import Value, measured, metric
from recstudy.programs.metric import METRICS, Metric, NotAvailable

__all__ = ["METRICS", "TASKS", "UNKNOWN", "Answers", "Metric", "NotAvailable", "Value", "measured", "metric"]
