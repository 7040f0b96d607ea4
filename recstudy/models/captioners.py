"""Captioners without a recursion: the baseline of ImageHRM/ImageTRM, and those that MicarVLMoE compares with: what can be set.

The networks stand in `networks/lstm_captioners.py` and `networks/transformer_captioners.py`.
"""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES, DataConfig
from recstudy.models.backbone import CaptionModel, ReportModel


@FAMILIES.add("image_lstm")
class ImageLSTM(CaptionModel):
    """ResNet-18 + LSTM. Defaults: 2,630,404 trained parameters with the byte vocabulary of 260."""

    network: ClassVar[str] = "recstudy.models.networks.lstm_captioners:ImageLSTMNetwork"

    family: Literal["image_lstm"] = "image_lstm"
    width: int = Field(512, ge=1, description="dimensions of a token and of the LSTM's state")
    image: Literal["merge", "inject"] = Field(
        "merge", description="the image is added to every token (merge), or is the LSTM's first state (inject)"
    )

    @property
    def title(self) -> str:
        return f"LSTM ({self.vision})"


@FAMILIES.add("show_tell")
class ShowTell(ReportModel):
    """Show and Tell. Defaults: MicarVLMoE's, a decoder of 4,175,336 parameters at 1,000 words."""

    named: ClassVar[str] = "ST"
    network: ClassVar[str] = "recstudy.models.networks.lstm_captioners:ShowTellNetwork"

    family: Literal["show_tell"] = "show_tell"
    width: int = Field(512, ge=1, description="dimensions of a word and of the LSTM's state")


@FAMILIES.add("show_attend_tell")
class ShowAttendTell(ReportModel):
    """Show, Attend and Tell with soft attention. Defaults: MicarVLMoE's, a decoder of 11,781,608 parameters at 1,000 words."""

    named: ClassVar[str] = "SAT"
    network: ClassVar[str] = "recstudy.models.networks.lstm_captioners:ShowAttendTellNetwork"

    family: Literal["show_attend_tell"] = "show_attend_tell"
    width: int = Field(512, ge=1, description="dimensions of a word and of the LSTM's state")
    attention: int = Field(512, ge=1, description="dimensions in which a state and a place are compared")
    dropout: float = Field(0.5, ge=0, lt=1, description="on the state that the words are read from")
    alpha_c: float = Field(
        1.0, ge=0, description="weight of the doubly stochastic penalty: over a caption each place is looked at once; 0 is off"
    )

    @property
    def grid(self) -> int:
        return 14


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
    network: ClassVar[str] = "recstudy.models.networks.transformer_captioners:CaptionTransformerNetwork"

    family: Literal["caption_transformer"] = "caption_transformer"


@FAMILIES.add("r2gen")
class R2Gen(EncoderDecoderModel):
    """R2Gen. Defaults: its published code, 36,218,344 parameters at 1,000 words without the backbone."""

    named: ClassVar[str] = "R2Gen"
    network: ClassVar[str] = "recstudy.models.networks.transformer_captioners:R2GenNetwork"

    family: Literal["r2gen"] = "r2gen"
    ffn_width: int = Field(512, ge=1, description="hidden width of the feed-forward networks")
    image_dropout: float = Field(0.5, ge=0, lt=1, description="on the projected features of the places")
    slots: int = Field(3, ge=1, le=64, description="rows of the relational memory")
