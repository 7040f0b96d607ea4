"""Captioners with an LSTM: the baseline of ImageHRM/ImageTRM, and two baselines of MicarVLMoE.

The next word only needs the LSTM's state after the word before.

ResNet-18 + LSTM, the baseline of ImageHRM/ImageTRM, whose paper does not state its equations:

    h_t, c_t = LSTM(E[token t] + W_v V + b_v; h_t-1, c_t-1)      `merge`; initial h = c = 0            (L1)
    h_t, c_t = LSTM(E[token t]; h_t-1, c_t-1)                    `inject`; initial h = W_h V + b_h,    (L2)
                                                                 c = W_c V + b_c
    logits_t = W_o h_t + b_o                                     for the token after tokens 0 to t     (L3)

Show and Tell (Vinyals et al. 2015, section 3), a baseline of MicarVLMoE. The image is the LSTM's first word:

    h_I, c_I = LSTM(W_v V + b_v; 0, 0)                           V: the image's features               (T1)
    h_0, c_0 = LSTM(E[token 0]; h_I, c_I)                                                              (T2)
    h_t, c_t = LSTM(E[token t]; h_t-1, c_t-1)                                                          (T3)
    logits_t = W_o h_t + b_o                                     for the token after tokens 0 to t     (T4)

Show, Attend and Tell (Xu et al. 2015) with soft attention, a baseline of MicarVLMoE:

    e_tp = w relu(W_a a_p + b_a + W_h h_t-1 + b_h)               a_p: features of position p           (A1)
    alpha_t = softmax of e_t over positions                                                            (A2)
    z_t = sigmoid(W_beta h_t-1 + b_beta) * sum_p alpha_tp a_p                                          (A3)
    h_t, c_t = LSTM([E[token t]; z_t]; h_t-1, c_t-1)             initial h = W_1 mean_p a_p + b_1,     (A4)
                                                                 c = W_2 mean_p a_p + b_2
    logits_t = W_o dropout(h_t) + b_o                            for the token after tokens 0 to t     (A5)
    penalty = alpha_c mean_p (1 - sum_t alpha_tp)^2              over the tokens before a word         (A6)

w has no bias, which the softmax would cancel. The relu of (A1) and the mean of (A6) come from the usual
re-implementation; the paper has tanh and a sum.

Shapes: B captions, T tokens, P positions, F features, A dimensions of (A1), D width, V vocabulary.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.recursive.config.parts import PAD, Shape
from recstudy.recursive.models.lstm_captioners import ImageLSTM, ShowAttendTell, ShowTell
from recstudy.recursive.models.networks.caption import Cache, PlainCaptioner, VisionProjection, tuned_backbone
from recstudy.recursive.models.networks.contract import Carry, Output


@torch.compiler.disable  # type: ignore[untyped-decorator]  # dynamo (torch 2.15) has no LSTM
def recur(lstm: nn.LSTM, x_BTD: Tensor, h_BD: Tensor, c_BD: Tensor) -> tuple[Tensor, Cache]:
    """Run an LSTM with its own kernels, outside of a compiled graph. Return all h, and the last h and c."""
    h_BTD, (h_1BD, c_1BD) = lstm(x_BTD, (h_BD[None].contiguous(), c_BD[None].contiguous()))
    return h_BTD, (h_1BD[0], c_1BD[0])


class LSTMCaptioner(PlainCaptioner):
    """Vision encoder, word embedding, LSTM and answer. The image's features are `parts` states wide."""

    def __init__(self, config: ImageLSTM | ShowTell, shape: Shape, classes: int, parts: int = 1) -> None:
        super().__init__()
        self.eyes = VisionProjection(config, parts * config.width, bias=True)
        self.embed = nn.Embedding(classes, config.width)
        self.lstm = nn.LSTM(config.width, config.width, batch_first=True)
        self.answer = nn.Linear(config.width, classes)


class ImageLSTMNetwork(LSTMCaptioner):
    """ResNet-18 + LSTM, Eqs. L1 to L3."""

    def __init__(self, config: ImageLSTM, shape: Shape, classes: int) -> None:
        super().__init__(config, shape, classes, 1 if config.image == "merge" else 2)
        self.merges = config.image == "merge"

    def begin(self, images: Tensor) -> Cache:
        """Return the image's term of every token, and the initial h and c, each (B, D)."""
        features = self.eyes(images)
        if self.merges:
            return features, torch.zeros_like(features), torch.zeros_like(features)  # Eq. L1
        h_BD, c_BD = features.chunk(2, dim=-1)
        return torch.zeros_like(h_BD), h_BD, c_BD  # Eq. L2

    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Return h of the tokens, Eq. L1 or L2, and the new cache."""
        e_BD, h_BD, c_BD = cache
        h_BTD, states = recur(self.lstm, self.embed(tokens) + e_BD[:, None], h_BD, c_BD)
        return h_BTD, (e_BD, *states)


class ShowTellNetwork(LSTMCaptioner):
    """Show and Tell, Eqs. T1 to T4."""

    def begin(self, images: Tensor) -> Cache:
        """Return h and c after the image, Eq. T1, each (B, D)."""
        e_BD = self.eyes(images)
        zeros_BD = torch.zeros_like(e_BD)
        return recur(self.lstm, e_BD[:, None], zeros_BD, zeros_BD)[1]

    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        return recur(self.lstm, self.embed(tokens), *cache)  # Eqs. T2 and T3


class ShowAttendTellNetwork(PlainCaptioner):
    """Show, Attend and Tell, Eqs. A1 to A6."""

    def __init__(self, config: ShowAttendTell, shape: Shape, classes: int) -> None:
        super().__init__()
        width, features = config.width, config.features
        self.alpha_c = config.alpha_c
        self.backbone = tuned_backbone(config)
        self.of_place = nn.Linear(features, config.attention)  # W_a
        self.of_state = nn.Linear(width, config.attention)  # W_h
        self.score = nn.Linear(config.attention, 1, bias=False)  # w
        self.gate = nn.Linear(width, features)  # W_beta
        self.first = nn.Linear(features, 2 * width)  # W_1, W_2
        self.embed = nn.Embedding(classes, width)
        self.cell = nn.LSTMCell(width + features, width)
        answer = nn.Linear(width, classes)
        self.answer = nn.Sequential(nn.Dropout(config.dropout), answer)
        for weight in (self.embed.weight, answer.weight):
            nn.init.uniform_(weight, -0.1, 0.1)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        (tokens,) = carry
        h_BTD, alpha_BTP, _ = self._unroll(tokens, self.begin(images))
        return (
            Output(self.answer(h_BTD), extra=self.penalty(alpha_BTP, tokens) if self.alpha_c else None),
            carry,
        )

    def trace(self, images: Tensor, tokens: Tensor) -> Tensor:
        """Return alpha (B, T, P) of captions, Eq. A2. The arguments are those of `start`."""
        return self._unroll(tokens, self.begin(images))[1]

    def begin(self, images: Tensor) -> Cache:
        """Return a_p (B, P, F) and W_a a_p + b_a (B, P, A), then the initial h and c of (A4)."""
        a_BPF = images if self.backbone is None else self.backbone(images)
        return a_BPF, self.of_place(a_BPF), *self.first(a_BPF.mean(1)).chunk(2, dim=-1)

    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        h_BTD, _, cache = self._unroll(tokens, cache)
        return h_BTD, cache

    def penalty(self, alpha_BTP: Tensor, tokens: Tensor) -> Tensor:
        """Return the doubly stochastic penalty, Eq. A6, a scalar."""
        # The last token is left out, because its next word is unknown; EOS and PAD have no next word.
        has_next_BT = F.pad(tokens[:, 1:], (0, 1), value=PAD) != PAD
        attention_BP = (alpha_BTP * has_next_BT[..., None]).sum(1)
        return self.alpha_c * (1 - attention_BP).square().mean()

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # compiling 39 tokens takes 227 s
    def _unroll(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Tensor, Cache]:
        """Return h (B, T, D) and alpha (B, T, P) of every token, and the new cache."""
        a_BPF, u_BPA, h_BD, c_BD = cache
        states, maps = [], []
        for x_BD in self.embed(tokens).unbind(1):
            alpha_BP = self.attend(u_BPA, h_BD)
            # Eq. A3: the attended features, scaled by a gate.
            z_BF = self.gate(h_BD).sigmoid() * torch.einsum("bp,bpf->bf", alpha_BP, a_BPF)
            # Eq. A4: the LSTM reads the word and the attended features.
            h_BD, c_BD = self.cell(torch.cat([x_BD, z_BF], dim=-1), (h_BD, c_BD))
            states.append(h_BD)
            maps.append(alpha_BP)
        return torch.stack(states, 1), torch.stack(maps, 1), (a_BPF, u_BPA, h_BD, c_BD)

    def attend(self, u_BPA: Tensor, h_BD: Tensor) -> Tensor:
        """Return alpha (B, P) from u_p = W_a a_p + b_a, Eqs. A1 and A2."""

        return self.score(F.relu(u_BPA + self.of_state(h_BD)[:, None])).squeeze(-1).softmax(-1)
