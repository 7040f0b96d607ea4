"""The kinds of figures. Fields are named as in `tables.py`."""

from typing import ClassVar

from pydantic import Field

from recstudy.papers import Target, published
from recstudy.report.parts import PARTS, BesidePublished, FigurePart, OfVariants

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


@PARTS.add("alignment")
class Alignment(FigurePart, OfVariants, BesidePublished):
    """Cosines of test images and their captions before and after training, and the differences: one seed of a variant."""

    name: str = "alignment"
    most: int = Field(default=12, ge=1)  # pairs of a variant that are shown with their image
    targets: tuple[Target, ...] = Field(default_factory=lambda: published("000_alignment_cosines"), kw_only=True)
    default_title: ClassVar[str] = "Cosine of image and caption, before and after training"
