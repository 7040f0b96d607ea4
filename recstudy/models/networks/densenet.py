"""DenseNet-121 (Huang et al. 2017), torchvision's, with a first convolution for any number of channels.

There is no recursion: the carry is empty.
"""

from torch import Tensor, nn
from torchvision.models import densenet

from recstudy.config import Shape
from recstudy.models.densenet import BLOCKS, DenseNet
from recstudy.models.networks.contract import Carry, Network, Output


class DenseNetNetwork(Network):
    """torchvision's DenseNet behind the contract."""

    def __init__(self, config: DenseNet, shape: Shape, classes: int) -> None:
        super().__init__()
        first = 2 * config.growth
        self.net = densenet.DenseNet(config.growth, BLOCKS, num_init_features=first, num_classes=classes)
        if shape[0] != 3:
            self.net.features.conv0 = nn.Conv2d(shape[0], first, kernel_size=7, stride=2, padding=3, bias=False)
            nn.init.kaiming_normal_(self.net.features.conv0.weight)

    def start(self, images: Tensor, groups: Tensor | None = None) -> Carry:
        return ()

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        return Output(self.net(images)), ()
