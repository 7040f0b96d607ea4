"""What FuseLIP learns from: pairs that belong together, and tokens that are hidden.

    SigLIP = -1/B sum_ij log sigmoid(l_ij (t f_i . g_j + b))    l_ij = 1 where i = j, else -1      (1)
    MMM    = CE of the hidden tokens over the joint vocabulary, left + right                       (2)
    L      = SigLIP + w MMM                                     one pass over the hidden gives both    (3)

f and g are the features of the two sides of a pair, such as an image and its caption.

Shapes: B pairs, S tokens, W width, X hidden tokens, V vocabulary.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from recstudy.models.fuselip import FuseLIP
from recstudy.models.networks.fuselip import FuseLIPNetwork

SHOWN = -100  # the target of a token that is not hidden


class Losses(NamedTuple):
    """In nats: (1), (2) and (3)."""

    contrastive: Tensor
    masked: Tensor
    total: Tensor


def fuselip_loss(network: FuseLIPNetwork, left_BS: Tensor, right_BS: Tensor, generator: torch.Generator) -> Losses:
    """Equation (3) of B pairs of sequences; `generator`, on their device, draws what is hidden."""
    left_BW, left_masked = _side(network, left_BS, generator)
    right_BW, right_masked = _side(network, right_BS, generator)
    contrastive = siglip_loss(left_BW, right_BW, network.log_scale.exp(), network.bias)
    masked = left_masked + right_masked
    return Losses(contrastive, masked, contrastive + network.config.mask_weight * masked)


def siglip_loss(left_BW: Tensor, right_BW: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Equation (1) of features of length 1."""
    logits_BB = scale * left_BW.float() @ right_BW.float().T + bias
    labels_BB = 2 * torch.eye(len(left_BW), device=logits_BB.device) - 1
    return -F.logsigmoid(labels_BB * logits_BB).sum() / len(left_BW)


def hide(config: FuseLIP, ids_BS: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The ids with some of them replaced by [MASK], and what was there; `SHOWN` at the others.

    Padding, EOT and [MASK] are never hidden and neither, as in the published code, is an image's code 0.
    """
    drawn_BS = torch.rand(ids_BS.shape, generator=generator, device=ids_BS.device) < config.mask_rate
    spared = torch.tensor([config.pad, config.eos, config.mask, config.first_code], device=ids_BS.device)
    hidden_BS = drawn_BS & ~torch.isin(ids_BS, spared)
    return torch.where(hidden_BS, config.mask, ids_BS), torch.where(hidden_BS, ids_BS, SHOWN)


def masked_loss(logits_XV: Tensor, targets_X: Tensor) -> Tensor:
    """One side of equation (2); 0 where nothing is hidden."""
    return F.cross_entropy(logits_XV.float(), targets_X, reduction="sum") / max(1, len(targets_X))


def _side(network: FuseLIPNetwork, ids_BS: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Features (B, W), and one side of equation (2), from the states before the last norm."""
    if network.mask_head is None:
        return network(ids_BS), ids_BS.new_zeros((), dtype=torch.float32)
    shown_BS, targets_BS = hide(network.config, ids_BS, generator)
    h_BSW = network.states(shown_BS, network.seen(shown_BS))
    hidden_BS = targets_BS != SHOWN
    logits_XV = network.mask_head(h_BSW[hidden_BS], network.embed.weight)
    return network.pool(h_BSW, shown_BS), masked_loss(logits_XV, targets_BS[hidden_BS])
