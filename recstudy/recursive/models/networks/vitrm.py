"""Vision tiny recursion model (ViTRM, section 3): one small transformer block, applied repeatedly.

    x = patches(image) W + b + p                                                   (1)
    z <- last K tokens of f([x; y; z])      `latent_steps` times                   (2)
    y <- first token of f([y; z])           once; (2)-(3) are one cycle            (3)
    logits = W_c y + b_c,   halt = w_h y + b_h                                     (4)

f is `layers` transformer layers without a final norm. The paper's cross-attention from z to x is the joint
self-attention of (2). x is computed at every supervision step, so that the patch embedding is trained. y and
z have no positions beyond their initial values. A supervision step runs T cycles: `cycles` in training,
`test_cycles` in evaluation.

Initial weights (the authors' code): Xavier-normal heads, positions, y and z; zero head biases; attention as
in `torch.nn.MultiheadAttention`; torch's defaults otherwise.

Shapes: B images, N patches, K latent tokens, D width.
"""

import torch
from torch import Tensor, nn

from recstudy.recursive.config.parts import Shape
from recstudy.recursive.models.networks.contract import Carry, Network, Output
from recstudy.recursive.models.networks.layers import (
    Attention,
    Block,
    GeluMLP,
    PatchEmbedding,
    SwiGLU,
    TransformerLayer,
    learned,
)
from recstudy.recursive.models.networks.recursion import schedule, updating
from recstudy.recursive.models.vitrm import ViTRM


class ViTRMNetwork(Network):
    """ViTRM, Eqs. 1 to 4."""

    z_start: Tensor

    def __init__(self, config: ViTRM, shape: Shape, classes: int) -> None:
        super().__init__()
        channels, height, width = shape
        self.config = config
        self.embed = PatchEmbedding(channels, config.patch, config.width)
        self.positions = learned(1, (height // config.patch) * (width // config.patch), config.width)
        self.y_start = learned(1, 1, config.width)
        z_start = learned(1, config.latent_tokens, config.width)
        if config.latent_init == "learned":
            self.z_start = z_start
        else:
            self.register_buffer("z_start", z_start.data)
        blocks = (Block([make_layer(config) for _ in range(config.layers)]) for _ in range(config.blocks))
        self.f = nn.ModuleList(blocks)  # the first block updates z, the last one updates y
        self.turns, self.test_turns = (
            tuple(schedule([config.latent_steps, cycles])) for cycles in (config.cycles, config.test_cycles)
        )
        self.classify = make_head(config.width, classes)
        self.halt = make_head(config.width, 1)

    def start(self, images: Tensor, groups: Tensor | None = None) -> Carry:
        """Return y (B, 1, D) and z (B, K, D) before the first supervision step."""
        return self.y_start.expand(len(images), -1, -1), self.z_start.expand(len(images), -1, -1)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        y_B1D, z_BKD = carry
        # Eq. 1: x is computed at every supervision step, so that the embedding is trained.
        x_BND = self.embed(images) + self.positions
        for level, last_cycle, last_step in self.turns if self.training else self.test_turns:
            with updating(self.config.gradient, last_cycle=last_cycle, last_step=last_step):
                if level == 0:
                    tokens = torch.cat([x_BND, y_B1D, z_BKD], dim=1)
                    # Eq. 2: z reads image, answer and itself. The last layer computes only its K tokens.
                    z_BKD = self.f[0](tokens, read=slice(-z_BKD.shape[1], None))
                else:
                    image = [x_BND] if self.config.image_in_answer else []
                    # Eq. 3: y reads itself and z, and the image with `image_in_answer`.
                    y_B1D = self.f[-1](torch.cat([y_B1D, z_BKD, *image], dim=1), read=slice(0, 1))
        answer_BD = y_B1D[:, 0]
        return Output(self.classify(answer_BD), self.halt(answer_BD)[:, 0]), (y_B1D, z_BKD)  # Eq. 4


def make_layer(config: ViTRM) -> TransformerLayer:
    attention = Attention(config.width, config.heads, config.dropout)
    nn.init.xavier_uniform_(attention.qkv.weight)  # as torch.nn.MultiheadAttention
    for linear in (attention.qkv, attention.out):
        nn.init.zeros_(linear.bias)
    ffn = (SwiGLU if config.ffn == "swiglu" else GeluMLP)(config.width, config.hidden_width)
    return TransformerLayer(attention, ffn, config.width, config.norm, config.dropout)


def make_head(width: int, outputs: int) -> nn.Linear:
    head = nn.Linear(width, outputs)
    nn.init.xavier_normal_(head.weight)
    nn.init.zeros_(head.bias)
    return head
