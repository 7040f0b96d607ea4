"""Settings of HRM and of its form for chest X-rays (HRM-ChestXRay), whose network is in `networks/hrm.py`."""

from typing import ClassVar, Literal

from recstudy.recursive.config.parts import FAMILIES, Cycles, GradientMode, LevelLayers, Shape
from recstudy.recursive.models.sequence import SequenceModel


@FAMILIES.add("hrm")
class HRM(SequenceModel):
    """HRM v1. Defaults: the published network, on 8-bit pixels.

    The core has 27,262,976 parameters, and the whole network has 27,526,146.
    """

    network: ClassVar = "recstudy.recursive.models.networks.hrm:HRMCore"
    bootstraps: ClassVar = True

    family: Literal["hrm"] = "hrm"
    high_layers: LevelLayers = 4
    """layers of f_H"""
    low_layers: LevelLayers = 4
    """layers of f_L"""
    high_cycles: Cycles = 2
    """N: H-updates per segment"""
    low_cycles: Cycles = 2
    """T: L-updates before each H-update"""
    gradient: GradientMode = "one_step"
    """updates with gradient: the last L- and the last H-update (paper); those of the last high cycle; or
    all"""


def parameter_growth(old: HRM, new: HRM, old_shape: Shape, new_shape: Shape) -> dict[str, float]:
    """Return the parameters, tokens and growth of `001_parameter_arithmetic` (HRM-ChestXRay, section 3).

    Args:
        old: The original model.
        new: The enlarged model.
        old_shape: The image shape of the old model.
        new_shape: The image shape of the new model.
    """
    # Each pixel is a token, and so is the answer: embedding and head have one row per token. The core has per
    # layer q, k, v and out, and the SwiGLU's u, g and down. As in the paper, the growth in percent refers to
    # the old size in whole millions (27 M), without a puzzle table (HRM-ChestXRay-5).
    old_table, new_table = old.vocabulary * old.width, new.vocabulary * new.width
    layer = 4 * old.width**2 + 3 * old.width * old.hidden_width
    size = (old.high_layers + old.low_layers) * layer + 2 * old_table + 2 * old.width + 2
    increase = 2 * (new_table - old_table)
    length = new.length(new_shape) - new.prefix
    return {
        "hidden_size": new.width,
        "vocab_old": old.vocabulary,
        "vocab_new": new.vocabulary,
        "seq_len_old": old.length(old_shape) - old.prefix,
        "seq_len_new": length,
        "seq_len_patch": length // 2,
        "embed_old": old_table,
        "embed_new": new_table,
        "lm_head_old": old_table,
        "lm_head_new": new_table,
        "total_increase": increase,
        "total_increase_exact": increase,
        "growth_percent": 100 * increase / (round(size / 1e6) * 1e6),
        "params_model": size,
    }
