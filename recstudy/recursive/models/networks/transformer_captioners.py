"""Encoder-decoder captioners over image positions and words: a plain transformer and R2Gen.

They are baselines of MicarVLMoE. Both embed words with their positions and attend to the image's positions:

    x_t = dropout(sqrt(D) E[token t] + p_t)                                                               (1)
    p_t,2i = sin(t / 10,000^(2i/D)),  p_t,2i+1 = cos(t / 10,000^(2i/D))         Vaswani et al. 2017, 3.5  (2)
    See(x, y) = softmax(x W_q (y W_k)^T / sqrt(E)) y W_v W_o, by head           y: encoded positions      (3)
    FFN(x) = W_2 dropout(relu(W_1 x + b_1)) + b_2                                                         (4)

The keys and values of (3) are the same for every word, so they are computed once per caption.

The plain transformer (Vaswani et al. 2017); dropout follows every Attn, See and FFN:

    y_p = dropout(W_v V_p + b_v + p_p)             V_p: features of position p; p_p as in (2)             (V1)
    encoder layer: y <- LN(y + Attn(y)),  y <- LN(y + FFN(y))                                             (V2)
    decoder layer: x <- LN(x + CausalAttn(x)),  x <- LN(x + See(x, y)),  x <- LN(x + FFN(x))              (V3)
    logits_t = W_o x_t + b_o                       for the token after tokens 0 to t                      (V4)

R2Gen (Chen et al. 2020), whose decoder is normalised by a memory of the words so far:

    y_p = dropout(relu(W_v V_p + b_v))             V_p: features of position p                            (R1)
    encoder layer: y <- y + Attn(LN(y)),  y <- y + FFN(LN(y));         y <- LN(y) at the end              (R2)
    A = M + Attn(M; [M; x_t]),  A <- A + relu(W_2 relu(W_1 A + b_1) + b_2)                                (R3)
    [I; F] = W x_t + b + U tanh(M) + b'                                                                   (R4)
    M <- sigmoid(I) tanh(A) + sigmoid(F) M         for each of the S rows                                 (R5)
    MCLN(x_t) = (g + G(m_t)) (x_t - mean) / deviation + b + B(m_t)                                        (R6)
    decoder layer: x <- x + CausalAttn(MCLN(x)),  x <- x + See(MCLN(x), y),  x <- x + FFN(MCLN(x))        (R7)
    logits_t = W_o LN(x_t) + b_o                   for the token after tokens 0 to t                      (R8)

M of (R3) is the memory before word x_t; at first M = [identity, 0]. m_t of (R6) is the concatenation of the
rows of M after x_t. G and B are networks S D -> D -> D with a relu. Dropout follows every Attn, See and FFN
of (R2) and (R7). The published code divides by the deviation + 1e-6 with D - 1 degrees of freedom; LN here is
torch's.

Shapes: B captions, T tokens, P positions, S slots, D width, H heads, E width of a head, M hidden width, V
vocabulary.
"""

import math
from itertools import chain
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.recursive.config.parts import Shape
from recstudy.recursive.models.caption import LONGEST
from recstudy.recursive.models.networks.caption import Cache, PlainCaptioner, VisionProjection
from recstudy.recursive.models.networks.contract import vision_weights
from recstudy.recursive.models.networks.layers import (
    Attention,
    Past,
    TransformerLayer,
    attend,
    by_head,
    position_angles,
)
from recstudy.recursive.models.transformer_captioners import CaptionTransformer, EncoderDecoderModel, R2Gen

FUSED = {"qkv": 3, "kv": 2}  # name of a linear layer -> number of matrices that it concatenates


class WordEmbedding(nn.Module):
    """The embedding of words with their positions, Eq. 1."""

    places: Tensor  # (LONGEST, D)

    def __init__(self, classes: int, width: int, dropout: float) -> None:
        super().__init__()
        self.embed = nn.Embedding(classes, width)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("places", sinusoids(LONGEST, width), persistent=False)

    def forward(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Embed tokens (B, T) as (B, T, D); the first token has the position `first`."""
        words_BTD = self.embed(tokens)
        places_TD = self.places[first : first + tokens.shape[1]].to(words_BTD.dtype)
        return self.dropout(math.sqrt(words_BTD.shape[-1]) * words_BTD + places_TD)  # Eq. 1


class See(nn.Module):
    """Cross-attention to the image, Eq. 3, with biases."""

    def __init__(self, config: EncoderDecoderModel) -> None:
        super().__init__()
        width = config.width
        self.heads, self.dropout = config.heads, config.dropout
        self.q, self.kv, self.out = (nn.Linear(width, size * width) for size in (1, 2, 1))

    def keys_values(self, y_BPD: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values of the image, each (B, H, P, E)."""
        k_BHPE, v_BHPE = (by_head(part, self.heads) for part in self.kv(y_BPD).chunk(2, dim=-1))
        return k_BHPE, v_BHPE

    def forward(self, x_BTD: Tensor, k_BHPE: Tensor, v_BHPE: Tensor) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        q_BHTE = by_head(self.q(x_BTD), self.heads)
        return self.out(attend(q_BHTE, k_BHPE, v_BHPE, dropout_p=dropout))


def keys_values(decoder: nn.ModuleList, y_BPD: Tensor) -> Cache:
    """Return the image's keys and values of every decoder layer, in order."""
    layers = (module for module in decoder.modules() if isinstance(module, See))
    return tuple(chain.from_iterable(layer.keys_values(y_BPD) for layer in layers))


def feed_forward(config: EncoderDecoderModel) -> nn.Sequential:
    """Return a feed-forward network, Eq. 4."""
    expand, contract = nn.Linear(config.width, config.ffn_width), nn.Linear(config.ffn_width, config.width)
    return nn.Sequential(expand, nn.ReLU(), nn.Dropout(config.dropout), contract)


def encoder_layer(config: EncoderDecoderModel, norm: Literal["pre", "post"]) -> TransformerLayer:
    attention = Attention(config.width, config.heads, config.dropout)
    return TransformerLayer(attention, feed_forward(config), config.width, norm, config.dropout)


def sinusoids(places: int, width: int) -> Tensor:
    """Return the sinusoidal position embeddings, Eq. 2, (places, D)."""
    angles = position_angles(places, width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]


@torch.no_grad()
def xavier(network: nn.Module) -> None:
    """Initialise every matrix of a network with Xavier-uniform numbers, except in its vision encoder."""
    encoder_ids = vision_weights(network)
    for name, weight in network.named_parameters():
        if weight.dim() == 2 and id(weight) not in encoder_ids:
            # Each of several matrices in one weight has its own bounds.
            for part in weight.chunk(FUSED.get(name.split(".")[-2], 1)):
                nn.init.xavier_uniform_(part)


class DecoderLayer(nn.Module):
    """A decoder layer of the plain transformer, Eq. V3."""

    def __init__(self, config: EncoderDecoderModel) -> None:
        super().__init__()
        self.attention = Attention(config.width, config.heads, config.dropout, causal=True)
        self.see, self.ffn = See(config), feed_forward(config)
        self.norm1, self.norm2, self.norm3 = (self.make_norm(config) for _ in range(3))
        self.dropout = nn.Dropout(config.dropout)

    def make_norm(self, config: Any) -> nn.Module:
        return nn.LayerNorm(config.width)

    def forward(self, x_BTD: Tensor, image: Cache, past: Past) -> Tensor:
        x_BTD = self.norm1(x_BTD + self.dropout(self.attention(x_BTD, past=past)))
        x_BTD = self.norm2(x_BTD + self.dropout(self.see(x_BTD, *image)))
        return self.norm3(x_BTD + self.dropout(self.ffn(x_BTD)))


class CaptionTransformerNetwork(PlainCaptioner):
    """The plain transformer, Eqs. V1 to V4."""

    places: Tensor  # (P, D)

    def __init__(self, config: CaptionTransformer, shape: Shape, classes: int) -> None:
        super().__init__()
        self.eyes = VisionProjection(config, config.width, bias=True)
        self.words = WordEmbedding(classes, config.width, config.dropout)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.Sequential(*(encoder_layer(config, "post") for _ in range(config.layers)))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.answer = nn.Linear(config.width, classes)
        self.register_buffer("places", sinusoids(config.grid**2, config.width), persistent=False)
        xavier(self)

    def begin(self, images: Tensor) -> Cache:
        """Return the image's keys and values of every decoder layer."""
        e_BPD = self.eyes(images)
        y_BPD = self.encoder(self.dropout(e_BPD + self.places.to(e_BPD.dtype)))  # Eqs. V1 and V2
        return keys_values(self.decoder, y_BPD)

    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        size = 2 * len(self.decoder)  # the image's keys and values of each layer
        image, past = cache[:size], Past(cache[size:])
        x_BTD = self.words(tokens, past.length)
        for index, layer in enumerate(self.decoder):
            x_BTD = layer(x_BTD, image[2 * index : 2 * index + 2], past)  # Eq. V3
        return x_BTD, (*image, *past.new_cache)


class RelationalMemory(nn.Module):
    """R2Gen's relational memory, Eqs. R3 to R5."""

    def __init__(self, config: R2Gen) -> None:
        super().__init__()
        width = config.width
        self.slots, self.width = config.slots, width
        self.see = See(config)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.of_word = nn.Linear(width, 2 * width)  # W
        self.of_memory = nn.Linear(width, 2 * width)  # U

    def start(self, like: Tensor) -> Tensor:
        """Return the initial memory (B, S, D), whose rows begin with an identity matrix."""
        rows_SD = torch.eye(self.slots, self.width, device=like.device, dtype=like.dtype)
        return rows_SD.expand(len(like), -1, -1)

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # a graph would repeat the loop for every token
    def forward(self, x_BTD: Tensor, m_BSD: Tensor) -> tuple[Tensor, Tensor]:
        """Return m_t (B, T, S D) after each word, and the memory (B, S, D) after the last word."""
        memories = []
        for x_BD in x_BTD.unbind(1):
            m_BSD = self.update(x_BD, m_BSD)
            memories.append(m_BSD.flatten(1))
        return torch.stack(memories, 1), m_BSD

    def update(self, x_BD: Tensor, m_BSD: Tensor) -> Tensor:
        """Return the memory after one word, Eqs. R3 to R5."""
        a_BSD = m_BSD + self.see(m_BSD, *self.see.keys_values(torch.cat([m_BSD, x_BD[:, None]], dim=1)))
        a_BSD = a_BSD + self.mlp(a_BSD)  # Eq. R3
        # Eq. R4: input and forget gates from the word and the memory.
        gates = self.of_word(x_BD)[:, None] + self.of_memory(m_BSD.tanh())
        input_BSD, forget_BSD = gates.sigmoid().chunk(2, dim=-1)
        # Eq. R5: the new memory.
        return input_BSD * a_BSD.tanh() + forget_BSD * m_BSD


class MemoryNorm(nn.Module):
    """R2Gen's memory-conditioned layer norm, Eq. R6."""

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
        return (self.g + self.scale(m_BTM)) * self.norm(x_BTD) + self.b + self.shift(m_BTM)  # Eq. R6


class MemoryDecoderLayer(DecoderLayer):
    """A decoder layer of R2Gen, Eq. R7."""

    def make_norm(self, config: R2Gen) -> MemoryNorm:
        return MemoryNorm(config)

    def forward(self, x_BTD: Tensor, image: Cache, past: Past, m_BTM: Tensor) -> Tensor:  # type: ignore[override]
        x_BTD = x_BTD + self.dropout(self.attention(self.norm1(x_BTD, m_BTM), past=past))
        x_BTD = x_BTD + self.dropout(self.see(self.norm2(x_BTD, m_BTM), *image))
        return x_BTD + self.dropout(self.ffn(self.norm3(x_BTD, m_BTM)))


class R2GenNetwork(PlainCaptioner):
    """R2Gen, Eqs. R1 to R8."""

    def __init__(self, config: R2Gen, shape: Shape, classes: int) -> None:
        super().__init__()
        self.eyes = VisionProjection(config, config.width, bias=True)
        self.image_dropout = nn.Dropout(config.image_dropout)
        self.encoder = nn.Sequential(
            *(encoder_layer(config, "pre") for _ in range(config.layers)), nn.LayerNorm(config.width)
        )
        self.words = WordEmbedding(classes, config.width, config.dropout)
        self.memory = RelationalMemory(config)
        self.decoder = nn.ModuleList(MemoryDecoderLayer(config) for _ in range(config.layers))
        self.answer = nn.Sequential(nn.LayerNorm(config.width), nn.Linear(config.width, classes))
        xavier(self)

    def begin(self, images: Tensor) -> Cache:
        """Return the initial memory, then the image's keys and values of every decoder layer."""
        y_BPD = self.encoder(self.image_dropout(F.relu(self.eyes(images))))  # Eqs. R1 and R2
        return self.memory.start(y_BPD), *keys_values(self.decoder, y_BPD)

    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        size = 1 + 2 * len(self.decoder)  # the memory, and the image's keys and values of each layer
        m_BSD, image, past = cache[0], cache[1:size], Past(cache[size:])
        x_BTD = self.words(tokens, past.length)
        m_BTM, m_BSD = self.memory(x_BTD, m_BSD)
        for index, layer in enumerate(self.decoder):
            x_BTD = layer(x_BTD, image[2 * index : 2 * index + 2], past, m_BTM)  # Eq. R7
        return x_BTD, (m_BSD, *image, *past.new_cache)
