"""The claims of a study: each is a sentence with a tested contrast between variants, fixed before the runs.

    Claim("ViTRM 4.4.1: more supervision hurts", lower={"supervision_steps": 16}, higher={"supervision_steps":
    1}, margin=0.5)

This claim says that accuracy at 16 supervision steps is at least half a point below accuracy at one step.

- `lower` and `higher` select variants like the `where` of a table. A list means any of its levels.
- A selector that matches several variants means their mean. With `each`, the claim must hold for each variant
  by itself ("the largest decline").
- Variants are compared within blocks, such as data sets. A claim over several blocks is about the average
  over these blocks; with `over="blocks"`, it is about other blocks of this kind.
- `eval.depth` in a selector means the metric after so many supervision steps at test, from the same weights.
- `metric` in a selector replaces the claim's metric.
- `tuned` names a setting. The selector then means the level that is best on the selection split.
- With `of`, the claim is about the metric itself ("the mean loss is at most 3.28, p < 0.01"):

    Claim("the loss is at most 3.28", of={"optimizer": "muon"}, at_most=3.28, alpha=0.01)

- An `Interaction` in place of a selector is a difference of two variants:

    Claim("the loop at training matters more than at test", lower=Interaction(of={"eval.depth": 4},
    over={"eval.depth": 1}),
          higher=Interaction(of={"model": "three loops"}, over={"model": "one loop"}))

The claims are the first part of a plan's report. report/registration.py records when each was first stated.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from math import inf
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from recstudy.base.errors import ConfigError, choices
from recstudy.base.explained import explained
from recstudy.base.values import canonical
from recstudy.evidence.seeds import MAX_ALPHA, MIN_ALPHA
from recstudy.records import Json
from recstudy.records.study_schema import VariantRecord
from recstudy.report.blocks import MIN_BLOCKS, Block, block_words
from recstudy.report.names import at_depth, axis_title, is_selected, level_of, metric, value_text
from recstudy.report.parts import PARTS, BesidePublished, OfMetric, OfVariants, Part

Selector = dict[str, Any]
Weights = dict[int, dict[str, float]]  # variant -> metric -> its weight in a contrast
Contrasts = list[tuple[Block, Weights]]
Tune = Callable[[Sequence[int]], int]  # returns the variant that is best on the selection split
# keys of a selector that choose the number, not the variant
DEPTH, METRIC, TUNED = "eval.depth", "metric", "tuned"
ROUNDING = 1e-12  # rounding error of weights that cancel
CHECKED = ConfigDict(extra="forbid")


@explained
@dataclass(frozen=True, config=CHECKED)
class Interaction:
    """The difference of the metric at `of` minus the metric at `over`."""

    of: Selector
    over: Selector


LevelWords = Callable[[str, Any], str]  # a setting's name and level -> words
Side = Annotated[Interaction | Selector, Field(union_mode="left_to_right")]


@explained
@dataclass(frozen=True, config=CHECKED)
class Claim:
    """A sentence that a study tests.

    Args:
        text: The sentence, with the section of its paper. Use quotation marks only for verbatim text.
        lower: The variants with the lower metric, whether lower is better or worse.
        higher: The variants with the higher metric. (Records of version 0.2 have `higher` and `margin`
            for `of` and `at_least`.)
        margin: The least difference that is claimed, in the unit of the metric.
        within: Claims equivalence instead of a direction: the two sides differ by less than this.
        metric: The metric of the difference. By default, the metric that all selectors name (the first of
            `higher` if they name several), else the score of the preset's runs.
        each: Whether the claim must hold for each variant of `lower` against each of `higher` (or for each
            of `of`), and not only for their means.
        over: `blocks` if the claim is about other blocks of this kind.
        of: The variants of a claim about the metric itself, in place of `lower` and `higher`.
        at_least: The metric of `of` is at least this value.
        at_most: The metric of `of` is at most this value.
        alpha: The level of the test, if it is stricter than that of the study. The test is two-sided, so 0.02
            is a one-sided p below 0.01.
    """

    text: str
    lower: Side | None = Field(default=None, kw_only=True)
    higher: Side | None = None
    margin: float = Field(default=0.0, ge=0)
    within: float | None = Field(default=None, gt=0)
    metric: str = ""
    each: bool = False
    over: Literal["seeds", "blocks"] = "seeds"
    of: Side | None = Field(default=None, kw_only=True)
    at_least: float | None = Field(default=None, kw_only=True)
    at_most: float | None = Field(default=None, kw_only=True)
    alpha: float | None = Field(default=None, ge=MIN_ALPHA, lt=MAX_ALPHA, kw_only=True)

    def __post_init__(self) -> None:
        bounds = [bound for bound in (self.at_least, self.at_most) if bound is not None]
        problem = ""
        if self.within is not None and (self.margin or bounds):
            problem = "has both within and a bound: give a bound for a direction, or within for equivalence"
        elif self.of is None and bounds:
            problem = "has at_least or at_most without of: give of={...}, or margin for a difference"
        elif self.of is None and self.higher is None:
            problem = "needs lower and higher, or of with at_least or at_most"
        elif self.of is not None and (len(self.sides) > 1 or self.margin):
            problem = "has of, which takes at_least, at_most or within, and no higher, lower or margin"
        elif self.of is not None and not bounds and self.within is None:
            problem = "needs at_least, at_most or within for its of"
        elif len(bounds) == 2 and bounds[0] >= bounds[1]:
            problem = f"needs an at_least below its at_most, but got {' and '.join(map(value_text, bounds))}"
        if problem:
            raise ConfigError(f"{_claim_name(self)} {problem}")
        if self.of is None and self.lower is None:  # as in version 0.2
            at_least = self.margin if self.within is None else None
            self.__dict__.update(of=self.higher, at_least=at_least, higher=None, margin=0.0, lacks_lower=True)
        metric_names = [selector.get(METRIC) for _, selector in self.selectors]
        if all(metric_names):  # then the score of the runs plays no part
            object.__setattr__(self, "metric", metric_names[0])

    @property
    def has_no_lower(self) -> bool:
        """Whether it was written as in version 0.2, with `higher` alone."""
        return "lacks_lower" in self.__dict__

    @property
    def sides(self) -> list[Side]:
        """`of`, or `higher` and `lower`."""
        return [side for side in (self.of, self.higher, self.lower) if side is not None]

    @property
    def selectors(self) -> tuple[tuple[float, Selector], ...]:
        """The selectors of the contrast `higher` (or `of`) minus `lower`, each with its sign."""
        signed: list[tuple[float, Selector]] = []
        # An interaction is a difference itself, so its second selector has the opposite sign.
        for sign, side in zip((1.0, -1.0), self.sides, strict=False):
            if isinstance(side, Interaction):
                signed += [(sign, side.of), (-sign, side.over)]
            else:
                signed.append((sign, side))
        return tuple(signed)

    def with_labels(self, label_of: Callable[[str], str]) -> Self:
        """Return the claim with the labels that variants have on pages."""
        if not any("variant" in selector for _, selector in self.selectors):
            return self

        def renamed(side: Side | None) -> Side | None:
            if isinstance(side, Interaction):
                return Interaction(of=selector(side.of), over=selector(side.over))
            return selector(side) if side else side

        def selector(levels: Selector) -> Selector:
            names = levels.get("variant", ())
            labels = list(map(label_of, names)) if isinstance(names, list | tuple) else label_of(names)
            return levels | {"variant": labels} if names else levels

        return replace(self, of=renamed(self.of), higher=renamed(self.higher), lower=renamed(self.lower))

    @property
    def contrast(self) -> str:
        """The contrast with its margin: `supervision steps=1 minus supervision steps=16: at least 0.5`."""
        return self.words(lambda name, level: f"{axis_title(name)}={value_text(level)}")

    def words(self, level_words: LevelWords) -> str:
        """Return the contrast with its margin in words.

        Args:
            level_words: Returns a setting in words, or an empty string to leave the setting out.
        """
        sides = " minus ".join(_words(side, level_words) for side in self.sides)
        return f"{'each of ' * self.each}{sides}: {self.margin_words}"

    def side_words(self, level_words: LevelWords) -> tuple[tuple[str, str], ...]:
        """Return the metric and the settings in words of `higher` and `lower`.

        The result is empty if a side is an interaction, or if there is one side.
        """
        sides = [side for side in self.sides if isinstance(side, dict)]
        if len(sides) < 2:
            return ()
        words = []
        for side in sides:
            settings = {name: level for name, level in side.items() if name != METRIC}
            words.append((side.get(METRIC, self.metric), _words(settings, level_words, every="")))
        return tuple(words)

    @property
    def margin_words(self) -> str:
        """The claimed size of the contrast: `at least 0.5`."""
        if self.within is not None:
            return f"less than {value_text(self.within)} either way"
        low, high = self.bounds
        words = [f"at least {value_text(low)}" if low else "above 0"] if low is not None else []
        words += [] if high is None else [f"at most {value_text(high)}"]
        return " and ".join(words)

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The bounds of the contrast. A difference has its margin as the lower one."""
        is_difference = self.of is None and self.within is None
        return self.margin if is_difference else self.at_least, self.at_most


class QuestionPart(Part):
    """A part with tested questions: a forest plot and a table with a row per question."""

    explained = True


@PARTS.add("claims")
class Claims(QuestionPart):
    """A table with a row per claim: contrast, interval, p value (Holm), verdict, and the seeds needed.

    The claims of a study (`Study(claims=...)`) are the first part of its report without this class.
    """

    name: str = "claims"
    claims: tuple[Claim, ...] = ()
    default_title = "Claims"

    @property
    def required_names(self) -> list[str]:
        required_levels = []
        for claim in self.claims:
            for _, selector in claim.selectors:
                settings = ((name, level) for name, level in selector.items() if name != METRIC)
                required_levels += [level if name == TUNED else name for name, level in settings]
        return required_levels

    @property
    def shown_metrics(self) -> list[str]:
        return [
            selector.get(METRIC, claim.metric) for claim in self.claims for _, selector in claim.selectors
        ]

    def of_metrics(self, metrics: Sequence[str]) -> Self:
        for claim in self.claims:
            if any(name in selector for _, selector in claim.selectors for name in (DEPTH, TUNED)):
                raise ConfigError(
                    f"{_claim_name(claim)} uses {DEPTH} or {TUNED}, which only the recursive models have"
                )
        return self

    def scored_by(self, score: str) -> Self:
        return replace(
            self, claims=tuple(replace(claim, metric=claim.metric or score) for claim in self.claims)
        )


@PARTS.add("differences")
class Differences(QuestionPart, OfMetric, OfVariants, BesidePublished):
    """A table of each variant's difference from its base: interval, p value (Holm), verdict, detectable size.

    The base of a variant is the one that its design names (`leave_one_out`, `one_at_a_time`). `base`, a
    label, sets one base for all variants. If `targets` has the published values of both, their difference is
    in a column of its own. A forest plot is above the table.
    """

    name: str = "differences"
    base: str = ""
    subject = "differences"


@PARTS.add("effects")
class Effects(QuestionPart, OfMetric, OfVariants):
    """A table of the effects of the settings of a grid, with intervals.

    For a complete two-level `factorial`, these are main effects and interactions. For any other grid, or with
    `base`, each level of an axis is compared with a base level. The difference is the mean over the settings
    of the other axes that all levels share.

    Args:
        axes: The axes of the grid. By default all axes that vary.
        base: Axis -> the level with which the others are compared. By default the level with the best mean.
    """

    name: str = "effects"
    axes: tuple[str, ...] = ()
    base: dict[str, Any] | None = None
    axes_in = ("axes", "base")
    subject = "main effects and interactions"

    @property
    def heading(self) -> str:
        subject = self.subject if self.base is None else "differences between levels"
        return self.title or f"{metric(self.metric).title}: {subject}"


def variants_of(
    claim: Claim, variants: Sequence[VariantRecord], configs: Sequence[Json], blocks: Sequence[Block] = ()
) -> list[int]:
    """Return the variants that a claim compares, those among which a setting is tuned included.

    The arguments and errors are those of `weights_each`. `each` is ignored.
    """
    contrasts = weights_each(replace(claim, each=False), variants, configs, blocks)
    return list(dict.fromkeys(index for _, weights in contrasts for index in weights))


def check_claim(
    claim: Claim, variants: Sequence[VariantRecord], configs: Sequence[Json], blocks: Sequence[Block]
) -> None:
    """Refuse a claim that no plan should have; the arguments and further errors are those of `weights_each`.

    Raises:
        ConfigError: A margin covers all values of the metric, the sides share a variant, or one side averages
            over levels of a setting that the other side lacks, so that the difference contains one of this
            setting.
    """
    weights_each(claim, variants, configs, blocks)
    selected = _select(claim, variants, configs)
    for _, name, _ in selected:
        definition = metric(name.partition("@")[0])
        low, high = definition.bounds or (0.0, inf)
        for size in (claim.margin, claim.within or 0.0):
            if size >= high - low:
                raise ConfigError(
                    f"{_claim_name(claim)} has a margin of {value_text(size)}, but {definition.heading} is"
                    f" between {low:g} and {high:g}. Write {(high - low) / 100:g} for a hundredth of it"
                )
    if len(selected) % 2:
        return
    for (_, name, ours), (_, other_name, theirs) in zip(selected[::2], selected[1::2], strict=True):
        if name == other_name and (shared := [variants[index].label for index in ours if index in theirs]):
            raise ConfigError(
                f"{_claim_name(claim)} has {choices(shared, 3)} on both sides. Name levels that differ"
            )
    if claim.each:
        return
    of_blocks = {name for block in blocks for name, _ in block}
    pairs = zip(claim.selectors[::2], claim.selectors[1::2], selected[::2], selected[1::2], strict=False)
    for (_, higher), (_, lower), (_, _, ours), (_, _, theirs) in pairs:
        named, settings = {*higher, *lower}, [variant.levels for variant in variants]
        for axis in dict.fromkeys(chain(*(variants[index].levels for index in (*ours, *theirs)))):
            levels = [[variants[index].levels.get(axis) for index in side] for side in (ours, theirs)]
            texts = [sorted({value_text(level) for level in side if level is not None}) for side in levels]
            is_named = axis in {*of_blocks, *(higher.keys() & lower.keys())} or named & {TUNED, "variant"}
            is_average = all(texts) and max(map(len, texts)) > 1
            if texts[0] != texts[1] and is_average and not is_named and not depends(axis, named, settings):
                raise ConfigError(
                    f"{_claim_name(claim)} is about {axis_title(axis)} {choices(texts[0])} on one side and"
                    f" {axis_title(axis)} {choices(texts[1])} on the other, so its difference would contain"
                    f" that of {axis_title(axis)}. Name {axis} on both sides"
                )


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


def weights_each(
    claim: Claim,
    variants: Sequence[VariantRecord],
    configs: Sequence[Json],
    blocks: Sequence[Block] = (),
    tune: Tune | None = None,
) -> Contrasts:
    """Return every contrast of a claim with its block: one for each block, or for each pair with `each`.

    All variants that a selector matches in a block have the same weight. Runs that are planned under two
    labels count once.

    Args:
        claim: A claim with its metric.
        variants: The variants of the plan.
        configs: The config fields of each variant by dotted path.
        blocks: The block of each variant. By default all variants are in one block.
        tune: Chooses the variant that a tuned selector means. Without results, all matching variants count.

    Raises:
        ConfigError: A selector matches no variant or one that leaks, both sides are the same, the sides share
            no block, or the metric needs no test; or the claim has `each`, and there is one contrast.
    """
    contrasts: Contrasts = []
    selected = _select(claim, variants, configs)
    for block in _shared_blocks(claim, selected, blocks):
        parts = []
        for (sign, name, indices), (_, selector) in zip(selected, claim.selectors, strict=True):
            in_block = [index for index in indices if block is None or blocks[index] == block]
            parts.append((sign, name, [tune(in_block)] if tune and TUNED in selector else in_block))
        pairs = _pairs(claim, parts) if claim.each else [parts]
        contrasts += [(block or (), _weights(claim, pair)) for pair in pairs]
    if claim.each and len(contrasts) < 2:
        raise ConfigError(
            f"{_claim_name(claim)} has each=True, but each side matches one variant: leave out each"
        )
    if claim.over == "blocks" and (claim.each or len(contrasts) < MIN_BLOCKS):
        raise ConfigError(
            f"{_claim_name(claim)} is over blocks, which needs at least {MIN_BLOCKS} blocks and no each, but"
            f" there are {len(contrasts)}"
        )
    return contrasts


Selected = tuple[float, str, list[int]]  # sign, metric and variants of a selector


def _shared_blocks(claim: Claim, selected: list[Selected], blocks: Sequence[Block]) -> Sequence[Block | None]:
    """Return the blocks that all selectors match; None stands for all variants without regard to blocks.

    Raises:
        ConfigError: Two selectors that are compared match no common block.
    """
    if not any(blocks):
        return [None]
    matches = [{blocks[index] for index in indices} for _, _, indices in selected]
    shared = set.intersection(*matches)
    if shared:
        return [block for block in dict.fromkeys(blocks) if block in shared]
    # Two interactions may be of different blocks, because each is a difference within its own.
    if len(matches) == 4 and matches[0] & matches[1] and matches[2] & matches[3]:
        return [None]
    words = " with ".join(" and ".join(sorted(map(block_words, names))) for names in matches)
    raise ConfigError(
        f"{_claim_name(claim)} compares {words}: a comparison never crosses blocks. Name the same block on"
        " both sides"
    )


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


def _select(claim: Claim, variants: Sequence[VariantRecord], configs: Sequence[Json]) -> list[Selected]:
    """Return the variants of each selector of `higher`, then of `lower`."""
    selected: list[Selected] = []
    first: dict[str, int] = {}  # settings -> the first variant that has them
    for sign, selector in claim.selectors:
        name = selector.get(METRIC, claim.metric)
        matches = _matching_variants(claim, selector, variants, configs)
        if metric(name).computed:
            raise ConfigError(
                f"{_claim_name(claim)} is about {name!r}, which follows from the config and needs no test"
            )
        # Runs that are planned under two labels have equal settings and count once.
        keys = (first.setdefault(canonical(configs[index]), index) for index in matches)
        distinct_variants = list(dict.fromkeys(keys))
        measured = at_depth(name, selector[DEPTH]) if DEPTH in selector else name
        selected.append((sign, measured, distinct_variants))
    return selected


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
        raise ConfigError(f"{_claim_name(claim)} compares runs with themselves: {claim.contrast}")
    return weights


def _matching_variants(
    claim: Claim, selector: Selector, variants: Sequence[VariantRecord], configs: Sequence[Json]
) -> list[int]:
    """Return the variants that a selector of the claim matches.

    Raises:
        ConfigError: No variant matches, or one that does cannot be compared.
    """
    levels = [partial(level_of, variant, config) for variant, config in zip(variants, configs, strict=True)]
    settings = {name: level for name, level in selector.items() if name not in (DEPTH, METRIC, TUNED)}
    matches = [index for index, level in enumerate(levels) if is_selected(settings, level)]
    if not matches:
        available = []
        for name in settings:
            available.append(choices(dict.fromkeys(f"{name}={value_text(level(name))}" for level in levels)))
        raise ConfigError(
            f"{_claim_name(claim)} names {value_text(selector)}, which no variant has: there are"
            f" {'; '.join(available)}"
        )
    for index in matches:
        label, deepest = variants[index].label, configs[index].get("train.evaluation_depths")
        if variants[index].leaks:
            raise ConfigError(f"{_claim_name(claim)} is about {label!r}, which leaks: choose other variants")
        if DEPTH in selector and deepest is not None and selector[DEPTH] not in range(1, deepest + 1):
            raise ConfigError(
                f"{_claim_name(claim)} names {DEPTH}={selector[DEPTH]}, but {label!r} is tested after 1 to"
                f" {deepest} steps: set train.evaluation_depths"
            )
    return matches


def _claim_name(claim: Claim) -> str:
    return f"the claim {claim.text!r}"


def _words(side: Side, level_words: LevelWords, every: str = "all") -> str:
    """Return a side of a contrast in words; `every` if no setting tells its variants from others."""
    if isinstance(side, Interaction):
        return f"({_words(side.of, level_words)} minus {_words(side.over, level_words)})"
    words = []
    for name, level in side.items():
        words.append(f"{axis_title(level)} tuned" if name == TUNED else level_words(name, level))
    return ", ".join(filter(None, words)) or every
