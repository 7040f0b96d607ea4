"""HRM v1 as its published loop has it, written down plainly: what `recstudy.models.networks.hrm` is held against.

Norms and rotary positions are spelled out in float32, heads stay behind their position until attention takes them, every
layer adds its input by itself, and the head answers at every position although one is read. All but the last L- and the last
H-update stand in one block without gradient. The weights' layout and the order of operations are that loop's, so that the
time it takes is what one gets without thinking about time; attention is torch's own kernel on both sides.

Shapes: B sequences, S positions, H heads, E width of a head, D width.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.config import Shape
from recstudy.models import HRM
from recstudy.models.networks.contract import Carry, Network, Output
from recstudy.models.networks.sequence import SequenceNetwork


def rms_norm(x: Tensor, eps: float = 1e-5) -> Tensor:
    wide = x.to(torch.float32)
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def turned(x_BSHE: Tensor, cos_SE: Tensor, sin_SE: Tensor) -> Tensor:
    """Rotary positions."""
    wide = x_BSHE.to(torch.float32)
    half = x_BSHE.shape[-1] // 2
    other = torch.cat((-wide[..., half:], wide[..., :half]), dim=-1)
    return (wide * cos_SE[:, None] + other * sin_SE[:, None]).to(x_BSHE.dtype)


class NaiveAttention(nn.Module):
    """One projection for queries, keys and values, positions before heads."""

    def __init__(self, config: HRM) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv_proj = nn.Linear(config.width, 3 * config.width, bias=False)
        self.o_proj = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x_BSD: Tensor, cos_SE: Tensor, sin_SE: Tensor) -> Tensor:
        batch, length, width = x_BSD.shape
        qkv = self.qkv_proj(x_BSD).view(batch, length, 3 * self.heads, width // self.heads)
        q, k, v = qkv[:, :, : self.heads], qkv[:, :, self.heads : 2 * self.heads], qkv[:, :, 2 * self.heads :]
        q, k = turned(q, cos_SE, sin_SE), turned(k, cos_SE, sin_SE)
        mixed = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, width))


class NaiveSwiGLU(nn.Module):
    """down(silu(gate) * up)."""

    def __init__(self, config: HRM) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(config.width, 2 * config.hidden_width, bias=False)
        self.down_proj = nn.Linear(config.hidden_width, config.width, bias=False)

    def forward(self, x_BSD: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x_BSD).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate) * up)


class NaiveLayer(nn.Module):
    """Post-norm attention and SwiGLU."""

    def __init__(self, config: HRM) -> None:
        super().__init__()
        self.attention, self.mlp = NaiveAttention(config), NaiveSwiGLU(config)

    def forward(self, x_BSD: Tensor, cos_SE: Tensor, sin_SE: Tensor) -> Tensor:
        x_BSD = rms_norm(x_BSD + self.attention(x_BSD, cos_SE, sin_SE))
        return rms_norm(x_BSD + self.mlp(x_BSD))


class NaiveHRM(Network):
    """The defaults of `HRM`: pixel tokens behind a prefix of zeros, rotary positions, one-step gradient, one answer token."""

    z_high: Tensor  # (D,)
    z_low: Tensor
    cos: Tensor  # (S, E)
    sin: Tensor

    def __init__(self, config: HRM, shape: Shape, classes: int) -> None:
        super().__init__()
        self.config, self.length = config, config.length(shape)
        self.embed_tokens = nn.Embedding(config.vocabulary, config.width)
        self.low_level = nn.ModuleList(NaiveLayer(config) for _ in range(config.low_layers))
        self.high_level = nn.ModuleList(NaiveLayer(config) for _ in range(config.high_layers))
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.q_head = nn.Linear(config.width, 2)
        for name in ("z_high", "z_low"):
            self.register_buffer(name, torch.zeros(config.width))
        head_width = config.width // config.heads
        rates = 1.0 / (10_000.0 ** (torch.arange(0, head_width, 2, dtype=torch.float32) / head_width))
        angles = torch.outer(torch.arange(self.length, dtype=torch.float32), rates)
        for name, value in (("cos", angles.cos()), ("sin", angles.sin())):
            self.register_buffer(name, torch.cat((value, value), dim=-1), persistent=False)

    def start(self, images: Tensor, groups: Tensor | None = None) -> Carry:
        return self.z_high.repeat(len(images), self.length, 1), self.z_low.repeat(len(images), self.length, 1)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        z_high, z_low = carry
        x = self.embed(images)
        with torch.no_grad():
            for high_step in range(self.config.high_cycles):
                for low_step in range(self.config.low_cycles):
                    if not (high_step == self.config.high_cycles - 1 and low_step == self.config.low_cycles - 1):
                        z_low = self.level(self.low_level, z_low, z_high + x)
                if high_step != self.config.high_cycles - 1:
                    z_high = self.level(self.high_level, z_high, z_low)
        z_low = self.level(self.low_level, z_low, z_high + x)
        z_high = self.level(self.high_level, z_high, z_low)
        logits_BSV = self.lm_head(z_high)[:, self.config.prefix :]
        halt, proceed = self.q_head(z_high[:, 0]).to(torch.float32).unbind(-1)
        return Output(logits_BSV[:, 0], halt, proceed), (z_high, z_low)

    def embed(self, images: Tensor) -> Tensor:
        """The pixels' tokens behind the prefix, times the root of the width."""
        tokens = self.embed_tokens((images.long() * self.config.vocabulary // 256).flatten(1))
        prefix = torch.zeros(len(images), self.config.prefix, self.config.width, device=images.device, dtype=tokens.dtype)
        return math.sqrt(self.config.width) * torch.cat((prefix, tokens), dim=1)

    def level(self, layers: nn.ModuleList, state: Tensor, injected: Tensor) -> Tensor:
        state = state + injected
        for layer in layers:
            state = layer(state, self.cos, self.sin)
        return state


def copy_weights(network: SequenceNetwork, naive: NaiveHRM) -> None:
    """Give `naive` the weights of ours: other names, and the gate before the value it gates."""
    renamed = {_name(name): value for name, value in network.state_dict().items()}
    for name, value in renamed.items():
        if name.endswith("gate_up_proj.weight"):
            up, gate = value.chunk(2)
            renamed[name] = torch.cat((gate, up))
    naive.load_state_dict(renamed)


def _name(ours: str) -> str:
    for old, new in (
        ("core.f_low.", "low_level."),
        ("core.f_high.", "high_level."),
        ("core.z_", "z_"),
        ("mix.qkv.", "attention.qkv_proj."),
        ("mix.out.", "attention.o_proj."),
        ("ffn.up.", "mlp.gate_up_proj."),
        ("ffn.down.", "mlp.down_proj."),
        ("embed.", "embed_tokens."),
        ("answer.", "lm_head."),
    ):
        ours = ours.replace(old, new)
    return ours
