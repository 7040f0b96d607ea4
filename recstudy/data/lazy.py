"""`np` and `torch`, each imported when something of it is first used.

`import recstudy` loads neither. So a module can hold what can be set about a data set and, below it, the arithmetic that makes
it; it has `from __future__ import annotations`, because annotations of arrays are not to be looked up either.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["np", "torch"]


class LazyModule:
    """Stands for a module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


if TYPE_CHECKING:
    import numpy as np
    import torch
else:
    np, torch = LazyModule("numpy"), LazyModule("torch")
