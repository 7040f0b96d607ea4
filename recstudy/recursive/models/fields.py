"""Field types that several families share: their bounds, and the ranges that a search tries."""

from typing import Annotated, Literal

from pydantic import Field

from recstudy.programs.settings import Range
from recstudy.recursive.config.parts import Shape

# The updates of a recursion that have a gradient (`networks/recursion.py`).
GradientMode = Literal["full_bptt", "last_cycle", "one_step"]
Depth = Annotated[int, Field(ge=1, le=48)]  # layers
Repeats = Annotated[int, Field(ge=1, le=64)]  # updates by the same weights
Weight = Annotated[float, Field(ge=0)]  # of a loss
LevelLayers = Annotated[Depth, Range(1, 6)]  # of one level of a hierarchy
Layers = Annotated[Depth, Range(1, 4)]  # of one network for all updates
Cycles = Annotated[Repeats, Range(1, 4)]
Steps = Annotated[Repeats, Range(1, 8)]


def check_heads(width: int, heads: int, part: str = "model.") -> None:
    """Raise a ValueError if the heads do not divide the width."""
    if width % heads:
        raise ValueError(f"{part}width must be a multiple of {part}heads, but got {width} and {heads}")


def patches_and_heads(shape: Shape, patch: int, width: int, heads: int) -> None:
    """Raise a ValueError if the patches do not tile the image or the heads do not divide the width."""
    check_heads(width, heads)
    if shape[1] % patch or shape[2] % patch:
        raise ValueError(f"model.patch must divide the image's {shape[1]}x{shape[2]} pixels, but got {patch}")
