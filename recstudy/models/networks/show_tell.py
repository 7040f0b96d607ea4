"""Show and Tell (Vinyals et al. 2015, section 3), a captioning baseline of 003: the image is the LSTM's first word.

    h_I, c_I = LSTM(W_v V + b_v; 0, 0)             V: the image's features                  (1)
    h_0, c_0 = LSTM(E[token 0]; h_I, c_I)                                                   (2)
    h_t, c_t = LSTM(E[token t]; h_t-1, c_t-1)                                               (3)
    logits_t = W_o h_t + b_o                       what comes after tokens 0 to t           (4)

Shapes: B captions, T tokens, D width, V vocabulary.
"""

from torch import Tensor, nn

from recstudy.models.networks.caption import Cache, Eyes, PlainCaptioner
from recstudy.models.networks.contract import Carry, Output
from recstudy.models.networks.image_lstm import recur
from recstudy.models.show_tell import ShowTell


class ShowTellNetwork(PlainCaptioner):
    """Equations (1)-(4)."""

    def __init__(self, config: ShowTell, classes: int) -> None:
        super().__init__()
        self.eyes = Eyes(config, config.width, bias=True)
        self.embed = nn.Embedding(classes, config.width)
        self.lstm = nn.LSTM(config.width, config.width, batch_first=True)
        self.answer = nn.Linear(config.width, classes)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        h_BTD, _ = self.read(carry[0], self.begin(images))
        return Output(self.answer(h_BTD)), carry

    def begin(self, images: Tensor) -> Cache:
        """Equation (1): h and c, (B, D) each."""
        e_BD = self.eyes(images)
        zeros_BD = e_BD.new_zeros(e_BD.shape)
        return self._run(e_BD[:, None], zeros_BD, zeros_BD)[1]

    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        return self._run(self.embed(tokens), *cache)  # (2)-(3)

    def _run(self, x_BTD: Tensor, h_BD: Tensor, c_BD: Tensor) -> tuple[Tensor, Cache]:
        h_BTD, (h_1BD, c_1BD) = recur(self.lstm, x_BTD, h_BD[None], c_BD[None])
        return h_BTD, (h_1BD[0], c_1BD[0])
