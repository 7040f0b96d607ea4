"""The kinds of figures. Fields are named as in `tables.py`."""

from typing import ClassVar

from pydantic import Field

from recstudy.report.parts import PARTS, OfVariants

MetricName = str


# -------------------------------------------------------------------------------------------------------------- training


# ------------------------------------------------------------------------------------------------ what a trained model does


@PARTS.add("thinking")
class Thinking(OfVariants):
    """Test puzzles with what stands in their cells after each segment, to step through: one seed of a variant.

    Beside its page an animated GIF of all of them, and a strip of stills for a paper, of the first puzzle where there are several
    variants.
    """

    name: str = "thinking"
    most: int = Field(default=4, ge=1)  # puzzles of a variant; a run keeps 12
    default_title: ClassVar[str] = "Test puzzles, segment by segment"
