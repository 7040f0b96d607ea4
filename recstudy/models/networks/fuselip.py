"""FuseLIP: image and text as one sequence of discrete tokens, read by one encoder.

    [image ids; BOT text EOT pad]    both    [image ids; BOT EOT]    an image    [BOT text EOT pad]    a text    (1)
    s = E[ids] + P                   learned positions, from the first token on                                  (2)
    h = layers(s)                    every token sees every token but the padding                                (3)
    f = LN(h)_EOT / |LN(h)_EOT|      the feature of a sequence                                                   (4)
    p = softmax(E LN(gelu(W h + b)) + b')    of a hidden token; E is that of (2)                                 (5)

For a captioner, features of an image and of a caption so far, by mode:

    prefix_causal    [image; text] with the image's tokens seeing each other and a text token the image, itself and
                     the tokens before it; its feature stands in for the token's embedding
    image_only       the feature of [image; BOT; EOT], the same at every token, as a backbone's is
    leaky            [image; text] as FuseLIP was trained, every token seeing every token: what a captioner is then given
                     at token t knows the caption's end. This is the bug of 000 (contradiction 000-7), here to be shown;
                     the config's `leaks` says so and comparisons refuse it

An image comes first where there is one, so that a text alone begins at position 0 and a text after K codes at K.

Shapes: B sequences, K codes an image, T tokens of a text, S of a sequence, W width, V vocabulary.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.models.fuselip import FuseLIP
from recstudy.models.networks.layers import ClipLayer, Past, init_as_clip

Mode = Literal["prefix_causal", "image_only", "leaky"]
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
        """Return features (B, W) of length 1."""
        return self.pool(self.states(ids_BS, self.seen(ids_BS)), ids_BS)

    def states(self, ids_BS: Tensor, mask: Tensor | None = None, past: Past | None = None) -> Tensor:
        """Equations (2)-(3), (B, S, W). With a past, the ids are those after it."""
        start = 0 if past is None else past.length
        s_BSW = self.embed(ids_BS) + self.places[start : start + ids_BS.shape[1]]
        for layer in self.layers:
            s_BSW = layer(s_BSW, mask, past)
        return s_BSW

    def seen(self, ids_BS: Tensor) -> Tensor:
        """Return which tokens the others see, (B, 1, 1, S): all but the padding."""
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
    """Return codes as ids of the joint vocabulary."""
    return codes_BK.long() + config.first_code


class Injection(nn.Module):
    """Features of each token from a FuseLIP encoder, of about unit size a dimension, but of length 1 with 'image_only'."""

    def __init__(self, encoder: FuseLIPNetwork, mode: Mode = "prefix_causal") -> None:
        super().__init__()
        self.encoder, self.mode = encoder, mode

    @property
    def kept(self) -> int:
        """Keys and values that a past holds of the tokens before: none where they change with every token that follows."""
        return 2 * len(self.encoder.layers) if self.mode == "prefix_causal" else 0

    def see(self, codes_BK: Tensor) -> Tensor:
        """Return what an image gives, however many tokens follow: its feature (B, W) with 'image_only', else its codes."""
        return self.encoder(image_only(self.encoder.config, codes_BK)) if self.mode == "image_only" else codes_BK

    def forward(self, seen: Tensor, tokens_BT: Tensor, past: Past | None = None) -> Tensor:
        """Return (B, T, W) of what `see` gave; K + T must be within the encoder's context.

        With 'prefix_causal' a `past` keeps keys and values: with those of the tokens before, only the last token is
        computed and the answer is (B, 1, W). The other modes have no use for it.
        """
        if self.mode == "image_only":
            return seen[:, None].expand(-1, tokens_BT.shape[1], -1)
        if past is not None and past.kept:
            return self.encoder.norm(self.encoder.states(tokens_BT[:, -1:], past=past))
        ids_BS = torch.cat([image_ids(self.encoder.config, seen), tokens_BT.long()], dim=1)
        mask = self.encoder.seen(ids_BS) if self.mode == "leaky" else prefix_causal(seen.shape[1], tokens_BT)
        return self.encoder.norm(self.encoder.states(ids_BS, mask, past)[:, seen.shape[1] :])


def prefix_causal(codes: int, tokens_BT: Tensor) -> Tensor:
    """Return which token (row) sees which (column), (S, S): images whole, texts backwards."""
    length = codes + tokens_BT.shape[1]
    causal_SS = torch.ones(length, length, dtype=torch.bool, device=tokens_BT.device).tril()
    return causal_SS | F.pad(causal_SS.new_ones(codes, codes), (0, length - codes, 0, length - codes))
