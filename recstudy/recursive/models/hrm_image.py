"""Settings of HRM for small images (HRM-Small-Images), whose network is in `networks/hrm_image.py`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from recstudy.programs.settings import Range
from recstudy.recursive.config.parts import (
    FAMILIES,
    Count,
    Cycles,
    DataConfig,
    GradientMode,
    LevelLayers,
    ModelConfig,
    patches_and_heads,
)


@FAMILIES.add("hrm_image")
class HRMImage(ModelConfig):
    """HRM for small images. Defaults: the author's network for CIFAR-10 (3,552,576 parameters)."""

    recursive: ClassVar = True
    rotates: ClassVar = True
    title: ClassVar = "HRM"
    network: ClassVar = "recstudy.recursive.models.networks.hrm_image:HRMImageNetwork"

    family: Literal["hrm_image"] = "hrm_image"
    patch: Count = 4
    """side of a square patch, in pixels"""
    width: Annotated[int, Range([64, 128, 192, 256, 384])] = Field(192, ge=2)
    """D: dimensions of a token"""
    heads: Count = 6
    """attention heads"""
    low_layers: LevelLayers = 3
    """layers of f_L"""
    high_layers: LevelLayers = 3
    """layers of f_H"""
    high_cycles: Cycles = 2
    """N: H-updates per segment"""
    low_cycles: Cycles = 3
    """T: L-updates before each H-update"""
    expansion: Count = 4
    """hidden width of the GEGLU divided by the width"""
    gradient: GradientMode = "one_step"
    """updates with gradient: the last L- and the last H-update (paper); those of the last high cycle; or
    all"""

    def check(self, data: DataConfig) -> None:
        patches_and_heads(data.shape, self.patch, self.width, self.heads)
        if self.width // self.heads % 2:
            raise ValueError(
                "model.width / model.heads must be even for rotary positions, but got"
                f" {self.width // self.heads}"
            )
