"""What the encoder-decoder captioners of 003 share: words with their places, and attention to the places of the image.

    x_t = dropout(sqrt(D) E[token t] + p_t)                                                               (1)
    p_t,2i = sin(t / 10,000^(2i/D)),  p_t,2i+1 = cos(t / 10,000^(2i/D))         Vaswani et al. 2017, 3.5  (2)
    See(x, y) = softmax(x W_q (y W_k)^T / sqrt(E)) y W_v W_o, by head           y: encoded places         (3)
    FFN(x) = W_2 dropout(relu(W_1 x + b_1)) + b_2                                                         (4)

The keys and values of (3) are the same for every word: they are computed once a caption.

Shapes: B captions, T tokens, P places, D width, H heads, E width of a head, M hidden width.
"""

import math
from itertools import chain
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.models.backbone import LONGEST
from recstudy.models.caption_transformer import EncoderDecoderModel
from recstudy.models.networks.caption import Cache
from recstudy.models.networks.contract import VisionEncoder
from recstudy.models.networks.layers import Attention, Layer

FUSED = {"qkv": 3, "kv": 2}  # matrices that stand in one


class Words(nn.Module):
    """Equation (1)."""

    places: Tensor  # (LONGEST, D)

    def __init__(self, classes: int, width: int, dropout: float) -> None:
        super().__init__()
        self.embed = nn.Embedding(classes, width)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("places", sinusoids(LONGEST, width), persistent=False)

    def forward(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Tokens (B, T) of a caption from its place `first` on -> (B, T, D)."""
        words_BTD = self.embed(tokens)
        places_TD = self.places[first : first + tokens.shape[1]].to(words_BTD.dtype)
        return self.dropout(math.sqrt(words_BTD.shape[-1]) * words_BTD + places_TD)


class See(nn.Module):
    """Equation (3), with biases."""

    def __init__(self, config: EncoderDecoderModel) -> None:
        super().__init__()
        width = config.width
        self.heads, self.dropout = config.heads, config.dropout
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)

    def keys_values(self, y_BPD: Tensor) -> tuple[Tensor, Tensor]:
        """(B, H, P, E) each."""
        k_BHPE, v_BHPE = (self._split(part) for part in self.kv(y_BPD).chunk(2, dim=-1))
        return k_BHPE, v_BHPE

    def forward(self, x_BTD: Tensor, k_BHPE: Tensor, v_BHPE: Tensor) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        mixed_BHTE = F.scaled_dot_product_attention(self._split(self.q(x_BTD)), k_BHPE, v_BHPE, dropout_p=dropout)
        return self.out(mixed_BHTE.transpose(1, 2).flatten(2))

    def _split(self, x_BSD: Tensor) -> Tensor:
        return x_BSD.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def keys_values(decoder: nn.ModuleList, y_BPD: Tensor) -> Cache:
    """Those of the image in every layer, one after the other."""
    seeing = (module for module in decoder.modules() if isinstance(module, See))
    return tuple(chain.from_iterable(see.keys_values(y_BPD) for see in seeing))


def feed_forward(config: EncoderDecoderModel) -> nn.Sequential:
    """Equation (4)."""
    up, down = nn.Linear(config.width, config.ffn_width), nn.Linear(config.ffn_width, config.width)
    return nn.Sequential(up, nn.ReLU(), nn.Dropout(config.dropout), down)


def encoder_layer(config: EncoderDecoderModel, norm: Literal["pre", "post"]) -> Layer:
    attention = Attention(config.width, config.heads, config.dropout)
    return Layer(attention, feed_forward(config), config.width, norm, config.dropout)


def sinusoids(places: int, width: int) -> Tensor:
    """Equation (2), (places, D)."""
    rates = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
    angles = torch.outer(torch.arange(places, dtype=torch.float32), rates)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]


@torch.no_grad()
def xavier(network: nn.Module) -> None:
    """Xavier-uniform numbers in every matrix of a network but those of its vision encoder."""
    encoders = [module for module in network.modules() if isinstance(module, VisionEncoder)]
    seeing = {id(weight) for encoder in encoders for weight in encoder.parameters()}
    for name, weight in network.named_parameters():
        if weight.dim() == 2 and id(weight) not in seeing:
            for part in weight.chunk(FUSED.get(name.split(".")[-2], 1)):
                nn.init.xavier_uniform_(part)
