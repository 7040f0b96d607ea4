"""ImageTRM, the tiny recursive model that writes captions (000): what can be set.

The recursion stands in `networks/image_trm.py`, what goes in and out in `networks/caption.py`.
"""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from recstudy.config import FAMILIES, Shape
from recstudy.models.backbone import RecursiveCaptionModel
from recstudy.tunable import Tunable

if TYPE_CHECKING:
    from torch import nn


@FAMILIES.add("image_trm")
class ImageTRM(RecursiveCaptionModel):
    """ImageTRM. Defaults: 000 (a core of 6,815,744 parameters), with TRM's cycles, which 000 does not print."""

    family: Literal["image_trm"] = "image_trm"
    layers: Annotated[int, Tunable(1, 4)] = Field(2, ge=1, le=48, description="layers of the one net")
    cycles: Annotated[int, Tunable(1, 4)] = Field(3, ge=1, le=64, description="T: cycles a segment")
    latent_steps: Annotated[int, Tunable(1, 8)] = Field(6, ge=1, le=64, description="n: z-updates a cycle")
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "full_bptt", description="through every update (000); the last cycle (TRM's code); the last z- and the last y-update"
    )

    @property
    def title(self) -> str:
        return f"ImageTRM ({self.vision})"

    def counts(self, shape: Shape, classes: int) -> dict[str, int]:
        """Trained parameters by part; `core` is the one net."""
        return {"core": self.layers * self.layer_params, **super().counts(shape, classes)}

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        from recstudy.models.networks.image_trm import image_trm

        return image_trm(self, classes)
