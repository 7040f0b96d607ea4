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


@PARTS.add("expert_load")
class ExpertLoad(FigurePart, OfVariants):
    """Of mixtures of experts: each expert's share of the test set's tokens by layer, a panel a variant; one seed of a variant."""

    name: str = "load"
    default_title: ClassVar[str] = "Each expert's share of the test set's tokens"


@PARTS.add("expert_path")
class ExpertPath(FigurePart, OfVariants):
    """The experts that each token of one generated caption goes to, a panel a layer: of the first variant that has experts."""

    name: str = "experts"
    example: int = Field(default=0, ge=0, le=5)  # which of the first test images; a run keeps 6
    default_title: ClassVar[str] = "Experts of each token along a generated caption"


@PARTS.add("alignment")
class Alignment(FigurePart, OfVariants, BesidePublished):
    """Cosines of test images and their captions before and after training, and the differences: one seed of a variant."""

    name: str = "alignment"
    most: int = Field(default=12, ge=1)  # pairs of a variant that are shown with their image
    targets: tuple[Target, ...] = Field(default_factory=lambda: published("000_alignment_cosines"), kw_only=True)
    default_title: ClassVar[str] = "Cosine of image and caption, before and after training"
