"""The multiscale vision encoder of 003, MSVE (section III-C): a feature pyramid over a backbone's stages C2 to C5.

    P_5 = phi(C_5),   P_i = phi(C_i) + up(P_i+1)      phi: 1x1 convolution, batch norm, ReLU; one for each stage    (1)
    F = Psi(P_2 + up(P_3) + up(P_4) + up(P_5))        Psi: 3x3 convolution, batch norm, ReLU, at the size of C_2    (2)
    V = F pooled to 7x7                               49 places                                                     (3)

up is bilinear. `one_scale` is (1)-(2) with C_5 alone, F = Psi(up(phi(C_5))): Psi costs 236.8 GFLOP at 224x224 pixels, 15 times
the ResNet-101, so that leaving the pyramid out takes 94 % of the image's FLOPs with it (contradiction 003-9). With one scale
only three of the four phi are missing, 5.8 of 258.6 GFLOP. `off` pools C_5 itself.

Shapes: B images, C channels of a stage, P places, W channels of the pyramid.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.models.micar import MicarVLMoE
from recstudy.models.networks.backbones import POOLING, BackboneNetwork
from recstudy.models.networks.contract import VisionEncoder


class MultiscaleEncoder(VisionEncoder):
    """Equations (1)-(3): pixels of 0 to 255 (B, 3, height, width), or a frozen backbone's features (B, P, F) -> (B, P, W)."""

    def __init__(self, config: MicarVLMoE) -> None:
        super().__init__()
        self.grid = config.grid
        self.backbone = BackboneNetwork(config.backbone, config.weights, config.grid) if config.tuned else None
        self.pyramid = Pyramid(config.scales, config.pyramid_width) if config.scales else None

    def forward(self, images: Tensor) -> Tensor:
        if self.backbone is None:
            return images
        if self.pyramid is None:
            return self.backbone(images)
        fused = self.pyramid(stages(self.backbone, images))
        return F.adaptive_avg_pool2d(fused, self.grid).flatten(2).transpose(1, 2)


class Pyramid(nn.Module):
    """Equations (1)-(2): C_2 to C_5 -> F (B, W, height, width) at the size of C_2.

    Args:
        channels: of the stages that are read: all, or the last ones.
        width: W.
    """

    def __init__(self, channels: Sequence[int], width: int) -> None:
        super().__init__()
        self.lateral = nn.ModuleList(_convolution(inputs, width, 1) for inputs in channels)
        self.fuse = _convolution(width, width, 3)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        levels: list[Tensor] = []
        for phi, map_ in zip(reversed(self.lateral), reversed(maps), strict=False):
            level = phi(map_)
            levels.append(level + enlarged(levels[-1], map_) if levels else level)  # (1)
        return self.fuse(reduce(torch.add, [enlarged(level, maps[0]) for level in levels]))  # (2)


def stages(backbone: BackboneNetwork, images: Tensor) -> list[Tensor]:
    """C_2 to C_5 of pixels of 0 to 255."""
    images = (images / 255 - backbone.mean) / backbone.deviation
    net: Any = backbone.net
    if not isinstance(net, nn.Sequential):
        return net.forward_intermediates(images, indices=4, intermediates_only=True)
    found: list[Tensor] = []
    for module in net[:-POOLING]:
        images = module(images)
        found += [images] if isinstance(module, nn.ReLU) else []
    return found


def enlarged(map_: Tensor, like: Tensor) -> Tensor:
    """A map at another one's height and width."""
    if map_.shape[-2:] == like.shape[-2:]:
        return map_
    return F.interpolate(map_, size=like.shape[-2:], mode="bilinear", align_corners=False)


def _convolution(inputs: int, outputs: int, side: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, side, padding=side // 2), nn.BatchNorm2d(outputs), nn.ReLU())
