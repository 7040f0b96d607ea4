"""Show and Tell, a captioning baseline of 003: what can be set. The equations stand in `networks/show_tell.py`."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES, Shape
from recstudy.models.backbone import ReportModel

if TYPE_CHECKING:
    from torch import nn


@FAMILIES.add("show_tell")
class ShowTell(ReportModel):
    """Show and Tell. Defaults: 003's, a decoder of 4,175,336 parameters at 1,000 words."""

    named: ClassVar[str] = "ST"

    family: Literal["show_tell"] = "show_tell"
    width: int = Field(512, ge=1, description="dimensions of a word and of the LSTM's state")

    def counts(self, shape: Shape, classes: int) -> dict[str, int]:
        """Trained parameters by part; `core` is the LSTM."""
        return {
            "core": 8 * self.width**2 + 8 * self.width,
            "embedding": classes * self.width,
            "image": (self.features + 1) * self.width,
            "head": classes * (self.width + 1),
            **super().counts(shape, classes),
        }

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        from recstudy.models.networks.show_tell import ShowTellNetwork

        return ShowTellNetwork(self, classes)
