"""The two-stage CNN, the baseline of HRM-Small-Images: what can be set. The network stands in `networks/cnn.py`."""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES, DataConfig, ModelConfig


@FAMILIES.add("cnn")
class CNN(ModelConfig):
    """Two stages of two convolutions each (261,824 parameters on CIFAR-10)."""

    network: ClassVar[str] = "recstudy.models.networks.cnn:CNNNetwork"
    revision: ClassVar[int] = 2  # LeCun-normal initial weights; torch's before

    family: Literal["cnn"] = "cnn"
    width: int = Field(64, ge=1, description="channels of the first stage; the second has twice as many")

    @property
    def batch_norm(self) -> bool:
        return True

    @property
    def title(self) -> str:
        return "CNN two-stage"

    def check(self, data: DataConfig) -> None:
        height, width = data.shape[1:]
        if min(height, width) < 4:
            raise ValueError(f"the two-stage CNN needs images of 4x4 pixels or more, but got {height}x{width}")
