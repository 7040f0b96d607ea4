"""A backbone and an LSTM, the captioning baseline of ImageHRM/ImageTRM: what can be set; equations: `networks/image_lstm.py`."""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES
from recstudy.models.backbone import CaptionModel


@FAMILIES.add("image_lstm")
class ImageLSTM(CaptionModel):
    """ResNet-18 + LSTM. Defaults: 2,630,404 trained parameters with the byte vocabulary of 260."""

    network: ClassVar[str] = "recstudy.models.networks.image_lstm:ImageLSTMNetwork"

    family: Literal["image_lstm"] = "image_lstm"
    width: int = Field(512, ge=1, description="dimensions of a token and of the LSTM's state")
    image: Literal["merge", "inject"] = Field(
        "merge", description="the image is added to every token (merge), or is the LSTM's first state (inject)"
    )

    @property
    def title(self) -> str:
        return f"LSTM ({self.vision})"
