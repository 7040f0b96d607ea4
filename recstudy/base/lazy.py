"""Load slow libraries on first use.

A study file imports the parts of its report, which draw with pandas and Plotly. Without this module, each
process of the study would load both for nothing (at least 0.1 s each):

    from recstudy.base.lazy import np, pd       # in place of: import numpy as np; import pandas as pd

A module that uses these names in annotations starts with `from __future__ import annotations`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["go", "np", "pd", "px", "special"]


class LazyModule:
    """Stands for a module until an attribute of it is read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import plotly.express as px
    import plotly.graph_objects as go
    import scipy.special as special
else:
    np, pd, px = map(LazyModule, ("numpy", "pandas", "plotly.express"))
    go, special = map(LazyModule, ("plotly.graph_objects", "scipy.special"))
