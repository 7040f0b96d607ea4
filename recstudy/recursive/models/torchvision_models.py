"""Settings of two models of torchvision, whose networks are in `networks/torchvision_models.py`."""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.recursive.config.parts import FAMILIES, DataConfig, ModelConfig


@FAMILIES.add("resnet")
class ResNet(ModelConfig):
    """torchvision's ResNet with one of two stems. ViTRM uses the ImageNet stem on 32x32 images (ViTRM-9)."""

    network: ClassVar = "recstudy.recursive.models.networks.torchvision_models:ResNetNetwork"
    batch_norm: ClassVar = True

    family: Literal["resnet"] = "resnet"
    depth: Literal[18, 34, 50] = 18
    """number of layers"""
    stem: Literal["imagenet", "cifar"] = "imagenet"
    """imagenet: a 7x7 convolution with stride 2, then max-pooling; cifar: a 3x3 convolution with stride 1,
    with 15 times the FLOPs on 32x32 images"""

    @property
    def title(self) -> str:
        return f"ResNet-{self.depth}" + ("" if self.stem == "imagenet" else " (CIFAR stem)")


@FAMILIES.add("densenet")
class DenseNet(ModelConfig):
    """torchvision's DenseNet-121 with a choice of growth rate and random initial weights."""

    network: ClassVar = "recstudy.recursive.models.networks.torchvision_models:DenseNetNetwork"
    batch_norm: ClassVar = True

    family: Literal["densenet"] = "densenet"
    growth: int = Field(32, ge=2)
    """channels that each layer adds; the published network has 32"""

    @property
    def title(self) -> str:
        return "DenseNet-121" + ("" if self.growth == 32 else f" (growth {self.growth})")

    def check(self, data: DataConfig) -> None:
        height, width = data.shape[1:]
        if min(height, width) < 32:
            raise ValueError(
                "DenseNet-121 halves an image five times, so images must have 32x32 pixels or more, but got"
                f" {height}x{width}"
            )
