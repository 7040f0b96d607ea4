"""Models of torchvision with the interface of `Network`, in a file of their own because it loads torchvision.

ResNet-18, -34 and -50 are baselines of ViTRM. They are torchvision's, with a choice of stem: `imagenet`
halves the image twice (7x7 convolution with stride 2, max-pooling), and `cifar` is a 3x3 convolution with
stride 1, which keeps all 32x32 pixels. DenseNet-121 (Huang et al. 2017) is torchvision's, with a first
convolution for any number of channels.
"""

from typing import Any

from torch import Tensor, nn
from torchvision.models import densenet, resnet

from recstudy.recursive.config.parts import Shape
from recstudy.recursive.models.networks.classifiers import Classifier
from recstudy.recursive.models.networks.contract import Carry, Output
from recstudy.recursive.models.torchvision_models import DenseNet, ResNet

RESNET_LAYERS = {18: [2, 2, 2, 2], 34: [3, 4, 6, 3], 50: [3, 4, 6, 3]}  # depth -> layers of the four blocks
DENSENET_LAYERS = (6, 12, 24, 16)  # layers of DenseNet-121's four blocks


class TorchvisionNetwork(Classifier):
    """A torchvision model with the interface of `Network`."""

    net: Any

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        return Output(self.net(images)), ()


class ResNetNetwork(TorchvisionNetwork):
    """torchvision's ResNet with the interface of `Network`."""

    def __init__(self, config: ResNet, shape: Shape, classes: int) -> None:
        super().__init__()
        kind = resnet.Bottleneck if config.depth == 50 else resnet.BasicBlock
        self.net = resnet.ResNet(kind, RESNET_LAYERS[config.depth], num_classes=classes)
        if config.stem == "cifar":
            self.net.conv1 = convolution(shape[0], size=3, stride=1)
            self.net.maxpool = nn.Identity()
        elif shape[0] != 3:
            self.net.conv1 = convolution(shape[0], size=7, stride=2)


def convolution(channels: int, size: int, stride: int) -> nn.Conv2d:
    """Return a first convolution with torchvision's initial weights."""
    layer = nn.Conv2d(channels, 64, kernel_size=size, stride=stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


class DenseNetNetwork(TorchvisionNetwork):
    """torchvision's DenseNet with the interface of `Network`."""

    def __init__(self, config: DenseNet, shape: Shape, classes: int) -> None:
        super().__init__()
        first = 2 * config.growth
        self.net = densenet.DenseNet(
            config.growth, DENSENET_LAYERS, num_init_features=first, num_classes=classes
        )
        if shape[0] != 3:
            self.net.features.conv0 = nn.Conv2d(
                shape[0], first, kernel_size=7, stride=2, padding=3, bias=False
            )
            nn.init.kaiming_normal_(self.net.features.conv0.weight)
