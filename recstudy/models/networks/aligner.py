"""FuseLIP on pairs of an image and its caption: features of both, and what it learns from them.

    f = FuseLIP([image codes; BOT EOT]),    g = FuseLIP([BOT text EOT])                                (1)
    SigLIP = -1/B sum_ij log sigmoid(l_ij (t f_i . g_j + b))    l_ij = 1 where i = j, else -1          (2)
    MMM    = CE of the hidden tokens over the joint vocabulary, left + right                           (3)
    L      = SigLIP + w MMM                                     one pass over the hidden gives both    (4)

f and g are the features of the two sides of a pair, such as an image and its caption.

The number of hidden tokens differs from step to step. For a step that is compiled once and waits for no device, (3) is
computed of a fixed number X of tokens, the hidden ones and some that are ignored.

Shapes: B pairs, K codes an image, T tokens of a text, S of a sequence, N = B S, W width, X tokens of (3), V vocabulary.
"""

import math
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from recstudy.models.fuselip import Aligner, FuseLIP
from recstudy.models.networks.contract import Carry, Network, Output, on_paper
from recstudy.models.networks.fuselip import FuseLIPNetwork, image_only
from recstudy.models.networks.layers import own_precision

SHOWN = -100  # the target of a token that is not hidden
MARGIN = 8  # standard deviations above the mean for which there is room among the hidden tokens


class Losses(NamedTuple):
    """In nats: (2), (3) and (4)."""

    contrastive: Tensor
    masked: Tensor
    total: Tensor


class Hidden(NamedTuple):
    """Sequences with some of their tokens replaced by [MASK]."""

    shown: Tensor  # (B, S) ids
    targets: Tensor  # (B, S) what was there; `SHOWN` at the others


class AlignerNetwork(Network):
    """Equations (1)-(4); `images` are codes (B, K). The scale t of SigLIP stays between 1 and 100, as in the published code."""

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
        """Return ids of the image side and of the text side of each pair."""
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
    """Hide tokens on both sides, which torch's generator of the CPU decides."""
    generator = torch.Generator(left.device).manual_seed(int(torch.randint(2**62, (), device="cpu")))
    return hide(config, left, generator), hide(config, right, generator)


def fuselip_loss(network: FuseLIPNetwork, left: Hidden, right: Hidden) -> Losses:
    """Equation (4) of B pairs of sequences."""
    left_BW, left_masked = _side(network, left)
    right_BW, right_masked = _side(network, right)
    contrastive = siglip_loss(left_BW, right_BW, network.log_scale.exp(), network.bias)
    masked = left_masked + right_masked
    return Losses(contrastive, masked, contrastive + network.config.mask_weight * masked)


def siglip_loss(left_BW: Tensor, right_BW: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Equation (2) of features of length 1, in float32 under autocast too: a bfloat16 near -b has steps of 1/16."""
    with own_precision(left_BW):
        logits_BB = scale * left_BW.float() @ right_BW.float().T + bias
    labels_BB = 2 * torch.eye(len(left_BW), device=logits_BB.device) - 1
    return -F.logsigmoid(labels_BB * logits_BB).sum() / len(left_BW)


def hide(config: FuseLIP, ids_BS: Tensor, generator: torch.Generator) -> Hidden:
    """Replace tokens at the rate `mask_rate`; `generator`, on their device, draws which.

    Padding, EOT and [MASK] are never hidden and neither, as in the published code, is an image's code 0.
    """
    drawn_BS = torch.rand(ids_BS.shape, generator=generator, device=ids_BS.device) < config.mask_rate
    spared = torch.tensor([config.pad, config.eos, config.mask, config.first_code], device=ids_BS.device)
    hidden_BS = drawn_BS & ~torch.isin(ids_BS, spared)
    return Hidden(torch.where(hidden_BS, config.mask, ids_BS), torch.where(hidden_BS, ids_BS, SHOWN))


def room(rate: float, tokens: int) -> int:
    """Return X, of how many of so many tokens the loss is computed, however many are hidden: more than ever will be.

    Were there more, the last ones would be left out of the loss; that happens in less than one of 10^9 steps.
    """
    mean = rate * tokens
    return min(tokens, math.ceil(mean + MARGIN * math.sqrt(mean * (1 - rate)) + MARGIN))


def masked_loss(logits_XV: Tensor, targets_X: Tensor) -> Tensor:
    """Return one side of equation (3), of the targets that are not `SHOWN`; 0 where nothing is hidden."""
    hidden = (targets_X != SHOWN).sum().clamp(min=1)
    return F.cross_entropy(logits_XV.float(), targets_X, reduction="sum", ignore_index=SHOWN) / hidden


def _side(network: FuseLIPNetwork, side: Hidden) -> tuple[Tensor, Tensor]:
    """Return features (B, W), and one side of equation (3), from the states before the last norm."""
    if network.mask_head is None:
        return network(side.shown), side.shown.new_zeros((), dtype=torch.float32)
    h_BSW = network.states(side.shown, network.seen(side.shown))
    targets_N = side.targets.flatten()
    first_X = (targets_N == SHOWN).to(torch.int8).argsort(stable=True)[: room(network.config.mask_rate, len(targets_N))]
    logits_XV = network.mask_head(h_BSW.flatten(0, 1)[first_X], network.embed.weight)
    return network.pool(h_BSW, side.shown), masked_loss(logits_XV, targets_N[first_X])
