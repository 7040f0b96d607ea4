"""Encoder and decoder over an image's places and its words, as captioning baselines of MicarVLMoE: what can be set.

The plain transformer's network stands in `networks/caption_transformer.py`, that of R2Gen, with `r2gen.py`, in its own.
"""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES, DataConfig
from recstudy.models.backbone import ReportModel


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

    def check(self, data: DataConfig) -> None:
        super().check(data)
        if self.width % self.heads:
            raise ValueError(f"model.width must be a multiple of model.heads, but got {self.width} and {self.heads}")


@FAMILIES.add("caption_transformer")
class CaptionTransformer(EncoderDecoderModel):
    """The transformer of Vaswani et al. Defaults: MicarVLMoE's, 24,143,336 parameters at 1,000 words without the backbone."""

    named: ClassVar[str] = "Transformer"
    network: ClassVar[str] = "recstudy.models.networks.caption_transformer:CaptionTransformerNetwork"

    family: Literal["caption_transformer"] = "caption_transformer"
