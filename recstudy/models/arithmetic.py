"""What another input does to HRM's size: the arithmetic of HRM-ChestXRay, section 3, from the counts of our own."""

from recstudy.config import Shape
from recstudy.models.hrm import HRM


def parameter_growth(old: HRM, new: HRM, old_shape: Shape, new_shape: Shape) -> dict[str, float]:
    """The quantities of `001_parameter_arithmetic`, counted: parameters, tokens, and the growth in percent.

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
