"""The layers of HRM, TRM and the transformer beside them, by how tokens mix.

    attention:    s <- rms(s + Attn(s)),       s <- rms(s + SwiGLU(s)),  rms(s) = s / sqrt(mean(s^2) + 1e-5)    (1)
    mlp:          s' <- rms(s' + SwiGLU(s')),  then (1)'s SwiGLU                                                (2)

s' is s transposed: its SwiGLU mixes the tokens of each dimension and needs no positions, and its rms runs over the tokens,
not over the width, as in TRM's published code. No layer has a bias, no norm a scale.

Shapes: B sequences, S tokens, D width.
"""

from torch import Tensor, nn

from recstudy.models.networks.layers import Attention, PostNorm, Rotary, SwiGLU
from recstudy.models.sequence import SequenceModel, hidden_width


def make_layers(config: SequenceModel, length: int, count: int) -> nn.Sequential:
    """So many layers on so many tokens."""
    if config.mixing == "mlp":
        return nn.Sequential(*(MixLayer(config, length) for _ in range(count)))
    rotary = Rotary(length, config.width // config.heads) if config.positions == "rotary" else None
    return nn.Sequential(*(attending(config, rotary) for _ in range(count)))


def attending(config: SequenceModel, rotary: Rotary | None) -> PostNorm:
    """Equation (1)."""
    attention = Attention(config.width, config.heads, qkv_bias=False, out_bias=False, rotary=rotary)
    ffn = SwiGLU(config.width, config.hidden_width, bias=False)
    return PostNorm(attention, ffn, config.width, eps=1e-5, scale=False)


class MixLayer(nn.Module):
    """Equation (2)."""

    def __init__(self, config: SequenceModel, length: int) -> None:
        super().__init__()
        self.mix = SwiGLU(length, hidden_width(length, config.expansion, config.multiple), bias=False)
        self.ffn = SwiGLU(config.width, config.hidden_width, bias=False)
        self.norm1, self.norm2 = (nn.RMSNorm(size, eps=1e-5, elementwise_affine=False) for size in (length, config.width))

    def forward(self, s_BSD: Tensor) -> Tensor:
        s_BDS = s_BSD.transpose(1, 2)
        s_BSD = self.norm1(s_BDS + self.mix(s_BDS)).transpose(1, 2)
        return self.norm2(s_BSD + self.ffn(s_BSD))
