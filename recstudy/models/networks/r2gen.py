"""R2Gen (Chen et al. 2020): a transformer whose decoder is normalised by a memory of the words so far.

    y_p = dropout(relu(W_v V_p + b_v))                                 V_p: features of place p                       (1)
    encoder layer: y <- y + Attn(LN(y)),  y <- y + FFN(LN(y));         y <- LN(y) at the end                          (2)
    A = M + Attn(M; [M; x_t]),  A <- A + relu(W_2 relu(W_1 A + b_1) + b_2)      M: the memory before word x_t         (3)
    [I; F] = W x_t + b + U tanh(M) + b'                                                                               (4)
    M <- sigmoid(I) tanh(A) + sigmoid(F) M                             each of the S rows; M = [identity, 0] at first (5)
    MCLN(x_t) = (g + G(m_t)) (x_t - mean) / deviation + b + B(m_t)     m_t: the rows of M after x_t, one by one       (6)
    decoder layer: x <- x + CausalAttn(MCLN(x)),  x <- x + See(MCLN(x), y),  x <- x + FFN(MCLN(x))                    (7)
    logits_t = W_o LN(x_t) + b_o                                       what comes after tokens 0 to t                 (8)

G and B are networks S D -> D -> D with a relu. x starts as words with their places; dropout follows every Attn, See and
FFN of (2) and (7). Words, See and FFN: `encoder_decoder.py`. The published code divides by the deviation + 1e-6, with
D - 1 under it; LN here is torch's.

Shapes: B captions, T tokens, P places, S slots, D width, H heads, E width of a head, V vocabulary.
"""

from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.models.networks.caption import Cache, Eyes, PlainCaptioner
from recstudy.models.networks.contract import Carry, Output
from recstudy.models.networks.encoder_decoder import See, Words, encoder_layer, feed_forward, keys_values, xavier
from recstudy.models.networks.layers import Attention, Past
from recstudy.models.r2gen import R2Gen


class RelationalMemory(nn.Module):
    """Equations (3)-(5)."""

    def __init__(self, config: R2Gen) -> None:
        super().__init__()
        width = config.width
        self.slots, self.width = config.slots, width
        self.see = See(config)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.of_word = nn.Linear(width, 2 * width)  # W
        self.of_memory = nn.Linear(width, 2 * width)  # U

    def start(self, like: Tensor) -> Tensor:
        """(B, S, D): row i begins with 1 at place i."""
        rows_SD = torch.eye(self.slots, self.width, device=like.device, dtype=like.dtype)
        return rows_SD.expand(len(like), -1, -1)

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # no graph of every token
    def forward(self, x_BTD: Tensor, m_BSD: Tensor) -> tuple[Tensor, Tensor]:
        """m_t (B, T, S D) after each word, and the memory after the last."""
        after = []
        for x_BD in x_BTD.unbind(1):
            m_BSD = self.update(x_BD, m_BSD)
            after.append(m_BSD.flatten(1))
        return torch.stack(after, 1), m_BSD

    def update(self, x_BD: Tensor, m_BSD: Tensor) -> Tensor:
        """The memory after one word."""
        a_BSD = m_BSD + self.see(m_BSD, *self.see.keys_values(torch.cat([m_BSD, x_BD[:, None]], dim=1)))
        a_BSD = a_BSD + self.mlp(a_BSD)  # (3)
        take_BSD, keep_BSD = (self.of_word(x_BD)[:, None] + self.of_memory(m_BSD.tanh())).sigmoid().chunk(2, dim=-1)  # (4)
        return take_BSD * a_BSD.tanh() + keep_BSD * m_BSD  # (5)


class MemoryNorm(nn.Module):
    """Equation (6)."""

    def __init__(self, config: R2Gen) -> None:
        super().__init__()
        width, memory = config.width, config.slots * config.width
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.g, self.b = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.scale, self.shift = (
            nn.Sequential(nn.Linear(memory, width), nn.ReLU(), nn.Linear(width, width)) for _ in range(2)
        )  # G, B
        for layer in chain(self.scale, self.shift):
            if isinstance(layer, nn.Linear):
                nn.init.constant_(layer.bias, 0.1)

    def forward(self, x_BTD: Tensor, m_BTM: Tensor) -> Tensor:
        return (self.g + self.scale(m_BTM)) * self.norm(x_BTD) + self.b + self.shift(m_BTM)


class DecoderLayer(nn.Module):
    """Equation (7)."""

    def __init__(self, config: R2Gen) -> None:
        super().__init__()
        self.attention = Attention(config.width, config.heads, config.dropout, causal=True)
        self.see, self.ffn = See(config), feed_forward(config)
        self.norm1, self.norm2, self.norm3 = (MemoryNorm(config) for _ in range(3))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTD: Tensor, m_BTM: Tensor, seen: Cache, past: Past) -> Tensor:
        x_BTD = x_BTD + self.dropout(self.attention(self.norm1(x_BTD, m_BTM), past=past))
        x_BTD = x_BTD + self.dropout(self.see(self.norm2(x_BTD, m_BTM), *seen))
        return x_BTD + self.dropout(self.ffn(self.norm3(x_BTD, m_BTM)))


class R2GenNetwork(PlainCaptioner):
    """Equations (1)-(8)."""

    def __init__(self, config: R2Gen, classes: int) -> None:
        super().__init__()
        self.eyes = Eyes(config, config.width, bias=True)
        self.image_dropout = nn.Dropout(config.image_dropout)
        self.encoder = nn.Sequential(*(encoder_layer(config, "pre") for _ in range(config.layers)), nn.LayerNorm(config.width))
        self.words = Words(classes, config.width, config.dropout)
        self.memory = RelationalMemory(config)
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.answer = nn.Sequential(nn.LayerNorm(config.width), nn.Linear(config.width, classes))
        xavier(self)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        x_BTD, _ = self.read(carry[0], self.begin(images))
        return Output(self.answer(x_BTD)), carry

    def begin(self, images: Tensor) -> Cache:
        """The first memory, then keys and values of the image in every decoder layer."""
        y_BPD = self.encoder(self.image_dropout(F.relu(self.eyes(images))))  # (1)-(2)
        return self.memory.start(y_BPD), *keys_values(self.decoder, y_BPD)

    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        m_BSD, *rest = cache
        seen, past = rest[: 2 * len(self.decoder)], Past(tuple(rest[2 * len(self.decoder) :]))
        x_BTD = self.words(tokens, past.length)
        m_BTM, m_BSD = self.memory(x_BTD, m_BSD)
        for at, layer in enumerate(self.decoder):
            x_BTD = layer(x_BTD, m_BTM, (seen[2 * at], seen[2 * at + 1]), past)  # (7)
        return x_BTD, (m_BSD, *seen, *past.now)
