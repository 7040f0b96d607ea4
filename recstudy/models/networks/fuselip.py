"""FuseLIP: image and text as one sequence of discrete tokens, read by one encoder.

    [image ids; BOT text EOT pad]    both    [image ids; BOT EOT]    an image    [BOT text EOT pad]    a text    (1)
    s = E[ids] + P                   learned positions, from the first token on                                  (2)
    h = layers(s)                    every token sees every token but the padding                                (3)
    f = LN(h)_EOT / |LN(h)_EOT|      the feature of a sequence                                                   (4)
    p = softmax(E LN(gelu(W h + b)) + b')    of a hidden token; E is that of (2)                                 (5)

An image comes first where there is one, so that a text alone begins at position 0 and a text after K codes at K.

Shapes: B sequences, K codes an image, T tokens of a text, S of a sequence, W width, V vocabulary.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.models.fuselip import FuseLIP
from recstudy.models.networks.clip import ClipLayer, init_as_clip
from recstudy.models.networks.layers import Past

SCALE, BIAS = 10.0, -10.0  # t and b of the contrastive loss, at the start


class MaskHead(nn.Module):
    """Equation (5)."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.dense, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, h_XW: Tensor, embedding_VW: Tensor) -> Tensor:
        return F.linear(self.norm(F.gelu(self.dense(h_XW))), embedding_VW, self.bias)


class FuseLIPNetwork(nn.Module):
    """Equations (2)-(5)."""

    def __init__(self, config: FuseLIP) -> None:
        super().__init__()
        width, heads, layers = config.dimensions
        self.config = config
        self.embed = nn.Embedding(config.vocabulary, width)
        self.places = nn.Parameter(0.01 * torch.randn(config.context, width))
        self.layers = nn.ModuleList([ClipLayer(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.mask_head = MaskHead(width, config.vocabulary) if config.mask_rate else None
        self.log_scale = nn.Parameter(torch.tensor(math.log(SCALE)))
        self.bias = nn.Parameter(torch.tensor(BIAS))
        nn.init.normal_(self.embed.weight, std=0.02)
        init_as_clip(self.layers)

    def forward(self, ids_BS: Tensor) -> Tensor:
        """Features (B, W) of length 1."""
        return self.pool(self.states(ids_BS, self.seen(ids_BS)), ids_BS)

    def states(self, ids_BS: Tensor, mask: Tensor | None = None, past: Past | None = None) -> Tensor:
        """Equations (2)-(3), (B, S, W). With a past, the ids are those after it."""
        start = 0 if past is None else past.length
        s_BSW = self.embed(ids_BS) + self.places[start : start + ids_BS.shape[1]]
        for layer in self.layers:
            s_BSW = layer(s_BSW, mask, past)
        return s_BSW

    def seen(self, ids_BS: Tensor) -> Tensor:
        """Which tokens the others see, (B, 1, 1, S): all but the padding."""
        return (ids_BS != self.config.pad)[:, None, None]

    def pool(self, h_BSW: Tensor, ids_BS: Tensor) -> Tensor:
        """Equation (4)."""
        ends_B = (ids_BS == self.config.eos).int().argmax(1)
        end_BW = h_BSW[torch.arange(len(h_BSW), device=h_BSW.device), ends_B]
        return F.normalize(self.norm(end_BW), dim=-1)


def image_only(config: FuseLIP, codes_BK: Tensor) -> Tensor:
    """Equation (1) of an image."""
    empty_2 = torch.tensor([config.bos, config.eos], device=codes_BK.device)
    return torch.cat([image_ids(config, codes_BK), empty_2.expand(len(codes_BK), -1)], dim=1)


def image_ids(config: FuseLIP, codes_BK: Tensor) -> Tensor:
    """Codes as ids of the joint vocabulary."""
    return codes_BK.long() + config.first_code
