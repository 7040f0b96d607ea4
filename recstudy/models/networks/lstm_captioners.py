"""Captioners that read words with an LSTM: the baseline of 000, and two of 003. A word more needs the state
after the one before.

ResNet-18 + LSTM, of 000, which does not print its equations: those of models.md 9.

    h_t, c_t = LSTM(E[token t] + W_v V + b_v; h_t-1, c_t-1)      `merge`; h, c start at 0                 (L1)
    h_t, c_t = LSTM(E[token t]; h_t-1, c_t-1)                    `inject`; h = W_h V + b_h, c = W_c V + b_c at the start   (L2)
    logits_t = W_o h_t + b_o                                     what comes after tokens 0 to t           (L3)

Show and Tell (Vinyals et al. 2015, section 3), of 003: the image is the LSTM's first word.

    h_I, c_I = LSTM(W_v V + b_v; 0, 0)             V: the image's features                  (T1)
    h_0, c_0 = LSTM(E[token 0]; h_I, c_I)                                                   (T2)
    h_t, c_t = LSTM(E[token t]; h_t-1, c_t-1)                                               (T3)
    logits_t = W_o h_t + b_o                       what comes after tokens 0 to t           (T4)

Show, Attend and Tell (Xu et al. 2015) with soft attention, of 003.

    e_tp = w relu(W_a a_p + b_a + W_h h_t-1 + b_h)              a_p: features of place p                  (A1)
    alpha_t = softmax over places of e_t                                                                  (A2)
    z_t = sigmoid(W_beta h_t-1 + b_beta) * sum_p alpha_tp a_p                                             (A3)
    h_t, c_t = LSTM([E[token t]; z_t]; h_t-1, c_t-1)            h = W_1 mean_p a_p + b_1, c = W_2 mean_p a_p + b_2 at first  (A4)
    logits_t = W_o dropout(h_t) + b_o                           what comes after tokens 0 to t            (A5)
    penalty = alpha_c mean_p (1 - sum_t alpha_tp)^2             over the tokens that a word follows       (A6)

w has no bias, which the softmax would not see. Relu and the mean of (A6) are those of the usual
re-implementation, whose settings models.md 9 lists; the paper has tanh and a sum.

Shapes: B captions, T tokens, P places, F features, A dimensions of (A1), D width, V vocabulary.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.config import PAD
from recstudy.models.captioners import ImageLSTM, ShowAttendTell, ShowTell
from recstudy.models.networks.caption import BackboneNetwork, Cache, PlainCaptioner, VisionProjection
from recstudy.models.networks.contract import Carry, Output


@torch.compiler.disable  # type: ignore[untyped-decorator]  # dynamo (torch 2.15) has no LSTM
def recur(lstm: nn.LSTM, x_BTD: Tensor, h_1BD: Tensor, c_1BD: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Run an LSTM's own kernels, outside of a compiled graph."""
    return lstm(x_BTD, (h_1BD.contiguous(), c_1BD.contiguous()))


class LSTMCaptioner(PlainCaptioner):
    """What sees, words, LSTM and answer, with features of the image that are `parts` states wide."""

    def __init__(self, config: ImageLSTM | ShowTell, classes: int, parts: int = 1) -> None:
        super().__init__()
        self.eyes = VisionProjection(config, parts * config.width, bias=True)
        self.embed = nn.Embedding(classes, config.width)
        self.lstm = nn.LSTM(config.width, config.width, batch_first=True)
        self.answer = nn.Linear(config.width, classes)


class ImageLSTMNetwork(LSTMCaptioner):
    """Equations (L1)-(L3)."""

    def __init__(self, config: ImageLSTM, classes: int) -> None:
        super().__init__(config, classes, 1 if config.image == "merge" else 2)
        self.merges = config.image == "merge"

    def begin(self, images: Tensor) -> Cache:
        """Return what is added to every token, and h and c at the start, (B, D) each."""
        seen = self.eyes(images)
        if not self.merges:
            h_BD, c_BD = seen.chunk(2, dim=-1)
            return seen.new_zeros(h_BD.shape), h_BD, c_BD
        return seen, seen.new_zeros(seen.shape), seen.new_zeros(seen.shape)

    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Equation (L1) or (L2)."""
        e_BD, h_BD, c_BD = cache
        h_BTD, (h_1BD, c_1BD) = recur(self.lstm, self.embed(tokens) + e_BD[:, None], h_BD[None], c_BD[None])
        return h_BTD, (e_BD, h_1BD[0], c_1BD[0])


class ShowTellNetwork(LSTMCaptioner):
    """Equations (T1)-(T4)."""

    def begin(self, images: Tensor) -> Cache:
        """Equation (T1): h and c, (B, D) each."""
        e_BD = self.eyes(images)
        zeros_BD = e_BD.new_zeros(e_BD.shape)
        return self._run(e_BD[:, None], zeros_BD, zeros_BD)[1]

    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        return self._run(self.embed(tokens), *cache)  # (T2)-(T3)

    def _run(self, x_BTD: Tensor, h_BD: Tensor, c_BD: Tensor) -> tuple[Tensor, Cache]:
        h_BTD, (h_1BD, c_1BD) = recur(self.lstm, x_BTD, h_BD[None], c_BD[None])
        return h_BTD, (h_1BD[0], c_1BD[0])


class AttentionTrace(NamedTuple):
    """The attention of each word to the places of the image."""

    # (B, T, P) alpha: of the state that reads token t; sums to one over the places, row by row
    attention: Tensor


class ShowAttendTellNetwork(PlainCaptioner):
    """Equations (A1)-(A6)."""

    def __init__(self, config: ShowAttendTell, classes: int) -> None:
        super().__init__()
        width, seen = config.width, config.features
        self.alpha_c = config.alpha_c
        self.backbone = (
            BackboneNetwork(config.backbone, config.weights, config.grid) if config.tuned else None
        )
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
        return (
            Output(self.answer(h_BTD), extra=self.penalty(alpha_BTP, tokens) if self.alpha_c else None),
            carry,
        )

    def trace(self, images: Tensor, tokens: Tensor) -> AttentionTrace:
        """Return the attention maps of these captions; arguments as of `start`."""
        return AttentionTrace(self._unrolled(tokens, self.begin(images))[1])

    def begin(self, images: Tensor) -> Cache:
        """Return places (B, P, F) and (B, P, A), then h and c of (A4)."""
        a_BPF = images if self.backbone is None else self.backbone(images)
        return a_BPF, self.of_place(a_BPF), *self.first(a_BPF.mean(1)).chunk(2, dim=-1)

    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        h_BTD, _, cache = self._unrolled(tokens, cache)
        return h_BTD, cache

    def penalty(self, alpha_BTP: Tensor, tokens: Tensor) -> Tensor:
        """Equation (A6). Which word the last token is for is not known here; behind EOS there is none."""
        followed_BT = F.pad(tokens[:, 1:], (0, 1), value=PAD) != PAD
        looked_BP = (alpha_BTP * followed_BT[..., None]).sum(1)
        return self.alpha_c * (1 - looked_BP).square().mean()

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # 39 tokens in a graph: 227 s to compile it
    def _unrolled(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Tensor, Cache]:
        """Return every h (B, T, D) and alpha (B, T, P)."""
        a_BPF, u_BPA, h_BD, c_BD = cache
        states, maps = [], []
        for x_BD in self.embed(tokens).unbind(1):
            alpha_BP = self.attend(u_BPA, h_BD)
            z_BF = self.gate(h_BD).sigmoid() * torch.einsum("bp,bpf->bf", alpha_BP, a_BPF)  # (A3)
            h_BD, c_BD = self.cell(torch.cat([x_BD, z_BF], dim=-1), (h_BD, c_BD))  # (A4)
            states.append(h_BD)
            maps.append(alpha_BP)
        return torch.stack(states, 1), torch.stack(maps, 1), (a_BPF, u_BPA, h_BD, c_BD)

    def attend(self, u_BPA: Tensor, h_BD: Tensor) -> Tensor:
        """Equations (A1)-(A2): alpha (B, P), from u_p = W_a a_p + b_a."""
        return self.score(F.relu(u_BPA + self.of_state(h_BD)[:, None])).squeeze(-1).softmax(-1)
