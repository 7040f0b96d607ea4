"""DenseNet, a convolutional baseline for chest X-rays (CheXNet's): what can be set. The network is torchvision's."""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES, DataConfig, ModelConfig

BLOCKS = (6, 12, 24, 16)  # layers of DenseNet-121's four blocks


@FAMILIES.add("densenet")
class DenseNet(ModelConfig):
    """torchvision's DenseNet-121, as wide as its growth rate. Random initial weights."""

    network: ClassVar[str] = "recstudy.models.networks.densenet:DenseNetNetwork"

    family: Literal["densenet"] = "densenet"
    growth: int = Field(32, ge=2, description="channels that a layer adds; 32 is DenseNet-121 as published")

    @property
    def batch_norm(self) -> bool:
        return True

    @property
    def title(self) -> str:
        return "DenseNet-121" + ("" if self.growth == 32 else f" (growth {self.growth})")

    def check(self, data: DataConfig) -> None:
        height, width = data.shape[1:]
        if min(height, width) < 32:
            raise ValueError(f"DenseNet-121 halves an image five times and needs 32x32 pixels or more, but got {height}x{width}")
