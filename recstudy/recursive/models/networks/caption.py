"""The common parts of captioners: the vision encoder, and the interface for writing a caption token by token.

    V = mean over positions of net((pixels / 255 - mean) / deviation)     mean, deviation of ImageNet      (1)
    small: [conv 3x3 of stride 2, group norm, ReLU] x 4, then the mean over each quarter of the image      (2)
    V_p = adaptive average pooling of the net's last map at position p of a grid                           (3)
    E_v = W_v V                                                           with `norm` E_v / rms(E_v)       (4)

The net of (1) is one of timm's ResNets and Swin transformers, or recstudy's small CNN, whose features (2)
still show on which side of the image an object is. A grid finer than the map repeats its positions.

Shapes: B images or captions, T tokens, F features, P = grid x grid positions, row by row, D width, V
vocabulary.
"""

from abc import abstractmethod
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.base.errors import DataError
from recstudy.recursive.models.caption import BACKBONES, CaptionModel
from recstudy.recursive.models.networks.contract import Carry, Network, Output, VisionEncoder
from recstudy.recursive.models.networks.layers import lecun_normal

Cache = tuple[Tensor, ...]  # state between two calls of `Captioner.next`; the batch is the first dimension
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, for which timm's weights are
CHANNELS = (3, 32, 64, 64, 64)
POOLING = 2  # number of the small CNN's last modules, which a grid does not use


class BackboneNetwork(VisionEncoder):
    """The vision encoder: pixels from 0 to 255 (B, 3, H, W) -> features (B, F), Eq. 1.

    With a `grid`, the features are (B, P, F), Eq. 3.

    Raises:
        DataError: The pretrained weights cannot be loaded.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, name: str, weights: Literal["pretrained", "random"], grid: int | None = None) -> None:
        super().__init__()
        self.grid = grid
        for part, values in {"mean": MEAN, "deviation": DEVIATION}.items():
            self.register_buffer(part, torch.tensor(values).view(3, 1, 1), persistent=False)
        is_counted = torch.empty(0).is_meta  # on `meta`, parameters are counted, which needs no weights
        pretrained = weights == "pretrained" and not is_counted
        self.net: Any = _timm(name, pretrained) if BACKBONES[name].timm else _small()

    def forward(self, images: Tensor) -> Tensor:
        images = (images / 255 - self.mean) / self.deviation
        if self.grid is None:
            return self.net(images)  # Eq. 1
        if isinstance(self.net, nn.Sequential):
            map_ = self.net[:-POOLING](images)
        else:
            map_ = self.net.forward_features(images)
        if getattr(self.net, "output_fmt", "") == "NHWC":  # Swin has the channels last
            map_ = map_.permute(0, 3, 1, 2)
        # Eq. 3: pooling to the grid.
        return F.adaptive_avg_pool2d(map_, self.grid).flatten(2).transpose(1, 2)


def tuned_backbone(config: CaptionModel) -> BackboneNetwork | None:
    """Return the backbone that is trained with a captioner; None if it is frozen, and features are read."""
    return BackboneNetwork(config.backbone, config.weights, config.grid) if config.tuned else None


def frozen(config: CaptionModel) -> BackboneNetwork:
    """Return a captioner's frozen backbone, in evaluation mode.

    Random weights are fixed across seeds, so that all runs of a study share one set of features.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return BackboneNetwork(config.backbone, config.weights, config.grid).eval().requires_grad_(False)


def _timm(name: str, pretrained: bool) -> Any:
    import timm  # takes 2 s, which the backbone 'small' avoids

    model = BACKBONES[name].timm
    try:
        return timm.create_model(model, pretrained=pretrained, num_classes=0)
    except Exception as error:  # errors of the hub, the network and files come from many libraries
        if not pretrained:
            raise
        source = timm.get_pretrained_cfg(model)
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"pretrained weights of {name} cannot be loaded ({reason}). timm loads them from"
            f" {source and source.hf_hub_id} on the Hugging Face hub. Load them on a machine with a network"
            " and copy its Hugging Face cache to HF_HOME, or set model.weights 'random'."
        ) from None


def _small() -> nn.Module:
    """Return recstudy's small CNN, Eq. 2."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(CHANNELS):
        convolution = nn.Conv2d(inputs, outputs, kernel_size=3, stride=2, padding=1, bias=False)
        layers += [convolution, nn.GroupNorm(8, outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten())


class VisionProjection(nn.Module):
    """The projection of the image, Eq. 4: images (B, 3, H, W) or features (B, F) -> (B, D).

    On a grid, it maps (B, P, F) to (B, P, D).
    """

    cache_size = 0  # number of cached tensors of earlier tokens, which the projection does not read

    def __init__(self, config: CaptionModel, width: int, bias: bool, norm: bool = False) -> None:
        super().__init__()
        self.backbone = tuned_backbone(config)
        self.project = nn.Linear(config.features, width, bias=bias)
        self.norm = norm
        lecun_normal(self.project)

    def forward(self, images: Tensor) -> Tensor:
        features = images if self.backbone is None else self.backbone(images)
        e = self.project(features)
        return F.rms_norm(e, e.shape[-1:], eps=1e-5) if self.norm else e  # Eq. 4


class Captioner(Network):
    """A network that returns the logits of the next token at every token of a caption."""

    def start(self, images: Tensor, tokens: Tensor | None = None) -> Carry:
        """Return the tokens (B, T), which begin with BOS. A recursion adds its initial states.

        Args:
            images: Pixels from 0 to 255 (B, 3, H, W). If the config `reads_features`, the features of a
                frozen backbone: (B, F), or (B, P, F) on a grid.
            tokens: Token ids (B, T), int64.
        """
        assert tokens is not None, "a captioner needs tokens as its context"
        return (tokens,)

    @abstractmethod
    def next(
        self, images: Tensor, tokens: Tensor, steps: int, cache: Cache | None = None
    ) -> tuple[Tensor, Cache]:
        """Return the logits (B, V) of the next token, and a cache for the call after it.

        Args:
            images: Images as in `start`; not read with a cache.
            tokens: All tokens so far (B, T), int64.
            steps: Number of supervision steps.
            cache: The cache of the call with all tokens but the last one.
        """


def reorder(cache: Cache, rows: Tensor) -> Cache:
    """Return the cache of the captions `rows`, of which some may repeat (beam search)."""
    return tuple(part.index_select(0, rows) for part in cache)


class PlainCaptioner(Captioner):
    """A captioner without supervision steps, which reads a caption once, from left to right."""

    answer: nn.Module  # (B, T, D) -> (B, T, V)

    @abstractmethod
    def begin(self, images: Tensor) -> Cache:
        """Return the cache for the first token."""

    @abstractmethod
    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Return states (B, T, D) of the tokens after those of the cache, and the new cache.

        With the cache of `begin` there may be any number of tokens, and with a later one a single token.
        """

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        z_BTD, _ = self.read(carry[0], self.begin(images))
        return Output(self.answer(z_BTD)), carry

    def next(
        self, images: Tensor, tokens: Tensor, steps: int, cache: Cache | None = None
    ) -> tuple[Tensor, Cache]:
        new, cache = (tokens, self.begin(images)) if cache is None else (tokens[:, -1:], cache)
        z_BTD, cache = self.read(new, cache)
        return self.answer(z_BTD[:, -1]), cache
