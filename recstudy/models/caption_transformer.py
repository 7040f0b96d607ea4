"""Encoder and decoder over an image's places and its words, as captioning baselines of 003: what can be set.

The plain transformer's network stands in `networks/caption_transformer.py`, that of R2Gen, with `r2gen.py`, in its own.
"""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES, DataConfig, Shape
from recstudy.models.backbone import ReportModel

if TYPE_CHECKING:
    from torch import nn


class EncoderDecoderModel(ReportModel):
    """An encoder over the places of an image and a decoder over the words."""

    width: int = Field(512, ge=2, description="dimensions of a word and of a place")
    heads: int = Field(8, ge=1, description="attention heads")
    layers: int = Field(3, ge=1, le=48, description="of the encoder, and of the decoder")
    ffn_width: int = Field(2048, ge=1, description="hidden width of the feed-forward networks")
    dropout: float = Field(0.1, ge=0, lt=1, description="on the embeddings, the attention weights, and in the layers")

    @property
    def grid(self) -> int:
        return 7

    @property
    def attention_params(self) -> int:
        return 4 * self.width * (self.width + 1)

    @property
    def ffn_params(self) -> int:
        return 2 * self.width * self.ffn_width + self.width + self.ffn_width

    def check(self, data: DataConfig) -> None:
        super().check(data)
        if self.width % self.heads:
            raise ValueError(f"model.width must be a multiple of model.heads, but got {self.width} and {self.heads}")

    def counts(self, shape: Shape, classes: int) -> dict[str, int]:
        return {
            "image": (self.features + 1) * self.width,
            "embedding": classes * self.width,
            "head": classes * (self.width + 1),
            **super().counts(shape, classes),
        }


@FAMILIES.add("caption_transformer")
class CaptionTransformer(EncoderDecoderModel):
    """The transformer of Vaswani et al. Defaults: 003's, 24,143,336 parameters at 1,000 words without the backbone."""

    named: ClassVar[str] = "Transformer"

    family: Literal["caption_transformer"] = "caption_transformer"

    def counts(self, shape: Shape, classes: int) -> dict[str, int]:
        """Trained parameters by part."""
        return {
            "encoder": self.layers * (self.attention_params + self.ffn_params + 4 * self.width),
            "decoder": self.layers * (2 * self.attention_params + self.ffn_params + 6 * self.width),
            **super().counts(shape, classes),
        }

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        from recstudy.models.networks.caption_transformer import CaptionTransformerNetwork

        return CaptionTransformerNetwork(self, classes)
