"""Show, Attend and Tell (Xu et al. 2015) with soft attention, a captioning baseline of 003.

    e_tp = w relu(W_a a_p + b_a + W_h h_t-1 + b_h)              a_p: features of place p               (1)
    alpha_t = softmax over places of e_t                                                               (2)
    z_t = sigmoid(W_beta h_t-1 + b_beta) * sum_p alpha_tp a_p                                          (3)
    h_t, c_t = LSTM([E[token t]; z_t]; h_t-1, c_t-1)            h = W_1 mean_p a_p + b_1, c = W_2 mean_p a_p + b_2 at first  (4)
    logits_t = W_o dropout(h_t) + b_o                           what comes after tokens 0 to t         (5)
    penalty = alpha_c mean_p (1 - sum_t alpha_tp)^2             over the tokens that a word follows    (6)

w has no bias, which the softmax would not see. Relu and the mean of (6) are those of the usual re-implementation, whose
settings models.md 9 lists; the paper has tanh and a sum.

Shapes: B captions, T tokens, P places, F features, A dimensions of (1), D width, V vocabulary.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.config import PAD
from recstudy.models.networks.backbones import BackboneNetwork
from recstudy.models.networks.caption import Cache, PlainCaptioner
from recstudy.models.networks.contract import Carry, Output
from recstudy.models.show_attend_tell import ShowAttendTell


class Trace(NamedTuple):
    """Where each word was looked for."""

    attention: Tensor  # (B, T, P) alpha: of the state that reads token t; sums to one over the places, row by row


class ShowAttendTellNetwork(PlainCaptioner):
    """Equations (1)-(6)."""

    def __init__(self, config: ShowAttendTell, classes: int) -> None:
        super().__init__()
        width, seen = config.width, config.features
        self.alpha_c = config.alpha_c
        self.backbone = BackboneNetwork(config.backbone, config.weights, config.grid) if config.tuned else None
        self.of_place = nn.Linear(seen, config.attention)  # W_a
        self.of_state = nn.Linear(width, config.attention)  # W_h
        self.score = nn.Linear(config.attention, 1, bias=False)  # w
        self.gate = nn.Linear(width, seen)  # W_beta
        self.first = nn.Linear(seen, 2 * width)  # W_1, W_2
        self.embed = nn.Embedding(classes, width)
        self.cell = nn.LSTMCell(width + seen, width)
        answer = nn.Linear(width, classes)
        self.answer = nn.Sequential(nn.Dropout(config.dropout), answer)
        for weight in (self.embed.weight, answer.weight):
            nn.init.uniform_(weight, -0.1, 0.1)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        (tokens,) = carry
        h_BTD, alpha_BTP, _ = self._unrolled(tokens, self.begin(images))
        return Output(self.answer(h_BTD), extra=self.penalty(alpha_BTP, tokens) if self.alpha_c else None), carry

    def trace(self, images: Tensor, tokens: Tensor) -> Trace:
        """The attention maps of these captions; arguments as of `start`."""
        return Trace(self._unrolled(tokens, self.begin(images))[1])

    def begin(self, images: Tensor) -> Cache:
        """Places (B, P, F) and (B, P, A), then h and c of (4)."""
        a_BPF = images if self.backbone is None else self.backbone(images)
        return a_BPF, self.of_place(a_BPF), *self.first(a_BPF.mean(1)).chunk(2, dim=-1)

    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        h_BTD, _, cache = self._unrolled(tokens, cache)
        return h_BTD, cache

    def penalty(self, alpha_BTP: Tensor, tokens: Tensor) -> Tensor:
        """Equation (6). Which word the last token is for is not known here; behind EOS there is none."""
        followed_BT = F.pad(tokens[:, 1:], (0, 1), value=PAD) != PAD
        looked_BP = (alpha_BTP * followed_BT[..., None]).sum(1)
        return self.alpha_c * (1 - looked_BP).square().mean()

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # 39 tokens in a graph: 227 s to compile it
    def _unrolled(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Tensor, Cache]:
        """Every h (B, T, D) and alpha (B, T, P)."""
        a_BPF, u_BPA, h_BD, c_BD = cache
        states, maps = [], []
        for x_BD in self.embed(tokens).unbind(1):
            alpha_BP = self.attend(u_BPA, h_BD)
            z_BF = self.gate(h_BD).sigmoid() * torch.einsum("bp,bpf->bf", alpha_BP, a_BPF)  # (3)
            h_BD, c_BD = self.cell(torch.cat([x_BD, z_BF], dim=-1), (h_BD, c_BD))  # (4)
            states.append(h_BD)
            maps.append(alpha_BP)
        return torch.stack(states, 1), torch.stack(maps, 1), (a_BPF, u_BPA, h_BD, c_BD)

    def attend(self, u_BPA: Tensor, h_BD: Tensor) -> Tensor:
        """Equations (1)-(2): alpha (B, P), from u_p = W_a a_p + b_a."""
        return self.score(F.relu(u_BPA + self.of_state(h_BD)[:, None])).squeeze(-1).softmax(-1)
