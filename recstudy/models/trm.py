"""TRM, the tiny recursive model: what can be set.

The recursion stands in `networks/trm.py`, what goes in and out in `networks/sequence.py`.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES
from recstudy.config.fields import Tunable
from recstudy.models.sequence import SequenceModel


@FAMILIES.add("trm")
class TRM(SequenceModel):
    """TRM. Defaults: the published net for Sudoku (6,815,744 parameters of the core with attention), on 8-bit pixels."""

    network: ClassVar[str] = "recstudy.models.networks.trm:TRMCore"

    family: Literal["trm"] = "trm"
    prefix: int = Field(16, ge=1, le=64, description="positions in front of the image, of which the puzzle embedding fills one")
    layers: Annotated[int, Tunable(1, 4)] = Field(2, ge=1, le=48, description="layers of the one net")
    cycles: Annotated[int, Tunable(1, 4)] = Field(3, ge=1, le=64, description="T: cycles a segment")
    latent_steps: Annotated[int, Tunable(1, 8)] = Field(
        6, ge=1, le=64, description="n: z-updates a cycle; 6 for Sudoku, 4 for ARC and mazes"
    )
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "last_cycle", description="through the last cycle (the code); every update; the last z- and the last y-update"
    )

    networks: Literal[1, 2] = Field(1, description="one net for z and y, or one each, as HRM has (TRM, Table 1)")
    states: Literal["answer and latent", "single", "multi-scale"] = Field(
        "answer and latent",
        description="y and z; one state that is both; or y and a z of its own for each of the n updates (Table 2)",
    )
    act: Literal["halt only", "continue"] = Field(
        "halt only",
        description="what the halting head learns: whether the answer is right; also HRM's value of going on (Table 1)",
    )

    @property
    def bootstraps(self) -> bool:
        return self.act == "continue"

    @property
    def revised(self) -> int:
        """One more for `mlp`, whose norm after mixing ran over the width."""
        return self.revision + (self.mixing == "mlp")
