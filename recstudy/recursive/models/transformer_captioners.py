"""Settings of two captioners with an encoder and a decoder, which are baselines of MicarVLMoE.

Their networks are in `networks/transformer_captioners.py`.
"""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.recursive.config.parts import FAMILIES, Count, DataConfig, Depth, Rate, Repeats, check_heads
from recstudy.recursive.models.caption import ReportModel


class EncoderDecoderModel(ReportModel):
    """An encoder over the positions of an image and a decoder over the words."""

    grid: ClassVar = 7

    width: int = Field(512, ge=2)
    """dimensions of a word and of a position"""
    heads: Count = 8
    """attention heads"""
    layers: Depth = 3
    """layers of the encoder, and of the decoder"""
    ffn_width: Count = 2048
    """hidden width of the feed-forward networks"""
    dropout: Rate = 0.1
    """dropout rate of the embeddings, the attention weights and the layers"""

    def check(self, data: DataConfig) -> None:
        super().check(data)
        check_heads(self.width, self.heads)


@FAMILIES.add("caption_transformer")
class CaptionTransformer(EncoderDecoderModel):
    """The transformer of Vaswani et al. Defaults: MicarVLMoE's, with 24,143,336 parameters.

    The count is for 1,000 words, without the backbone.
    """

    paper_name: ClassVar = "Transformer"
    network: ClassVar = "recstudy.recursive.models.networks.transformer_captioners:CaptionTransformerNetwork"

    family: Literal["caption_transformer"] = "caption_transformer"


@FAMILIES.add("r2gen")
class R2Gen(EncoderDecoderModel):
    """R2Gen. Defaults: its published code (36,218,344 parameters for 1,000 words, without the backbone)."""

    paper_name: ClassVar = "R2Gen"
    network: ClassVar = "recstudy.recursive.models.networks.transformer_captioners:R2GenNetwork"

    family: Literal["r2gen"] = "r2gen"
    ffn_width: Count = 512
    """hidden width of the feed-forward networks"""
    image_dropout: Rate = 0.5
    """dropout rate of the projected image features"""

    slots: Repeats = 3
    """rows of the relational memory"""
