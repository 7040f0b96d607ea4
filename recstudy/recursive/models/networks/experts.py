"""The mixture of experts of MicarVLMoE (section III-F, Eq. 6).

A router selects k of E gated feed-forward networks for each token:

    f(x) = (act(x W_1) * x W_3) W_2                                                                    (1)
    S = softmax(x W_g)                                       over all E experts                        (2)
    y = sum over the k highest S_e of S_e f_e(x)             `unweighted`: sum of f_e(x)               (3)
    L_b = sum_e m_e log m_e,  m = mean of S over tokens      minimum -log E, at an even load           (4)

The published code divides the k scores of (3) by their sum and multiplies by that sum of 1. No weight is
left, and the router has no gradient except from (4) (contradiction MicarVLMoE-1). As there, (4) also counts
PAD.

Tokens are sorted by expert, so that each expert runs only on its own tokens. No token is dropped at any load.
With a single expert there is no router, and y = f(x).

Shapes: B captions, T tokens, N = B T, D width, M hidden width, E experts, k experts per token, R = N k rows.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.recursive.models.micar import MicarVLMoE
from recstudy.recursive.models.networks.contract import on_paper
from recstudy.recursive.models.networks.layers import own_precision

ACTIVATIONS: dict[str, type[nn.Module]] = {"silu": nn.SiLU, "gelu": nn.GELU}


class TokenRouting(NamedTuple):
    """The experts of each token."""

    scores: Tensor  # (N, E) Eq. 2
    weights: Tensor  # (N, k) factors of the experts' outputs
    order: Tensor  # (R,) the k rows of each token, sorted by expert
    chosen: Tensor  # (N, k) experts, the most likely first
    sizes: Tensor  # (E,) number of rows of each expert


class GatedFFN(nn.Module):
    """The gated feed-forward network, Eq. 1, followed by dropout. It has no biases."""

    def __init__(self, config: MicarVLMoE) -> None:
        super().__init__()
        # W_1 and W_3
        self.gate, self.up = (nn.Linear(config.width, config.ffn_width, bias=False) for _ in range(2))
        self.down = nn.Linear(config.ffn_width, config.width, bias=False)
        self.activation, self.dropout = ACTIVATIONS[config.activation](), nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.down(self.activation(self.gate(x)) * self.up(x)))  # Eq. 1


class MixtureOfExperts(nn.Module):
    """The mixture of experts, Eqs. 1 to 4."""

    def __init__(self, config: MicarVLMoE) -> None:
        super().__init__()
        self.top_k, self.weighted = config.top_k, config.combine == "weighted"
        self.router = nn.Linear(config.width, config.experts, bias=False) if config.experts > 1 else None
        self.up = nn.Parameter(torch.empty(config.experts, config.width, 2 * config.ffn_width))  # W_1 and W_3
        self.down = nn.Parameter(torch.empty(config.experts, config.ffn_width, config.width))
        self.activation, self.dropout = ACTIVATIONS[config.activation](), nn.Dropout(config.dropout)
        for matrix in (*self.up.data.chunk(2, dim=-1), self.down.data):
            # Each matrix of each expert is Xavier-uniform.
            bound = math.sqrt(6 / (matrix.shape[1] + matrix.shape[2]))
            matrix.uniform_(-bound, bound)

    def forward(self, x_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """Return y (B, T, D), Eq. 3, and L_b, Eq. 4."""
        x_ND = x_BTD.flatten(0, 1)
        routing = self.route(x_ND)
        rows_RD = x_ND[routing.order // self.top_k]
        has_grouped_product = rows_RD.is_cuda and product_dtype(rows_RD).itemsize == 2
        run_experts = self.run_grouped if has_grouped_product else self.run_in_turn
        rows_RD = run_experts(rows_RD, routing.sizes)
        experts_NkD = self.dropout(rows_RD)[routing.order.argsort()].unflatten(0, routing.weights.shape)
        # Eq. 3: the sum of the k experts' outputs, weighted by their scores.
        y_ND = (routing.weights[..., None] * experts_NkD).sum(1)
        return y_ND.view_as(x_BTD), balance(routing.scores)

    def route(self, x_ND: Tensor) -> TokenRouting:
        """Return the experts of each token, by Eq. 2."""
        scores_NE = self.scores(x_ND)
        weights_Nk, chosen_Nk = scores_NE.topk(self.top_k)
        sizes_E = count_choices(chosen_Nk, len(self.up))
        order_R = chosen_Nk.flatten().argsort(stable=True)
        return TokenRouting(
            scores_NE,
            weights_Nk if self.weighted else torch.ones_like(weights_Nk),
            order_R,
            chosen_Nk,
            sizes_E,
        )

    def scores(self, x_ND: Tensor) -> Tensor:
        """Return the scores S (N, E), Eq. 2, in float32 even with autocast."""
        if self.router is None:
            return x_ND.new_ones(len(x_ND), 1)
        with own_precision(x_ND):
            return self.router(x_ND.to(self.router.weight.dtype)).softmax(-1)  # Eq. 2

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # reading the sizes would break the graph
    def run_in_turn(self, rows_RD: Tensor, sizes_E: Tensor) -> Tensor:
        """Apply Eq. 1 to rows sorted by expert, one expert after the other.

        It reads the sizes, which waits for a GPU once per layer.
        """
        count, experts = len(rows_RD), len(sizes_E)
        if on_paper(rows_RD):  # an even load; FLOPs and memory do not depend on it
            sizes = [count // experts + (expert < count % experts) for expert in range(experts)]
        else:
            sizes = sizes_E.tolist()
        # unbind, because the gradient of each index would be as large as all experts.
        matrices = zip(rows_RD.split(sizes), self.up.unbind(), self.down.unbind(), strict=True)
        return torch.cat([self.gated(group @ up_DM) @ down_MD for group, up_DM, down_MD in matrices])

    def run_grouped(self, rows_RD: Tensor, sizes_E: Tensor) -> Tensor:
        """Apply Eq. 1 to rows sorted by expert with torch's grouped matrix product, in 16-bit precision."""
        # The product takes the sizes as a tensor, without waiting. In float32, torch (2.15) reads the sizes
        # expert by expert and cannot compile the product.
        ends_E = sizes_E.cumsum(0).to(torch.int32)
        dtype = product_dtype(rows_RD)
        hidden_RM = F.grouped_mm(rows_RD.to(dtype), self.up.to(dtype), offs=ends_E)
        return F.grouped_mm(self.gated(hidden_RM), self.down.to(dtype), offs=ends_E)

    def gated(self, hidden: Tensor) -> Tensor:
        gated, value = hidden.chunk(2, dim=-1)
        return self.activation(gated) * value


def product_dtype(rows_RD: Tensor) -> torch.dtype:
    """Return the precision of a matrix product of these rows, which autocast may set."""
    kind = rows_RD.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else rows_RD.dtype


def count_choices(chosen: Tensor, experts: int) -> Tensor:
    """Return the number of choices of each expert, (E,)."""
    return (chosen.flatten()[:, None] == torch.arange(experts, device=chosen.device)).sum(0)


def balance(scores_NE: Tensor) -> Tensor:
    """Return the balance loss L_b, Eq. 4, a scalar."""

    mean_E = scores_NE.sum(0) / max(len(scores_NE), 1)
    return torch.special.xlogy(mean_E, mean_E.clamp(min=1e-30)).sum()  # log 0 would have no gradient
