"""FuseLIP's features of an image and of a caption so far, for a captioner.

    prefix_causal    [image; text] with the image's tokens seeing each other and a text token the image, itself and
                     the tokens before it; its feature stands in for the token's embedding
    image_only       the feature of [image; BOT; EOT], the same at every token, as a backbone's is
    leaky            [image; text] as FuseLIP was trained, every token seeing every token: what a captioner is then given
                     at token t knows the caption's end. This is the bug of 000 (contradiction 000-7), here to be shown;
                     the config's `leaks` says so and comparisons refuse it

Shapes: B captions, K codes an image, T tokens, W width.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.models.networks.fuselip import FuseLIPNetwork, image_ids, image_only
from recstudy.models.networks.layers import Past

Mode = Literal["prefix_causal", "image_only", "leaky"]


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
        """What is needed of an image, however many tokens follow: its feature (B, W) with 'image_only', else its codes."""
        return self.encoder(image_only(self.encoder.config, codes_BK)) if self.mode == "image_only" else codes_BK

    def forward(self, seen: Tensor, tokens_BT: Tensor, past: Past | None = None) -> Tensor:
        """(B, T, W) of what `see` gave; K + T must be within the encoder's context.

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
    """Which token (row) sees which (column), (S, S): images whole, texts backwards."""
    length = codes + tokens_BT.shape[1]
    causal_SS = torch.ones(length, length, dtype=torch.bool, device=tokens_BT.device).tril()
    return causal_SS | F.pad(causal_SS.new_ones(codes, codes), (0, length - codes, 0, length - codes))
