"""ResNet-18 + LSTM, the captioning baseline of 000, which does not print its equations: those of models.md 9.

    h_t, c_t = LSTM(E[token t] + W_v V + b_v; h_t-1, c_t-1)      `merge`; h, c start at 0               (1)
    h_t, c_t = LSTM(E[token t]; h_t-1, c_t-1)                    `inject`; h = W_h V + b_h, c = W_c V + b_c at the start   (2)
    logits_t = W_o h_t + b_o                                     what comes after tokens 0 to t         (3)

There is no recursion over supervision steps: the carry is the tokens. One more token needs h and c of the one before.

Shapes: B captions, T tokens, D width, V vocabulary.
"""

import torch
from torch import Tensor, nn

from recstudy.models.image_lstm import ImageLSTM
from recstudy.models.networks.caption import Cache, Eyes, PlainCaptioner
from recstudy.models.networks.contract import Carry, Output


class ImageLSTMNetwork(PlainCaptioner):
    """Equations (1)-(3)."""

    def __init__(self, config: ImageLSTM, classes: int) -> None:
        super().__init__()
        self.merges = config.image == "merge"
        self.eyes = Eyes(config, config.width if self.merges else 2 * config.width, bias=True)
        self.embed = nn.Embedding(classes, config.width)
        self.lstm = nn.LSTM(config.width, config.width, batch_first=True)
        self.answer = nn.Linear(config.width, classes)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        h_BTD, _ = self.read(carry[0], self.begin(images))
        return Output(self.answer(h_BTD)), carry

    def begin(self, images: Tensor) -> Cache:
        """What is added to every token, and h and c at the start, (B, D) each."""
        seen = self.eyes(images)
        if not self.merges:
            h_BD, c_BD = seen.chunk(2, dim=-1)
            return seen.new_zeros(h_BD.shape), h_BD, c_BD
        return seen, seen.new_zeros(seen.shape), seen.new_zeros(seen.shape)

    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Equation (1) or (2)."""
        e_BD, h_BD, c_BD = cache
        h_BTD, (h_1BD, c_1BD) = recur(self.lstm, self.embed(tokens) + e_BD[:, None], h_BD[None], c_BD[None])
        return h_BTD, (e_BD, h_1BD[0], c_1BD[0])


@torch.compiler.disable  # type: ignore[untyped-decorator]  # dynamo (torch 2.15) has no LSTM
def recur(lstm: nn.LSTM, x_BTD: Tensor, h_1BD: Tensor, c_1BD: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """An LSTM's own kernels, outside of a compiled graph."""
    return lstm(x_BTD, (h_1BD.contiguous(), c_1BD.contiguous()))
