"""ImageHRM and ImageTRM, recursive models that write captions: what can be set.

The recursions stand in `networks/image_hrm.py`, what goes in and out in `networks/caption.py`.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES, DataConfig
from recstudy.config.fields import Tunable
from recstudy.models.backbone import CaptionModel


class RecursiveCaptionModel(CaptionModel):
    """A causal recursion over the tokens of a caption. Defaults: the widths of HRM and TRM."""

    recursive: ClassVar[bool] = True
    halts: ClassVar[bool] = True

    width: int = Field(512, ge=2, description="d: dimensions of a token")
    heads: int = Field(8, ge=1, description="attention heads")
    expansion: int = Field(4, ge=1, description="the SwiGLU's hidden width is 2/3 of so many widths, rounded up to 256s")
    image_norm: bool = Field(False, description="RMS-normalise E_v, so that image and token enter with the same scale")
    halt_read: Literal["mean", "last"] = Field(
        "mean",
        description="what the halting head reads: the mean over a caption's tokens, or its last one; HRM's first one has seen "
        "no token but BOS",
    )

    halt_target: Literal["soft", "exact"] = Field(
        "soft", description="halting is learned from the share of a caption's tokens that are right, or from all of them"
    )

    @property
    def exact_halt(self) -> bool:
        return self.halt_target == "exact"

    def check(self, data: DataConfig) -> None:
        super().check(data)
        if self.width % self.heads or self.width // self.heads % 2:
            raise ValueError(f"model.width must be an even multiple of model.heads, but got {self.width} and {self.heads}")
        if self.image_norm and self.fuselip is not None:
            raise ValueError(
                "model.image_norm must be false with model.backbone 'fuselip', whose features have a scale of their own"
            )


@FAMILIES.add("image_hrm")
class ImageHRM(RecursiveCaptionModel):
    """ImageHRM. Defaults: the paper's triple loop (a core of 20,447,232); `middle_cycles=0` is the dual one (13,631,488)."""

    network: ClassVar[str] = "recstudy.models.networks.image_hrm:image_hrm"

    family: Literal["image_hrm"] = "image_hrm"
    high_layers: Annotated[int, Tunable(1, 6)] = Field(2, ge=1, le=48, description="layers of f_H")
    middle_layers: Annotated[int, Tunable(1, 6)] = Field(2, ge=1, le=48, description="layers of f_M")
    low_layers: Annotated[int, Tunable(1, 6)] = Field(2, ge=1, le=48, description="layers of f_L")
    high_cycles: Annotated[int, Tunable(1, 4)] = Field(2, ge=1, le=64, description="C_H: H-updates a segment")
    middle_cycles: Annotated[int, Tunable(1, 4)] = Field(
        2, ge=0, le=64, description="C_M: M-updates before each H-update; 0 has no middle level: the dual loop"
    )
    low_cycles: Annotated[int, Tunable(1, 4)] = Field(
        2, ge=1, le=64, description="C_L: L-updates before each update of the level above"
    )
    top_down: Literal["literal", "chain", "full"] = Field(
        "chain",
        description="what a level hears from above: nothing (the paper's Algorithm 1 as printed); the next level (its text: "
        "H to M to L); or the sum of all levels",
    )
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "one_step", description="through the last update of each level (the paper); the last high cycle; every update"
    )

    @property
    def bootstraps(self) -> bool:
        return True

    @property
    def title(self) -> str:
        return f"ImageHRM ({'Triple' if self.middle_cycles else 'Dual'}, {self.vision})"

    @property
    def levels(self) -> dict[str, tuple[int, int]]:
        """Cycles and layers of the levels there are, by name, the lowest first."""
        every = {
            "low": (self.low_cycles, self.low_layers),
            "middle": (self.middle_cycles, self.middle_layers),
            "high": (self.high_cycles, self.high_layers),
        }
        return {name: (cycles, layers) for name, (cycles, layers) in every.items() if cycles}


@FAMILIES.add("image_trm")
class ImageTRM(RecursiveCaptionModel):
    """ImageTRM. Defaults: its paper's (a core of 6,815,744 parameters), with TRM's cycles, which it does not print."""

    network: ClassVar[str] = "recstudy.models.networks.image_hrm:image_trm"

    family: Literal["image_trm"] = "image_trm"
    layers: Annotated[int, Tunable(1, 4)] = Field(2, ge=1, le=48, description="layers of the one net")
    cycles: Annotated[int, Tunable(1, 4)] = Field(3, ge=1, le=64, description="T: cycles a segment")
    latent_steps: Annotated[int, Tunable(1, 8)] = Field(6, ge=1, le=64, description="n: z-updates a cycle")
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "full_bptt", description="through every update (paper); the last cycle (TRM's code); the last z- and the last y-update"
    )

    @property
    def title(self) -> str:
        return f"ImageTRM ({self.vision})"
