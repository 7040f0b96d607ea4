"""Show, Attend and Tell, a captioning baseline of MicarVLMoE: what can be set; equations: `networks/show_attend_tell.py`."""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES
from recstudy.models.backbone import ReportModel


@FAMILIES.add("show_attend_tell")
class ShowAttendTell(ReportModel):
    """Show, Attend and Tell with soft attention. Defaults: MicarVLMoE's, a decoder of 11,781,608 parameters at 1,000 words."""

    named: ClassVar[str] = "SAT"
    network: ClassVar[str] = "recstudy.models.networks.show_attend_tell:ShowAttendTellNetwork"

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
