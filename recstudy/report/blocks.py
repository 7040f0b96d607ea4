"""Blocks: data sets, tasks, environments or folds, within which variants are compared.

A comparison never crosses blocks. A study names the settings that are blocks (`Study(blocks=[...])`), and
data sets are blocks without this. Over several blocks, a page makes three statements, each with its own
error: the difference in each block, the average over these blocks (the spread of seeds alone), and other
blocks of this kind (a t test over the blocks' differences).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from recstudy.evidence import ALPHA, Estimate, Fit, at_level, interaction_p
from recstudy.records import Json
from recstudy.records.study_schema import VariantRecord
from recstudy.report.names import axis_title, level_of, level_words, plural, value_text, varied_axes

Block = tuple[tuple[str, str], ...]  # setting that is a block -> its level
DATA_SETS = ("data", "dataset", "data_set")
DIFFER = 0.1  # p value of the interaction below which an average over blocks is no answer
MIN_BLOCKS = 3  # of a statement on other blocks


def blocks_of(
    variants: Sequence[VariantRecord], configs: Sequence[Json], names: Iterable[str]
) -> list[Block]:
    """Return the block of each variant: its data set and its levels of the settings that are blocks.

    Settings with one level in the study are left out.

    Args:
        variants: The variants of the plan.
        configs: The config fields of each variant by dotted path.
        names: The settings that the study names as blocks.
    """
    pairs = list(zip(variants, configs, strict=True))
    columns = {"data": [variant.data for variant in variants]}
    columns |= {name: [value_text(level_of(*pair, name)) for pair in pairs] for name in names}
    varied = {name: levels for name, levels in columns.items() if len(set(levels)) > 1}
    return [tuple((name, levels[index]) for name, levels in varied.items()) for index in range(len(pairs))]


def methods_of(variants: Sequence[VariantRecord], blocks: Sequence[Block]) -> list[str]:
    """Return each variant in words without its block. A method has the same words in each block."""
    varied, methods = varied_axes(variants), []
    for variant, block in zip(variants, blocks, strict=True):
        axes_of_method = [axis for axis in varied if axis in variant.levels and axis not in dict(block)]
        words = ", ".join(level_words(axis, variant.levels[axis]) for axis in axes_of_method)
        methods.append(words if block and words else variant.label)
    return methods


def block_words(block: Block) -> str:
    """Return a block in words, such as `MNIST, fold 2`."""
    words = (level if name in DATA_SETS else f"{axis_title(name)} {level}" for name, level in block)
    return ", ".join(words)


def scope(blocks: Sequence[Block]) -> str:
    """Return `these 4 data sets`, the words that limit an average over blocks."""
    names = [name for name, _ in blocks[0]]
    noun = axis_title(names[0]) if len(names) == 1 else "block"
    if {*names} <= {*DATA_SETS}:
        noun = "data set"
    return f"these {plural(len(blocks), noun)}"


def differ(estimates: Sequence[Estimate]) -> bool:
    """Return whether the differences in the blocks differ, so that their average is no answer.

    They do if the interaction is significant, or if two blocks have opposite significant signs (Bonferroni).
    """
    intervals = [at_level(estimate, 1 - ALPHA / len(estimates)).interval for estimate in estimates]
    signs = {low > 0 for low, high in filter(None, intervals) if low > 0 or high < 0}
    p = interaction_p(estimates)
    return len(signs) > 1 or (p is not None and p < DIFFER)


def other_blocks(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean over other blocks of this kind: t with k - 1 degrees of freedom over k differences."""
    values = [estimate.value for estimate in estimates if estimate.value is not None]
    if len(values) < max(MIN_BLOCKS, len(estimates)):
        return Estimate(None)
    seeds = min(estimate.n for estimate in estimates)
    return replace(Fit({0: values}).estimate(0), n=seeds, blocks=len(values))
