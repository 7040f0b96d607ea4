"""Settings of HRM and of its form for chest X-rays (HRM-ChestXRay), whose network is in `networks/hrm.py`."""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.recursive.config.parts import FAMILIES, Shape
from recstudy.recursive.models.fields import Cycles, GradientMode, LevelLayers
from recstudy.recursive.models.sequence import SequenceModel, hidden_width


@FAMILIES.add("hrm")
class HRM(SequenceModel):
    """HRM v1. Defaults: the published network, on 8-bit pixels.

    The core has 27,262,976 parameters, and the whole network has 27,526,146.
    """

    network: ClassVar[str] = "recstudy.recursive.models.networks.hrm:HRMCore"
    bootstraps: ClassVar[bool] = True

    family: Literal["hrm"] = "hrm"
    high_layers: LevelLayers = Field(4, description="layers of f_H")
    low_layers: LevelLayers = Field(4, description="layers of f_L")
    high_cycles: Cycles = Field(2, description="N: H-updates per segment")
    low_cycles: Cycles = Field(2, description="T: L-updates before each H-update")
    gradient: GradientMode = Field(
        "one_step",
        description=(
            "updates with gradient: the last L- and the last H-update (paper); those of the last high cycle;"
            " or all"
        ),
    )

    def counts(self, shape: Shape, classes: int) -> dict[str, int]:
        """Return the number of parameters of each part; `core` is both modules (HRM-ChestXRay, section 3)."""
        length, inner = self.length(shape), self.width // self.heads * self.heads
        if self.mixing == "mlp":
            mixing = 3 * length * hidden_width(length, self.expansion, self.multiple)  # SwiGLU: u, g, down
        else:
            mixing = 4 * self.width * inner  # q, k, v, out
        layer = mixing + 3 * self.width * self.hidden_width
        inputs = {"pixel": self.vocabulary, "patch": shape[0] * self.patch**2, "cell": classes}[self.tokens]
        if self.tokens == "cell":
            outputs = classes
        elif self.head == "single_token":
            outputs = self.vocabulary
        else:
            outputs = 1 if self.puzzle_emb == "pathology_query" else classes
        return {
            "core": (self.high_layers + self.low_layers) * layer,
            "embedding": inputs * self.width,
            "head": outputs * self.width,
            "q_head": 2 * self.width + 2,
            "puzzle": self.puzzles(classes) * self.width,
            "positions": length * self.width if self.positions == "learned" else 0,
        }


def parameter_growth(old: HRM, new: HRM, old_shape: Shape, new_shape: Shape) -> dict[str, float]:
    """Return the parameters, tokens and growth of `001_parameter_arithmetic` (HRM-ChestXRay, section 3).

    Args:
        old: The original model.
        new: The enlarged model.
        old_shape: The image shape of the old model.
        new_shape: The image shape of the new model.
    """
    # As in the paper: the growth in percent refers to the old size in whole millions (27 M), and the puzzle
    # table is left out of every count (HRM-ChestXRay-5).

    old_counts, new_counts = old.counts(old_shape, old.vocabulary), new.counts(new_shape, new.vocabulary)
    size = sum(old_counts.values()) - old_counts["puzzle"]
    increase = new_counts["embedding"] + new_counts["head"] - old_counts["embedding"] - old_counts["head"]
    length = new.length(new_shape) - new.prefix
    return {
        "hidden_size": new.width,
        "vocab_old": old.vocabulary,
        "vocab_new": new.vocabulary,
        "seq_len_old": old.length(old_shape) - old.prefix,
        "seq_len_new": length,
        "seq_len_patch": length // 2,
        "embed_old": old_counts["embedding"],
        "embed_new": new_counts["embedding"],
        "lm_head_old": old_counts["head"],
        "lm_head_new": new_counts["head"],
        "total_increase": increase,
        "total_increase_exact": increase,
        "growth_percent": 100 * increase / (round(size / 1e6) * 1e6),
        "params_model": size,
    }
