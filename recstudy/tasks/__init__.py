"""The built-in tasks. Configs, metrics and the training loop find them by name in `TASKS`.

Importing this package loads neither numpy nor torch.
"""

from recstudy.metrics import TASKS
from recstudy.tasks.alignment import ImageCaptionPairs
from recstudy.tasks.captioning import Captioning
from recstudy.tasks.classification import Classification, Findings
from recstudy.tasks.grid import Grid
from recstudy.tasks.task import Labels, Task

__all__ = ["TASKS", "Captioning", "Classification", "Findings", "Grid", "ImageCaptionPairs", "Labels", "Task"]
