"""Settings of the captioners with an LSTM: a baseline of ImageHRM and ImageTRM, and two of MicarVLMoE.

Their networks are in `networks/lstm_captioners.py`.
"""

from typing import ClassVar, Literal

from recstudy.recursive.config.parts import FAMILIES, Count, Rate, Weight
from recstudy.recursive.models.caption import CaptionModel, ReportModel


@FAMILIES.add("image_lstm")
class ImageLSTM(CaptionModel):
    """ResNet-18 + LSTM. Defaults: 2,630,404 trained parameters with the byte vocabulary of 260."""

    network: ClassVar = "recstudy.recursive.models.networks.lstm_captioners:ImageLSTMNetwork"

    family: Literal["image_lstm"] = "image_lstm"
    width: Count = 512
    """dimensions of a token and of the LSTM's state"""
    image: Literal["merge", "inject"] = "merge"
    """input of the image: added to every token (merge), or the LSTM's initial state (inject)"""

    @property
    def title(self) -> str:
        return f"LSTM ({self.vision})"


@FAMILIES.add("show_tell")
class ShowTell(ReportModel):
    """Show and Tell. Defaults: MicarVLMoE's, with 4,175,336 decoder parameters for 1,000 words."""

    paper_name: ClassVar = "ST"
    network: ClassVar = "recstudy.recursive.models.networks.lstm_captioners:ShowTellNetwork"

    family: Literal["show_tell"] = "show_tell"
    width: Count = 512
    """dimensions of a word and of the LSTM's state"""


@FAMILIES.add("show_attend_tell")
class ShowAttendTell(ReportModel):
    """Show, Attend and Tell with soft attention. Defaults: MicarVLMoE's, with 11,781,608 decoder parameters.

    The count is for 1,000 words.
    """

    paper_name: ClassVar = "SAT"
    network: ClassVar = "recstudy.recursive.models.networks.lstm_captioners:ShowAttendTellNetwork"
    grid: ClassVar = 14

    family: Literal["show_attend_tell"] = "show_attend_tell"
    width: Count = 512
    """dimensions of a word and of the LSTM's state"""
    attention: Count = 512
    """hidden width of the additive attention"""
    dropout: Rate = 0.5
    """dropout rate of the state that predicts the word"""
    alpha_c: Weight = 1.0
    """weight of the doubly stochastic penalty, with which the attention to each position sums to 1 over a
    caption; 0 turns it off"""
