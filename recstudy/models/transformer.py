"""A transformer whose layers have weights of their own, the baseline of HRM and TRM: what can be set.

The layers stand in `networks/transformer.py`, what goes in and out in `networks/sequence.py`.
"""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES
from recstudy.models.sequence import SequenceModel


@FAMILIES.add("transformer")
class Transformer(SequenceModel):
    """One pass through `layers` layers of HRM's kind (27 M parameters with the defaults): what the papers call direct prediction.

    With several supervision steps it is the transformer in HRM's outer loop, which ARC Prize compared HRM with.
    """

    network: ClassVar[str] = "recstudy.models.networks.sequence:TransformerCore"

    family: Literal["transformer"] = "transformer"
    layers: int = Field(8, ge=1, le=48, description="layers, each with its own weights")
