"""TRM, the tiny recursive model: what can be set.

The recursion stands in `networks/trm.py`, what goes in and out in `networks/sequence.py`.
"""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from recstudy.config import FAMILIES, Shape
from recstudy.models.sequence import SequenceModel, hidden_width
from recstudy.tunable import Tunable

if TYPE_CHECKING:
    from torch import nn


@FAMILIES.add("trm")
class TRM(SequenceModel):
    """TRM. Defaults: the published net for Sudoku (6,815,744 parameters of the core with attention), on 8-bit pixels."""

    family: Literal["trm"] = "trm"
    prefix: int = Field(16, ge=1, le=64, description="positions in front of the image, of which the puzzle embedding fills one")
    mixing: Literal["attention", "mlp"] = Field("attention", description="how tokens mix; 'mlp' is a SwiGLU over the sequence")
    layers: Annotated[int, Tunable(1, 4)] = Field(2, ge=1, le=48, description="layers of the one net")
    cycles: Annotated[int, Tunable(1, 4)] = Field(3, ge=1, le=64, description="T: cycles a segment")
    latent_steps: Annotated[int, Tunable(1, 8)] = Field(
        6, ge=1, le=64, description="n: z-updates a cycle; 6 for Sudoku, 4 for ARC and mazes"
    )
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "last_cycle", description="through the last cycle (the code); every update; the last z- and the last y-update"
    )

    def counts(self, shape: Shape, classes: int) -> dict[str, int]:
        """Parameters by part; `core` is the one net."""
        length = self.length(shape)
        mixing = 4 * self.width**2 if self.mixing == "attention" else 3 * length * hidden_width(length, self.expansion)
        return {
            "core": self.layers * (mixing + 3 * self.width * self.hidden_width),
            **super().counts(shape, classes),
        }

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        from recstudy.models.networks.sequence import SequenceNetwork
        from recstudy.models.networks.trm import TRMCore

        return SequenceNetwork(self, shape, classes, TRMCore(self, self.length(shape)))
