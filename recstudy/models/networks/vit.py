"""Vision transformer (ViT), the baseline of 002: pre-norm layers over patches and a class token.

    t = LN(patches W + b), patches normalised first          (1)
    s = [c; t] + p                                           (2)
    s <- layers(s)                                           (3)
    logits = W_c LN(s_0) + b_c                               (4)

Query, key and value have no bias. There is no recursion: the carry is empty and one supervision step is all.

Shapes: B images, N patches, S = N + 1 tokens, D width.
"""

import torch
from torch import Tensor, nn

from recstudy.config import Shape
from recstudy.models.networks.contract import Carry, Network, Output
from recstudy.models.networks.layers import Attention, Block, GeluMLP, Layer
from recstudy.models.vit import ViT


class ViTNetwork(Network):
    """Equations (1)-(4)."""

    def __init__(self, config: ViT, shape: Shape, classes: int) -> None:
        super().__init__()
        channels, height, width = shape
        d_model, layers, heads, hidden = config.dimensions
        size = channels * config.patch**2
        self.patches = nn.PixelUnshuffle(config.patch)
        self.embed = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, d_model), nn.LayerNorm(d_model))
        self.class_token = nn.Parameter(torch.randn(1, 1, d_model))
        self.positions = nn.Parameter(torch.randn(1, (height // config.patch) * (width // config.patch) + 1, d_model))
        self.dropout = nn.Dropout(config.dropout)
        self.layers = Block([make_layer(d_model, heads, hidden, config.dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(d_model)
        self.classify = nn.Linear(d_model, classes)

    def start(self, images: Tensor, groups: Tensor | None = None) -> Carry:
        return ()

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        t_BND = self.embed(self.patches(images).flatten(2).transpose(1, 2))  # (1)
        s_BSD = torch.cat([self.class_token.expand(len(images), -1, -1), t_BND], dim=1) + self.positions  # (2)
        s_B1D = self.layers(self.dropout(s_BSD), read=slice(0, 1))  # (3)
        return Output(self.classify(self.norm(s_B1D[:, 0]))), ()  # (4)


def make_layer(width: int, heads: int, hidden: int, dropout: float) -> Layer:
    attention = Attention(width, heads, dropout, qkv_bias=False)
    return Layer(attention, GeluMLP(width, hidden, dropout), width, "pre", dropout)
