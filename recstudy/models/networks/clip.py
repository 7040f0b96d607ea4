"""The transformer layer of CLIP, which FuseLIP and TiTok are made of.

    s <- s + Attn(LN(s)),  s <- s + MLP(LN(s)),  MLP = GELU between D -> 4D -> D

It takes a mask, and goes on from the keys and values of the tokens before where those cannot change.

Shapes: B sequences, S tokens, D width, H heads, E width of a head.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.models.networks.layers import GeluMLP, Past


class ClipLayer(nn.Module):
    """One layer, pre-norm, with biases."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ffn = GeluMLP(width, 4 * width)

    def forward(self, x_BSD: Tensor, mask: Tensor | None = None, past: Past | None = None) -> Tensor:
        """`mask` is True where a token (row) sees another (column); without one all see all."""
        q_BHSE, k_BHSE, v_BHSE = (self._split(part) for part in self.qkv(self.norm1(x_BSD)).chunk(3, dim=-1))
        if past is not None:
            k_BHSE, v_BHSE = past.extend(k_BHSE, v_BHSE)
        mixed_BHSE = F.scaled_dot_product_attention(q_BHSE, k_BHSE, v_BHSE, attn_mask=mask)
        x_BSD = x_BSD + self.out(mixed_BHSE.transpose(1, 2).flatten(2))
        return x_BSD + self.ffn(self.norm2(x_BSD))

    def _split(self, x_BSD: Tensor) -> Tensor:
        return x_BSD.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def init_as_clip(layers: nn.ModuleList | nn.Sequential) -> None:
    """CLIP's initial weights: smaller where a branch ends, by the depth. The MLPs' biases stay torch's."""
    for layer in layers:
        assert isinstance(layer, ClipLayer)
        width = layer.out.in_features
        branch = width**-0.5 * (2 * len(layers)) ** -0.5
        for linear, deviation in ((layer.qkv, width**-0.5), (layer.out, branch)):
            nn.init.normal_(linear.weight, std=deviation)
            nn.init.zeros_(linear.bias)
        nn.init.normal_(layer.ffn.up.weight, std=(2 * width) ** -0.5)
        nn.init.normal_(layer.ffn.down.weight, std=branch)
