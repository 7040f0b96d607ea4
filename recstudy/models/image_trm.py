"""ImageTRM, the tiny recursive model that writes captions: what can be set.

The recursion stands in `networks/image_trm.py`, what goes in and out in `networks/caption.py`.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES
from recstudy.config.tunable import Tunable
from recstudy.models.backbone import RecursiveCaptionModel


@FAMILIES.add("image_trm")
class ImageTRM(RecursiveCaptionModel):
    """ImageTRM. Defaults: its paper's (a core of 6,815,744 parameters), with TRM's cycles, which it does not print."""

    network: ClassVar[str] = "recstudy.models.networks.image_trm:image_trm"

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
