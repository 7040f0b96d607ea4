"""Show and Tell, a captioning baseline of MicarVLMoE: what can be set. The equations stand in `networks/show_tell.py`."""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES
from recstudy.models.backbone import ReportModel


@FAMILIES.add("show_tell")
class ShowTell(ReportModel):
    """Show and Tell. Defaults: MicarVLMoE's, a decoder of 4,175,336 parameters at 1,000 words."""

    named: ClassVar[str] = "ST"
    network: ClassVar[str] = "recstudy.models.networks.show_tell:ShowTellNetwork"

    family: Literal["show_tell"] = "show_tell"
    width: int = Field(512, ge=1, description="dimensions of a word and of the LSTM's state")
