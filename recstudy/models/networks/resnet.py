"""Residual networks (ResNet-18, -34, -50), the convolutional baselines of 002: torchvision's, with a choice of stem.

The `imagenet` stem halves the image twice (7x7 convolution with stride 2, max-pooling); the `cifar` stem is one 3x3
convolution with stride 1 and keeps all 32x32 pixels. There is no recursion: the carry is empty.
"""

from torch import Tensor, nn
from torchvision.models import resnet

from recstudy.config import Shape
from recstudy.models.networks.contract import Carry, Network, Output
from recstudy.models.resnet import ResNet

BLOCKS = {18: [2, 2, 2, 2], 34: [3, 4, 6, 3], 50: [3, 4, 6, 3]}


class ResNetNetwork(Network):
    """torchvision's ResNet behind the contract."""

    def __init__(self, config: ResNet, shape: Shape, classes: int) -> None:
        super().__init__()
        kind = resnet.Bottleneck if config.depth == 50 else resnet.BasicBlock
        self.net = resnet.ResNet(kind, BLOCKS[config.depth], num_classes=classes)
        if config.stem == "cifar":
            self.net.conv1 = convolution(shape[0], size=3, stride=1)
            self.net.maxpool = nn.Identity()
        elif shape[0] != 3:
            self.net.conv1 = convolution(shape[0], size=7, stride=2)

    def start(self, images: Tensor, groups: Tensor | None = None) -> Carry:
        return ()

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        return Output(self.net(images)), ()


def convolution(channels: int, size: int, stride: int) -> nn.Conv2d:
    """The first convolution, drawn as torchvision draws all of them."""
    layer = nn.Conv2d(channels, 64, kernel_size=size, stride=stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer
