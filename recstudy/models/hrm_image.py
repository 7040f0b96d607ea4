"""HRM for small images (HRM-Small-Images): what can be set. The equations stand in `networks/hrm_image.py`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES, DataConfig, ModelConfig
from recstudy.config.fields import Tunable
from recstudy.models.classifiers import patches_and_heads


@FAMILIES.add("hrm_image")
class HRMImage(ModelConfig):
    """Hierarchical reasoning model for small images. Defaults: the author's CIFAR net (3,552,576 parameters on CIFAR-10)."""

    recursive: ClassVar[bool] = True
    network: ClassVar[str] = "recstudy.models.networks.hrm_image:HRMImageNetwork"

    family: Literal["hrm_image"] = "hrm_image"
    patch: int = Field(4, ge=1, description="side of a square patch, in pixels")
    width: Annotated[int, Tunable([64, 128, 192, 256, 384])] = Field(192, ge=2, description="D: dimensions of a token")
    heads: int = Field(6, ge=1, description="attention heads")
    low_layers: Annotated[int, Tunable(1, 6)] = Field(3, ge=1, le=48, description="layers of f_L")
    high_layers: Annotated[int, Tunable(1, 6)] = Field(3, ge=1, le=48, description="layers of f_H")
    high_cycles: Annotated[int, Tunable(1, 4)] = Field(2, ge=1, le=64, description="N: H-updates a segment")
    low_cycles: Annotated[int, Tunable(1, 4)] = Field(3, ge=1, le=64, description="T: L-updates before each H-update")
    expansion: int = Field(4, ge=1, description="hidden width of the GEGLU, in widths")
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "one_step", description="through the last L- and the last H-update (the paper); the last high cycle; every update"
    )

    @property
    def title(self) -> str:
        return "HRM"

    def check(self, data: DataConfig) -> None:
        patches_and_heads(data.shape, self.patch, self.width, self.heads)
        if self.width // self.heads % 2:
            raise ValueError(f"model.width / model.heads must be even for rotary positions, but got {self.width // self.heads}")
