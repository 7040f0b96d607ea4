"""R2Gen, a report generator that MicarVLMoE compares with: what can be set. The network stands in `networks/r2gen.py`."""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES
from recstudy.models.caption_transformer import EncoderDecoderModel


@FAMILIES.add("r2gen")
class R2Gen(EncoderDecoderModel):
    """R2Gen. Defaults: its published code, 36,218,344 parameters at 1,000 words without the backbone."""

    named: ClassVar[str] = "R2Gen"
    network: ClassVar[str] = "recstudy.models.networks.r2gen:R2GenNetwork"

    family: Literal["r2gen"] = "r2gen"
    ffn_width: int = Field(512, ge=1, description="hidden width of the feed-forward networks")
    image_dropout: float = Field(0.5, ge=0, lt=1, description="on the projected features of the places")
    slots: int = Field(3, ge=1, le=64, description="rows of the relational memory")
