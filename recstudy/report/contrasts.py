"""The contrasts of a claim: the variants that it compares, and the weight of each metric of each variant.

`Comparison.check` refuses claims whose difference would be one of something else.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, product
from math import inf
from typing import Any

from recstudy.base.errors import ConfigError, choices
from recstudy.base.values import canonical
from recstudy.records import Json
from recstudy.records.study_schema import VariantRecord
from recstudy.report.blocks import MIN_BLOCKS, Block, block_words
from recstudy.report.claims import DEPTH, METRIC, TUNED, Claim, Selector
from recstudy.report.names import at_depth, axis_title, is_selected, level_of, metric, value_text

Weights = dict[int, dict[str, float]]  # variant -> metric -> its weight in a contrast
Contrasts = list[tuple[Block, Weights]]
Tune = Callable[[Sequence[int]], int]  # returns the variant that is best on the selection split
Selected = tuple[float, str, list[int]]  # sign, metric and variants of a selector
ROUNDING = 1e-12  # rounding error of weights that cancel


@dataclass(frozen=True)
class Comparison:
    """The contrasts that a claim is about, among the variants of a plan.

    Args:
        claim: A claim with its metric.
        variants: The variants of the plan.
        configs: The config fields of each variant by dotted path.
        blocks: The block of each variant. By default all variants are in one block.

    Raises:
        ConfigError: A selector matches no variant or one that leaks, both sides are the same, the sides share
            no block, or the metric needs no test; or the claim has `each`, and there is one contrast.
    """

    claim: Claim
    variants: Sequence[VariantRecord]
    configs: Sequence[Json]
    blocks: Sequence[Block] = ()

    @property
    def compared(self) -> list[int]:
        """The variants of the contrasts, those among which a setting is tuned included."""
        contrasts = replace(self, claim=replace(self.claim, each=False)).contrasts()
        return list(dict.fromkeys(index for _, weights in contrasts for index in weights))

    def check(self) -> None:
        """Refuse a claim that no plan should have.

        Raises:
            ConfigError: A margin covers all values of the metric, the sides share a variant, or they have
                different levels of a further setting, so that the difference contains one of this setting.
        """
        self.contrasts()
        claim, selected = self.claim, self.selected
        for _, name, _ in selected:
            definition = metric(name.partition("@")[0])
            low, high = definition.bounds or (0.0, inf)
            for size in (claim.margin, claim.within or 0.0):
                if size >= high - low:
                    raise ConfigError(
                        f"{claim.subject} has a margin of {value_text(size)}, but {definition.heading} is"
                        f" between {low:g} and {high:g}. Write {(high - low) / 100:g} for a hundredth of it"
                    )
        if len(selected) % 2:
            return
        for (_, name, ours), (_, other_name, theirs) in zip(selected[::2], selected[1::2], strict=True):
            shared = [self.variants[index].label for index in ours if index in theirs]
            if name == other_name and shared:
                raise ConfigError(
                    f"{claim.subject} has {choices(shared, 3)} on both sides. Name levels that differ"
                )
        if not claim.each:
            self._check_settings()

    def _check_settings(self) -> None:
        """Refuse sides with different levels of a setting that the claim does not name."""
        claim, selected = self.claim, self.selected
        of_blocks = {name for block in self.blocks for name, _ in block}
        pairs = zip(claim.selectors[::2], claim.selectors[1::2], selected[::2], selected[1::2], strict=False)
        for (_, higher), (_, lower), (_, _, ours), (_, _, theirs) in pairs:
            names = {*higher, *lower} - {DEPTH, METRIC, TUNED}
            settings = [
                {**variant.levels, **{name: level_of(variant, config, name) for name in names}}
                for variant, config in zip(self.variants, self.configs, strict=True)
            ]
            exempt = {*of_blocks, *(higher.keys() & lower.keys())}
            for axis in dict.fromkeys(chain(*(self.variants[index].levels for index in (*ours, *theirs)))):
                levels = [
                    [self.variants[index].levels.get(axis) for index in side] for side in (ours, theirs)
                ]
                texts = [
                    sorted({value_text(level) for level in side if level is not None}) for side in levels
                ]
                is_named = axis in exempt or TUNED in {*higher, *lower} or "variant" in names
                if (
                    texts[0] != texts[1]
                    and all(texts)
                    and not is_named
                    and not depends(axis, names, settings)
                ):
                    raise ConfigError(
                        f"{claim.subject} is about {axis_title(axis)} {choices(texts[0])} on one side and"
                        f" {axis_title(axis)} {choices(texts[1])} on the other, so its difference would"
                        f" contain that of {axis_title(axis)}. Name {axis} on both sides"
                    )

    def contrasts(self, tune: Tune | None = None) -> Contrasts:
        """Return every contrast with its block: one for each block, or for each pair with `each`.

        All variants that a selector matches in a block have the same weight. Runs that are planned under two
        labels count once.

        Args:
            tune: Chooses the variant that a tuned selector means. Without results, all matching variants
                count.
        """
        claim = self.claim
        contrasts: Contrasts = []
        for block in self._shared_blocks():
            parts = []
            for (sign, name, indices), (_, selector) in zip(self.selected, claim.selectors, strict=True):
                in_block = [index for index in indices if block is None or self.blocks[index] == block]
                parts.append((sign, name, [tune(in_block)] if tune and TUNED in selector else in_block))
            pairs = _pairs(claim, parts) if claim.each else [parts]
            contrasts += [(block or (), _weights(claim, pair)) for pair in pairs]
        if claim.each and len(contrasts) < 2:
            raise ConfigError(
                f"{claim.subject} has each=True, but each side matches one variant: leave out each"
            )
        if claim.over == "blocks" and (claim.each or len(contrasts) < MIN_BLOCKS):
            raise ConfigError(
                f"{claim.subject} is over blocks, which needs at least {MIN_BLOCKS} blocks and no each, but"
                f" there are {len(contrasts)}"
            )
        return contrasts

    def _shared_blocks(self) -> Sequence[Block | None]:
        """Return the blocks that all selectors match; None stands for all variants without regard to blocks.

        Raises:
            ConfigError: Two selectors that are compared match no common block.
        """
        if not any(self.blocks):
            return [None]
        matches = [{self.blocks[index] for index in indices} for _, _, indices in self.selected]
        shared = set.intersection(*matches)
        if shared:
            return [block for block in dict.fromkeys(self.blocks) if block in shared]
        # Two interactions may be of different blocks, because each is a difference within its own.
        if len(matches) == 4 and matches[0] & matches[1] and matches[2] & matches[3]:
            return [None]
        words = " with ".join(" and ".join(sorted(map(block_words, names))) for names in matches)
        raise ConfigError(
            f"{self.claim.subject} compares {words}: a comparison never crosses blocks. Name the same block"
            " on both sides"
        )

    @cached_property
    def selected(self) -> list[Selected]:
        """The variants of each selector of `higher`, then of `lower`."""
        selected: list[Selected] = []
        first: dict[str, int] = {}  # settings -> the first variant that has them
        for sign, selector in self.claim.selectors:
            name, matches = selector.get(METRIC, self.claim.metric), self._matching_variants(selector)
            if metric(name).computed:
                raise ConfigError(
                    f"{self.claim.subject} is about {name!r}, which follows from the config and needs no test"
                )
            # Runs that are planned under two labels have equal settings and count once.
            keys = (first.setdefault(canonical(self.configs[index]), index) for index in matches)
            measured = at_depth(name, selector[DEPTH]) if DEPTH in selector else name
            selected.append((sign, measured, list(dict.fromkeys(keys))))
        return selected

    def _matching_variants(self, selector: Selector) -> list[int]:
        """Return the variants that a selector of the claim matches.

        Raises:
            ConfigError: No variant matches, or one that does cannot be compared.
        """
        pairs = zip(self.variants, self.configs, strict=True)
        levels = [partial(level_of, variant, config) for variant, config in pairs]
        settings = {name: level for name, level in selector.items() if name not in (DEPTH, METRIC, TUNED)}
        matches = [index for index, level in enumerate(levels) if is_selected(settings, level)]
        subject = self.claim.subject
        if not matches:
            available = []
            for name in settings:
                available.append(
                    choices(dict.fromkeys(f"{name}={value_text(level(name))}" for level in levels))
                )
            raise ConfigError(
                f"{subject} names {value_text(selector)}, which no variant has: there are"
                f" {'; '.join(available)}"
            )
        for index in matches:
            label, deepest = self.variants[index].label, self.configs[index].get("train.evaluation_depths")
            if self.variants[index].leaks:
                raise ConfigError(f"{subject} is about {label!r}, which leaks: choose other variants")
            if DEPTH in selector and deepest is not None and selector[DEPTH] not in range(1, deepest + 1):
                raise ConfigError(
                    f"{subject} names {DEPTH}={selector[DEPTH]}, but {label!r} is tested after 1 to"
                    f" {deepest} steps: set train.evaluation_depths"
                )
        return matches


def depends(axis: str, other_axes: Iterable[str], settings: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the levels of other axes decide the level of this one, as a model decides its size."""
    levels = [([run.get(name) for name in other_axes], run.get(axis)) for run in settings]
    return len({canonical(key) for key, _ in levels}) == len({canonical([*pair]) for pair in levels})


def average(contrasts: Sequence[Weights]) -> Weights:
    """Return the mean of several contrasts."""
    result: Weights = defaultdict(lambda: defaultdict(float))
    for contrast_weights in contrasts:
        for index, terms in contrast_weights.items():
            for name, weight in terms.items():
                result[index][name] += weight / len(contrasts)
    return result


def _pairs(claim: Claim, selected: list[Selected]) -> list[list[Selected]]:
    """Return each variant of `higher` with each of `lower`."""
    options: list[list[list[Selected]]] = []
    for side in claim.sides:
        if isinstance(side, dict):
            (sign, name, indices), *selected = selected
            options.append([[(sign, name, [index])] for index in indices])
        else:  # an interaction stays a difference of means
            options.append([selected[:2]])
            selected = selected[2:]
    return [[*chain(*pair)] for pair in product(*options)]


def _weights(claim: Claim, selected: Iterable[Selected]) -> Weights:
    sums: Weights = defaultdict(lambda: defaultdict(float))
    for sign, name, indices in selected:
        for index in indices:
            sums[index][name] += sign / len(indices)
    weights: Weights = {}
    for index, terms in sums.items():
        nonzero = {name: weight for name, weight in terms.items() if abs(weight) > ROUNDING}
        weights |= {index: nonzero} if nonzero else {}
    if not weights:
        raise ConfigError(f"{claim.subject} compares runs with themselves: {claim.contrast}")
    return weights
