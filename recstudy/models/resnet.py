"""ResNet, the convolutional baseline of ViTRM: what can be set. The network is torchvision's."""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES, ModelConfig


@FAMILIES.add("resnet")
class ResNet(ModelConfig):
    """torchvision's ResNet with one of two stems. The ViTRM paper has the ImageNet stem on 32x32 images (see ViTRM-9)."""

    network: ClassVar[str] = "recstudy.models.networks.resnet:ResNetNetwork"

    family: Literal["resnet"] = "resnet"
    depth: Literal[18, 34, 50] = Field(18, description="layers")
    stem: Literal["imagenet", "cifar"] = Field(
        "imagenet",
        description="7x7 convolution with stride 2 and max-pooling, or 3x3 with stride 1: 15 times the FLOPs on 32x32 images",
    )

    @property
    def batch_norm(self) -> bool:
        return True

    @property
    def title(self) -> str:
        return f"ResNet-{self.depth}" + ("" if self.stem == "imagenet" else " (CIFAR stem)")
