"""ViTRM (002 section 3) as one would first write it, from `torch.nn.MultiheadAttention` layers.

The equations, parameters and initial weights are those of `recstudy.recursive.models.networks.vitrm`; every layer
computes every token, although only the latent tokens of a z-update and the first token of a y-update are
read.

Shapes: B images, N patches, K latent tokens, D width.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.recursive import Shape, ViTRM
from recstudy.recursive.models.networks.contract import Carry, Network, Output


class Gate(nn.Module):
    """u * silu(g) of (u, g)."""

    def forward(self, x: Tensor) -> Tensor:
        u, g = x.chunk(2, dim=-1)
        return u * F.silu(g)


class NaiveLayer(nn.Module):
    """Pre-norm attention and SwiGLU, each with a residual branch."""

    def __init__(self, config: ViTRM) -> None:
        super().__init__()
        width, hidden = config.width, config.hidden_width
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, config.heads, dropout=config.dropout, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(width, 2 * hidden), Gate(), nn.Linear(hidden, width))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BSD: Tensor) -> Tensor:
        seen_BSD = self.norm1(x_BSD)
        x_BSD = x_BSD + self.dropout(self.attention(seen_BSD, seen_BSD, seen_BSD)[0])
        return x_BSD + self.dropout(self.ffn(self.norm2(x_BSD)))


class NaiveViTRM(Network):
    """The defaults of `ViTRM`: one pre-norm block, one cycle, gradients through all of it."""

    def __init__(self, config: ViTRM, shape: Shape, classes: int) -> None:
        super().__init__()
        channels, height, width = shape
        self.steps = config.latent_steps
        self.embed = nn.Conv2d(channels, config.width, config.patch, stride=config.patch)
        self.positions = nn.Parameter(
            torch.zeros(1, (height // config.patch) * (width // config.patch), config.width)
        )
        self.y_start = nn.Parameter(torch.zeros(1, 1, config.width))
        self.z_start = nn.Parameter(torch.zeros(1, config.latent_tokens, config.width))
        self.f = nn.Sequential(*(NaiveLayer(config) for _ in range(config.layers)))
        self.classify, self.halt = nn.Linear(config.width, classes), nn.Linear(config.width, 1)

    def start(self, images: Tensor) -> Carry:
        return self.y_start.repeat(len(images), 1, 1), self.z_start.repeat(len(images), 1, 1)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        y_B1D, z_BKD = carry
        x_BND = self.embed(images).flatten(2).transpose(1, 2) + self.positions
        for _ in range(self.steps):
            z_BKD = self.f(torch.cat([x_BND, y_B1D, z_BKD], dim=1))[:, -z_BKD.shape[1] :]
        y_B1D = self.f(torch.cat([y_B1D, z_BKD], dim=1))[:, :1]
        answer_BD = y_B1D[:, 0]
        return Output(self.classify(answer_BD), self.halt(answer_BD)[:, 0]), (y_B1D, z_BKD)


def copy_weights(network: Network, naive: NaiveViTRM) -> None:
    """Give `naive` the weights of ours, which are named otherwise but are the same tensors."""
    renamed = {_name(name): value for name, value in network.state_dict().items()}
    naive.load_state_dict(renamed)


def _name(ours: str) -> str:
    for old, new in (
        ("embed.project", "embed"),
        ("f.0.layers.", "f."),
        ("attention.qkv.", "attention.in_proj_"),
        ("attention.out.", "attention.out_proj."),
        ("ffn.up.", "ffn.0."),
        ("ffn.down.", "ffn.2."),
    ):
        ours = ours.replace(old, new)
    return ours
