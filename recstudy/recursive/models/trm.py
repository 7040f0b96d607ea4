"""Settings of TRM, whose network is in `networks/trm.py`."""

from typing import ClassVar, Literal, Self

from recstudy.recursive.config.parts import FAMILIES, Cycles, GradientMode, Layers, Repeats, Steps
from recstudy.recursive.models.sequence import SequenceModel


@FAMILIES.add("trm")
class TRM(SequenceModel):
    """TRM. Defaults: the published network for Sudoku, on 8-bit pixels.

    With attention, the core has 6,815,744 parameters.
    """

    network: ClassVar = "recstudy.recursive.models.networks.trm:TRMCore"

    family: Literal["trm"] = "trm"
    prefix: Repeats = 16
    """positions before the image, of which the puzzle embedding fills one"""
    layers: Layers = 2
    """layers of the network"""
    cycles: Cycles = 3
    """T: cycles per segment"""
    latent_steps: Steps = 6
    """n: z-updates per cycle; 6 for Sudoku, 4 for ARC and mazes"""
    gradient: GradientMode = "last_cycle"
    """updates with gradient: those of the last cycle (the authors' code); all; or the last z- and the last
    y-update"""

    networks: Literal[1, 2] = 1
    """one network for z and y, or one for each, as in HRM (TRM, Table 1)"""
    states: Literal["answer and latent", "single", "multi-scale"] = "answer and latent"
    """states: y and z; a single state; or y and a separate z for each of the n updates (TRM, Table 2)"""
    act: Literal["halt only", "continue"] = "halt only"
    """what the halting head learns: whether the answer is correct; or also HRM's value of continuing (TRM,
    Table 1)"""
    curriculum: Literal["none", "thirds"] = "none"
    """depth curriculum: T and n are a third of their values in the first 30 % of the updates, two thirds up
    to 60 %, and full after that (CGAR)"""

    @property
    def bootstraps(self) -> bool:
        return self.act == "continue"

    @property
    def stages(self) -> tuple[tuple[float, Self], ...]:
        if self.curriculum == "none":
            return super().stages
        # CGAR: T and n are a third of their values, rounded up, then two thirds, then whole.
        thirds = []
        for k in (1, 2, 3):
            depth = {"cycles": -(-self.cycles * k // 3), "latent_steps": -(-self.latent_steps * k // 3)}
            thirds.append(self.model_copy(update=depth))
        return tuple(zip((0.3, 0.3, 0.4), thirds, strict=True))

    @property
    def revised(self) -> int:
        """The revision of what this model computes, which is part of the run id."""
        # In revision 1, the norm after the mixing of `mlp` was over the width, and the last update of
        # `single` read the image.
        return self.revision + (self.mixing == "mlp") + (self.states == "single")
