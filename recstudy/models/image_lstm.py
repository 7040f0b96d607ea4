"""The captioning baseline of 000, a backbone and an LSTM: what can be set. The equations stand in `networks/image_lstm.py`."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from recstudy.config import FAMILIES, Shape
from recstudy.models.backbone import CaptionModel

if TYPE_CHECKING:
    from torch import nn


@FAMILIES.add("image_lstm")
class ImageLSTM(CaptionModel):
    """ResNet-18 + LSTM. Defaults: 2,630,404 trained parameters with the byte vocabulary of 260."""

    family: Literal["image_lstm"] = "image_lstm"
    width: int = Field(512, ge=1, description="dimensions of a token and of the LSTM's state")
    image: Literal["merge", "inject"] = Field(
        "merge", description="the image is added to every token (merge), or is the LSTM's first state (inject)"
    )

    @property
    def title(self) -> str:
        return f"LSTM ({self.vision})"

    def counts(self, shape: Shape, classes: int) -> dict[str, int]:
        """Trained parameters by part; `core` is the LSTM."""
        states = 1 if self.image == "merge" else 2
        return {
            "core": 8 * self.width**2 + 8 * self.width,
            "embedding": classes * self.width,
            "image": states * (self.features + 1) * self.width,
            "head": classes * (self.width + 1),
            **super().counts(shape, classes),
        }

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        from recstudy.models.networks.image_lstm import ImageLSTMNetwork

        return ImageLSTMNetwork(self, classes)
