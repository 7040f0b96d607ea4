"""The plain transformer (Vaswani et al. 2017) over the places of an image and its words, a captioning baseline of 003.

    y_p = dropout(W_v V_p + b_v + p_p)                        V_p: features of place p; p: sinusoids          (1)
    encoder layer: y <- LN(y + Attn(y)),  y <- LN(y + FFN(y))                                                 (2)
    decoder layer: x <- LN(x + CausalAttn(x)),  x <- LN(x + See(x, y)),  x <- LN(x + FFN(x))                  (3)
    logits_t = W_o x_t + b_o                                  what comes after tokens 0 to t                  (4)

x starts as words with their places; dropout follows every Attn, See and FFN. Words, See and FFN: `encoder_decoder.py`.

Shapes: B captions, T tokens, P places, D width, V vocabulary.
"""

from torch import Tensor, nn

from recstudy.models.caption_transformer import CaptionTransformer
from recstudy.models.networks.caption import Cache, Eyes, PlainCaptioner
from recstudy.models.networks.contract import Carry, Output
from recstudy.models.networks.encoder_decoder import See, Words, encoder_layer, feed_forward, keys_values, sinusoids, xavier
from recstudy.models.networks.layers import Attention, Past


class DecoderLayer(nn.Module):
    """Equation (3)."""

    def __init__(self, config: CaptionTransformer) -> None:
        super().__init__()
        self.attention = Attention(config.width, config.heads, config.dropout, causal=True)
        self.see, self.ffn = See(config), feed_forward(config)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(config.width) for _ in range(3))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTD: Tensor, seen: Cache, past: Past) -> Tensor:
        x_BTD = self.norm1(x_BTD + self.dropout(self.attention(x_BTD, past=past)))
        x_BTD = self.norm2(x_BTD + self.dropout(self.see(x_BTD, *seen)))
        return self.norm3(x_BTD + self.dropout(self.ffn(x_BTD)))


class CaptionTransformerNetwork(PlainCaptioner):
    """Equations (1)-(4)."""

    places: Tensor  # (P, D)

    def __init__(self, config: CaptionTransformer, classes: int) -> None:
        super().__init__()
        self.eyes = Eyes(config, config.width, bias=True)
        self.words = Words(classes, config.width, config.dropout)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.Sequential(*(encoder_layer(config, "post") for _ in range(config.layers)))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.answer = nn.Linear(config.width, classes)
        self.register_buffer("places", sinusoids(config.grid**2, config.width), persistent=False)
        xavier(self)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        x_BTD, _ = self.read(carry[0], self.begin(images))
        return Output(self.answer(x_BTD)), carry

    def begin(self, images: Tensor) -> Cache:
        """Keys and values of the image in every decoder layer."""
        e_BPD = self.eyes(images)
        y_BPD = self.encoder(self.dropout(e_BPD + self.places.to(e_BPD.dtype)))  # (1)-(2)
        return keys_values(self.decoder, y_BPD)

    def read(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        seen, past = cache[: 2 * len(self.decoder)], Past(cache[2 * len(self.decoder) :])
        x_BTD = self.words(tokens, past.length)
        for at, layer in enumerate(self.decoder):
            x_BTD = layer(x_BTD, seen[2 * at : 2 * at + 2], past)  # (3)
        return x_BTD, (*seen, *past.now)
