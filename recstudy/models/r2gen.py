"""R2Gen, a report generator that 003 compares with: what can be set. The network stands in `networks/r2gen.py`."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES, Shape
from recstudy.models.caption_transformer import EncoderDecoderModel

if TYPE_CHECKING:
    from torch import nn


@FAMILIES.add("r2gen")
class R2Gen(EncoderDecoderModel):
    """R2Gen. Defaults: its published code, 36,218,344 parameters at 1,000 words without the backbone."""

    named: ClassVar[str] = "R2Gen"

    family: Literal["r2gen"] = "r2gen"
    ffn_width: int = Field(512, ge=1, description="hidden width of the feed-forward networks")
    image_dropout: float = Field(0.5, ge=0, lt=1, description="on the projected features of the places")
    slots: int = Field(3, ge=1, le=64, description="rows of the relational memory")

    def counts(self, shape: Shape, classes: int) -> dict[str, int]:
        """Trained parameters by part; `memory` is the relational memory, `norms` the memory-driven layer norms."""
        width = self.width
        square = width * (width + 1)
        return {
            "encoder": self.layers * (self.attention_params + self.ffn_params + 4 * width) + 2 * width,
            "decoder": self.layers * (2 * self.attention_params + self.ffn_params) + 2 * width,
            "norms": 3 * self.layers * 2 * (width + self.slots * width**2 + width + square),
            "memory": self.attention_params + 6 * square,
            **super().counts(shape, classes),
        }

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        from recstudy.models.networks.r2gen import R2GenNetwork

        return R2GenNetwork(self, classes)
