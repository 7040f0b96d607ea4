"""HRM, the hierarchical reasoning model, and its chest X-ray form (001): what can be set.

The recursion stands in `networks/hrm.py`, what goes in and out in `networks/sequence.py`.
"""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES, Shape
from recstudy.models.sequence import SequenceModel
from recstudy.tunable import Tunable

if TYPE_CHECKING:
    from torch import nn


@FAMILIES.add("hrm")
class HRM(SequenceModel):
    """HRM v1. Defaults: the published net (27,262,976 parameters of the core) on 8-bit pixels (27,526,146)."""

    bootstraps: ClassVar[bool] = True

    family: Literal["hrm"] = "hrm"
    high_layers: Annotated[int, Tunable(1, 6)] = Field(4, ge=1, le=48, description="layers of f_H")
    low_layers: Annotated[int, Tunable(1, 6)] = Field(4, ge=1, le=48, description="layers of f_L")
    high_cycles: Annotated[int, Tunable(1, 4)] = Field(2, ge=1, le=64, description="N: H-updates a segment")
    low_cycles: Annotated[int, Tunable(1, 4)] = Field(2, ge=1, le=64, description="T: L-updates before each H-update")
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "one_step", description="through the last L- and the last H-update (the paper); the last high cycle; every update"
    )

    def counts(self, shape: Shape, classes: int) -> dict[str, int]:
        """Parameters by part; `core` is both modules."""
        layer = 4 * self.width**2 + 3 * self.width * self.hidden_width
        return {"core": (self.high_layers + self.low_layers) * layer, **super().counts(shape, classes)}

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        from recstudy.models.networks.hrm import HRMCore
        from recstudy.models.networks.sequence import SequenceNetwork

        return SequenceNetwork(self, shape, classes, HRMCore(self, self.length(shape)))
