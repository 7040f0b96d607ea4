"""HRM, the hierarchical reasoning model, and its chest X-ray form (HRM-ChestXRay): what can be set.

The recursion stands in `networks/hrm.py`, what goes in and out in `networks/sequence.py`.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES, Shape
from recstudy.config.fields import Tunable
from recstudy.models.sequence import SequenceModel, hidden_width


@FAMILIES.add("hrm")
class HRM(SequenceModel):
    """HRM v1. Defaults: the published net (27,262,976 parameters of the core) on 8-bit pixels (27,526,146)."""

    network: ClassVar[str] = "recstudy.models.networks.hrm:HRMCore"

    family: Literal["hrm"] = "hrm"
    high_layers: Annotated[int, Tunable(1, 6)] = Field(4, ge=1, le=48, description="layers of f_H")
    low_layers: Annotated[int, Tunable(1, 6)] = Field(4, ge=1, le=48, description="layers of f_L")
    high_cycles: Annotated[int, Tunable(1, 4)] = Field(2, ge=1, le=64, description="N: H-updates a segment")
    low_cycles: Annotated[int, Tunable(1, 4)] = Field(2, ge=1, le=64, description="T: L-updates before each H-update")
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "one_step", description="through the last L- and the last H-update (the paper); the last high cycle; every update"
    )

    @property
    def bootstraps(self) -> bool:
        return True

    def counts(self, shape: Shape, classes: int) -> dict[str, int]:
        """Return parameters by part, as the arithmetic of HRM-ChestXRay asks for them; `core` is both modules."""
        length = self.length(shape)
        mixing = 3 * length * hidden_width(length, self.expansion, self.multiple) if self.mixing == "mlp" else 4 * self.width**2
        layer = mixing + 3 * self.width * self.hidden_width
        inputs = {"pixel": self.vocabulary, "patch": shape[0] * self.patch**2, "cell": classes}[self.tokens]
        outputs = self.vocabulary if self.head == "single_token" else 1 if self.puzzle_emb == "pathology_query" else classes
        outputs = classes if self.tokens == "cell" else outputs
        return {
            "core": (self.high_layers + self.low_layers) * layer,
            "embedding": inputs * self.width,
            "head": outputs * self.width,
            "q_head": 2 * self.width + 2,
            "puzzle": self.puzzles(classes) * self.width,
            "positions": length * self.width if self.positions == "learned" else 0,
        }


def parameter_growth(old: HRM, new: HRM, old_shape: Shape, new_shape: Shape) -> dict[str, float]:
    """Count the quantities of `001_parameter_arithmetic` (HRM-ChestXRay, section 3): parameters, tokens, growth in percent.

    The growth is over the old size in whole millions, as the paper has it (27 M). The puzzle table is left out of every
    count, as there (HRM-ChestXRay-5).
    """
    before, after = old.counts(old_shape, old.vocabulary), new.counts(new_shape, new.vocabulary)
    size = sum(before.values()) - before["puzzle"]
    more = after["embedding"] + after["head"] - before["embedding"] - before["head"]
    length = new.length(new_shape) - new.prefix
    return {
        "hidden_size": new.width,
        "vocab_old": old.vocabulary,
        "vocab_new": new.vocabulary,
        "seq_len_old": old.length(old_shape) - old.prefix,
        "seq_len_new": length,
        "seq_len_patch": length // 2,
        "embed_old": before["embedding"],
        "embed_new": after["embedding"],
        "lm_head_old": before["head"],
        "lm_head_new": after["head"],
        "total_increase": more,
        "total_increase_exact": more,
        "growth_percent": 100 * more / (round(size / 1e6) * 1e6),
        "params_model": size,
    }
