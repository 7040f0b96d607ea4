"""What sees an image for a captioner: timm's ResNets and Swin transformers, or a small net of ours.

    V = mean over places of net((pixels / 255 - mean) / deviation)        mean and deviation of ImageNet      (1)
    small: [conv 3x3 of stride 2, group norm, ReLU] x 4, then the mean over each quarter of the image         (2)
    V_p = mean over the places of the net's last map that make place p of a grid (adaptive average pooling)   (3)

By (2) the small net's features still say on which side a thing is. A grid finer than the map repeats its places.

Shapes: B images, F features, P = grid x grid places, row by row.
"""

from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.errors import DataError
from recstudy.models.backbone import BACKBONES, CaptionModel
from recstudy.models.networks.contract import VisionEncoder

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, as timm's weights expect
CHANNELS = (3, 32, 64, 64, 64)
POOLING = 2  # the small net's last modules, which a grid does without


class BackboneNetwork(VisionEncoder):
    """Pixels of 0 to 255 (B, 3, H, W) -> features (B, F) by equation (1); with a `grid` (B, P, F) by equation (3).

    Raises:
        DataError: pretrained weights that cannot be had.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, name: str, weights: Literal["pretrained", "random"], grid: int | None = None) -> None:
        super().__init__()
        self.grid = grid
        for part, values in {"mean": MEAN, "deviation": DEVIATION}.items():
            self.register_buffer(part, torch.tensor(values).view(3, 1, 1), persistent=False)
        on_paper = torch.empty(0).is_meta  # parameters are counted there, for which no weights are needed
        self.net: Any = _timm(name, weights == "pretrained" and not on_paper) if BACKBONES[name].timm else _small()

    def forward(self, images: Tensor) -> Tensor:
        images = (images / 255 - self.mean) / self.deviation
        if self.grid is None:
            return self.net(images)
        return F.adaptive_avg_pool2d(self.last_map(images), self.grid).flatten(2).transpose(1, 2)

    def last_map(self, images: Tensor) -> Tensor:
        """Return (B, F, height, width) of standardised images."""
        if isinstance(self.net, nn.Sequential):
            return self.net[:-POOLING](images)
        map_ = self.net.forward_features(images)
        return map_.permute(0, 3, 1, 2) if getattr(self.net, "output_fmt", "") == "NHWC" else map_  # Swin's


def frozen(config: CaptionModel) -> BackboneNetwork:
    """Return a captioner's backbone that is not trained, in evaluation mode.

    Random weights are the same for every seed: all runs of a study then share one set of features.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return BackboneNetwork(config.backbone, config.weights, config.grid).eval().requires_grad_(False)


def _timm(name: str, pretrained: bool) -> Any:
    import timm  # 2 s, which 'small' need not pay

    model = BACKBONES[name].timm
    try:
        return timm.create_model(model, pretrained=pretrained, num_classes=0)
    except Exception as error:  # hub, network and file errors are of many libraries
        if not pretrained:
            raise
        source = timm.get_pretrained_cfg(model)
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"pretrained weights of {name} cannot be loaded ({reason}). timm takes them from {source and source.hf_hub_id} "
            "on the Hugging Face hub: load them once where there is a network and copy that machine's Hugging Face cache to "
            "HF_HOME, or set model.weights 'random'."
        ) from None


def _small() -> nn.Module:
    """Equation (2)."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(CHANNELS):
        convolution = nn.Conv2d(inputs, outputs, kernel_size=3, stride=2, padding=1, bias=False)
        layers += [convolution, nn.GroupNorm(8, outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten())
