"""FuseLIP on pairs of an image and its caption: features of both, and the loss that brings them together.

    f = FuseLIP([image codes; BOT EOT]),    g = FuseLIP([BOT text EOT])        (1)
    L = SigLIP(f, g) + w MMM(f's and g's hidden tokens)                        (2)  networks/fuselip_loss.py

Shapes: B pairs, K codes an image, T tokens, W width.
"""

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from recstudy.models.aligner import Aligner
from recstudy.models.fuselip import FuseLIP
from recstudy.models.networks.contract import Carry, Network, Output, on_paper
from recstudy.models.networks.fuselip import FuseLIPNetwork, image_only
from recstudy.models.networks.fuselip_loss import Hidden, fuselip_loss, hide


class AlignerNetwork(Network):
    """Equations (1)-(2); `images` are codes (B, K). The scale t of SigLIP stays between 1 and 100, as in the published code."""

    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"encoder.log_scale": (0.0, math.log(100))}

    def __init__(self, config: Aligner) -> None:
        super().__init__()
        self.encoder = FuseLIPNetwork(config.encoder)

    def start(self, images: Tensor, told: Tensor | None = None) -> Carry:
        assert told is not None, "an aligner is told the caption"
        return (told,)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        (tokens,) = carry
        left, right = self.sequences(images, tokens)
        if not self.training or on_paper(images):  # on paper nothing can be drawn
            return Output(torch.cat([self.encoder(left), self.encoder(right)], dim=1)), carry
        loss = fuselip_loss(self.encoder, *hidden(self.encoder.config, left, right)).total
        return Output(loss.expand(len(images), 1), loss=loss.expand(len(images))), carry

    def sequences(self, images: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Ids of the image side and of the text side of each pair."""
        config = self.encoder.config
        ids_BT = tokens[:, : config.context].clone()
        cut_B = ~(ids_BT == config.eos).any(1)
        ids_BT[:, -1] = torch.where(cut_B, config.eos, ids_BT[:, -1])  # a feature is read at EOT; padding stays, unseen
        return image_only(config, images.long()), ids_BT

    def features(self, images: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Equation (1), (B, W) each, of length 1."""
        left, right = self.sequences(images, tokens)
        return self.encoder(left), self.encoder(right)


@torch.compiler.disable  # type: ignore[untyped-decorator]  # a graph would hold its seed, and be compiled anew every step
def hidden(config: FuseLIP, left: Tensor, right: Tensor) -> tuple[Hidden, Hidden]:
    """Both sides with tokens hidden, which torch's generator of the CPU decides."""
    generator = torch.Generator(left.device).manual_seed(int(torch.randint(2**62, (), device="cpu")))
    return hide(config, left, generator), hide(config, right, generator)
