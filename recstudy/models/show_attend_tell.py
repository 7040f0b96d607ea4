"""Show, Attend and Tell, a captioning baseline of 003: what can be set. The equations stand in `networks/show_attend_tell.py`."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES, Shape
from recstudy.models.backbone import ReportModel

if TYPE_CHECKING:
    from torch import nn


@FAMILIES.add("show_attend_tell")
class ShowAttendTell(ReportModel):
    """Show, Attend and Tell with soft attention. Defaults: 003's, a decoder of 11,781,608 parameters at 1,000 words."""

    named: ClassVar[str] = "SAT"

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

    def counts(self, shape: Shape, classes: int) -> dict[str, int]:
        """Trained parameters by part; `core` is the LSTM, `start` its first state, `gate` f_beta."""
        seen, width = self.features, self.width
        return {
            "core": 4 * width * (2 * width + seen + 2),
            "attention": self.attention * (seen + 1 + width + 1 + 1),
            "start": 2 * (seen + 1) * width,
            "gate": seen * (width + 1),
            "embedding": classes * width,
            "head": classes * (width + 1),
            **super().counts(shape, classes),
        }

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        from recstudy.models.networks.show_attend_tell import ShowAttendTellNetwork

        return ShowAttendTellNetwork(self, classes)
