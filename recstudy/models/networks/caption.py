"""What captioners share: the backbone that sees an image for them, and writing a caption token by token.

    V = mean over places of net((pixels / 255 - mean) / deviation)        mean and deviation of ImageNet   (1)
    small: [conv 3x3 of stride 2, group norm, ReLU] x 4, then the mean over each quarter of the image      (2)
    V_p = mean over the places of the net's last map that make place p of a grid (adaptive average pooling)   (3)
    E_v = W_v V                                                           with `norm` E_v / rms(E_v)       (4)

The net of (1) is one of timm's ResNets and Swin transformers, or the small one of ours, whose features by (2)
still say on which side a thing is. A grid finer than the map repeats its places.

Shapes: B images or captions, T tokens, F features, P = grid x grid places, row by row, D width, V vocabulary.
"""

from abc import abstractmethod
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.errors import DataError
from recstudy.models.captioners import BACKBONES, CaptionModel
from recstudy.models.networks.contract import Carry, Network, Output, VisionEncoder
from recstudy.models.networks.layers import lecun_normal

Cache = tuple[Tensor, ...]  # what `Captioner.next` hands on, each with the batch first
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, as timm's weights expect
CHANNELS = (3, 32, 64, 64, 64)
POOLING = 2  # the small net's last modules, which a grid does without


class BackboneNetwork(VisionEncoder):
    """Pixels of 0 to 255 (B, 3, H, W) -> features (B, F) by equation (1); with a `grid` (B, P, F) by equation
    (3).

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
        self.net: Any = (
            _timm(name, weights == "pretrained" and not on_paper) if BACKBONES[name].timm else _small()
        )

    def forward(self, images: Tensor) -> Tensor:
        images = (images / 255 - self.mean) / self.deviation
        if self.grid is None:
            return self.net(images)
        map_ = (
            self.net[:-POOLING](images)
            if isinstance(self.net, nn.Sequential)
            else self.net.forward_features(images)
        )
        if getattr(self.net, "output_fmt", "") == "NHWC":  # Swin's
            map_ = map_.permute(0, 3, 1, 2)
        return F.adaptive_avg_pool2d(map_, self.grid).flatten(2).transpose(1, 2)


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
            f"pretrained weights of {name} cannot be loaded ({reason}). timm takes them from"
            f" {source and source.hf_hub_id} on the Hugging Face hub: load them once where there is a network"
            " and copy that machine's Hugging Face cache to HF_HOME, or set model.weights 'random'."
        ) from None


def _small() -> nn.Module:
    """Equation (2)."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(CHANNELS):
        convolution = nn.Conv2d(inputs, outputs, kernel_size=3, stride=2, padding=1, bias=False)
        layers += [convolution, nn.GroupNorm(8, outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten())


class VisionProjection(nn.Module):
    """Equation (4): images (B, 3, H, W) or features (B, F) -> (B, D); on a grid (B, P, F) -> (B, P, D)."""

    kept = 0  # tensors of the tokens before: it sees none

    def __init__(self, config: CaptionModel, width: int, bias: bool, norm: bool = False) -> None:
        super().__init__()
        self.backbone = (
            BackboneNetwork(config.backbone, config.weights, config.grid) if config.tuned else None
        )
        self.project = nn.Linear(config.features, width, bias=bias)
        self.norm = norm
        lecun_normal(self.project)

    def forward(self, images: Tensor) -> Tensor:
        features = images if self.backbone is None else self.backbone(images)
        e = self.project(features)
        return F.rms_norm(e, e.shape[-1:], eps=1e-5) if self.norm else e


class Captioner(Network):
    """A network that gives, at every token of a caption, the logits of the next one."""

    def start(self, images: Tensor, tokens: Tensor | None = None) -> Carry:
        """Return the tokens (B, T), which begin with BOS; a recursion adds the states before the first
        supervision step.

        Args:
            images: pixels of 0 to 255 (B, 3, H, W); a frozen backbone's features (B, F), or (B, P, F) of the
                places of a grid, where the config `reads_features`.
            tokens: int64 ids.
        """
        assert tokens is not None, "a captioner starts with tokens"
        return (tokens,)

    @abstractmethod
    def next(
        self, images: Tensor, tokens: Tensor, steps: int, cache: Cache | None = None
    ) -> tuple[Tensor, Cache]:
        """Return the logits (B, V) of the token that follows, after `steps` supervision steps, and what makes
        the next cheap.

        Args:
            images: as in `start`; not looked at with a cache.
            tokens: (B, T) int64, all of them.
            cache: of the call with the same tokens but the last.
        """


def reorder(cache: Cache, rows: Tensor) -> Cache:
    """Return the cache of the captions `rows`, which may repeat."""
    return tuple(part.index_select(0, rows) for part in cache)


class PlainCaptioner(Captioner):
    """A captioner without a recursion over supervision steps: it reads a caption from left to right, once."""

    answer: nn.Module  # (B, T, D) -> (B, T, V)

    @abstractmethod
    def begin(self, images: Tensor) -> Cache:
        """Return what the first token is read with."""

    @abstractmethod
    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Return states (B, T, D) of the tokens that follow those of the cache, and what the next are read
        with. With a cache of `begin` any number may follow, later one a call."""

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        z_BTD, _ = self.read(carry[0], self.begin(images))
        return Output(self.answer(z_BTD)), carry

    def next(
        self, images: Tensor, tokens: Tensor, steps: int, cache: Cache | None = None
    ) -> tuple[Tensor, Cache]:
        new, cache = (tokens, self.begin(images)) if cache is None else (tokens[:, -1:], cache)
        z_BTD, cache = self.read(new, cache)
        return self.answer(z_BTD[:, -1]), cache
