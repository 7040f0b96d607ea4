"""Settings of ImageHRM and ImageTRM, whose networks are in `networks/image_hrm.py`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from recstudy.programs.settings import Range
from recstudy.recursive.config.parts import (
    FAMILIES,
    Count,
    Cycles,
    DataConfig,
    GradientMode,
    Layers,
    LevelLayers,
    Steps,
)
from recstudy.recursive.models.caption import CaptionModel


class RecursiveCaptionModel(CaptionModel):
    """A causal recursion over the tokens of a caption. Defaults: the widths of HRM and TRM."""

    recursive: ClassVar = True
    halts: ClassVar = True
    rotates: ClassVar = True

    width: int = Field(512, ge=2)
    """d: dimensions of a token"""
    heads: Count = 8
    """attention heads"""
    expansion: Count = 4
    """the SwiGLU's hidden width is 2/3 x expansion x width, rounded up to a multiple of 256"""
    image_norm: bool = False
    """whether E_v is RMS-normalised, so that image and token have the same scale"""
    halt_read: Literal["mean", "last"] = "mean"
    """input of the halting head: the mean over a caption's tokens, or the last token; the first token, which
    HRM reads, has seen only BOS"""

    halt_target: Literal["soft", "exact"] = "soft"
    """target of halting: the share of a caption's correct tokens, or whether all of them are correct"""

    @property
    def exact_halt(self) -> bool:
        return self.halt_target == "exact"

    def check(self, data: DataConfig) -> None:
        super().check(data)
        if self.width % self.heads or self.width // self.heads % 2:
            raise ValueError(
                f"model.width must be an even multiple of model.heads, but got {self.width} and {self.heads}"
            )
        if self.image_norm and self.fuselip is not None:
            raise ValueError(
                "model.image_norm must be false with model.backbone 'fuselip', whose features are already"
                " scaled"
            )


@FAMILIES.add("image_hrm")
class ImageHRM(RecursiveCaptionModel):
    """ImageHRM. Defaults: the paper's triple loop, whose core has 20,447,232 parameters.

    `middle_cycles=0` is the dual loop with 13,631,488 parameters.
    """

    network: ClassVar = "recstudy.recursive.models.networks.image_hrm:image_hrm"
    bootstraps: ClassVar = True

    family: Literal["image_hrm"] = "image_hrm"
    high_layers: LevelLayers = 2
    """layers of f_H"""
    middle_layers: LevelLayers = 2
    """layers of f_M"""
    low_layers: LevelLayers = 2
    """layers of f_L"""
    high_cycles: Cycles = 2
    """C_H: H-updates per segment"""
    middle_cycles: Annotated[int, Range(1, 4)] = Field(2, ge=0, le=64)
    """C_M: M-updates before each H-update; 0 removes the middle level (the dual loop)"""
    low_cycles: Cycles = 2
    """C_L: L-updates before each update of the level above"""
    top_down: Literal["literal", "chain", "full"] = "chain"
    """input of a level from above: nothing (the paper's Algorithm 1 as printed); the next higher level (its
    text: H to M to L); or the sum of all higher levels"""
    gradient: GradientMode = "one_step"
    """updates with gradient: the last one of each level (paper); those of the last high cycle; or all"""

    @property
    def title(self) -> str:
        return f"ImageHRM ({'Triple' if self.middle_cycles else 'Dual'}, {self.vision})"

    @property
    def levels(self) -> dict[str, tuple[int, int]]:
        """Cycles and layers of each level, by name, the lowest level first."""
        levels = {
            "low": (self.low_cycles, self.low_layers),
            "middle": (self.middle_cycles, self.middle_layers),
            "high": (self.high_cycles, self.high_layers),
        }
        return {name: (cycles, layers) for name, (cycles, layers) in levels.items() if cycles}


@FAMILIES.add("image_trm")
class ImageTRM(RecursiveCaptionModel):
    """ImageTRM. Defaults: the paper's settings (a core of 6,815,744 parameters), and TRM's cycles.

    The paper does not state the numbers of cycles and latent steps.
    """

    network: ClassVar = "recstudy.recursive.models.networks.image_hrm:image_trm"

    family: Literal["image_trm"] = "image_trm"
    layers: Layers = 2
    """layers of the network"""
    cycles: Cycles = 3
    """T: cycles per segment"""
    latent_steps: Steps = 6
    """n: z-updates per cycle"""
    gradient: GradientMode = "full_bptt"
    """updates with gradient: all (paper); those of the last cycle (TRM's code); or the last z- and the last
    y-update"""

    @property
    def title(self) -> str:
        return f"ImageTRM ({self.vision})"
