"""What a study claims: a sentence as a contrast between its variants, with direction and margin, fixed before
it runs.

    Claim("ViTRM 4.4.1: more supervision hurts", lower={"supervision_steps": 16}, higher={"supervision_steps":
    1}, margin=0.5)

says that accuracy at 16 supervision steps is at least half a point below that at one. `lower` and `higher`
select variants as the `where` of a table does, a list being any of its levels; one that fits several means
their mean, or, with `each`, every one by itself ("the largest decline"). With `eval.depth` it is the metric
after so many supervision steps at test, from the same weights; with `metric`, another metric than the
claim's; `tuned` names a setting, at the level that is best on the selection split. Without `lower` it is of
the metric itself ("at least a quarter of the puzzles"). A `Interaction` in place of a selector is a difference of
two:

    Claim("the loop at training matters more than at test", lower=Interaction(of={"eval.depth": 4},
    over={"eval.depth": 1}),
          higher=Interaction(of={"model": "three loops"}, over={"model": "one loop"}))

The claims are the first part of a plan's report. When each was first stated is kept (report/registration.py).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Annotated, Any, Self

from pydantic import AliasChoices, ConfigDict, Field
from pydantic.dataclasses import dataclass

from recstudy.errors import ConfigError, choices
from recstudy.explained import explained
from recstudy.programs.settings import canonical
from recstudy.records import Json
from recstudy.records.study_schema import VariantRecord
from recstudy.report.names import at_depth, axis_title, is_selected, level_of, metric, value_text
from recstudy.report.parts import PARTS, BesidePublished, OfVariants, Part

Selector = dict[str, Any]
Weights = dict[int, dict[str, float]]  # variant -> metric -> its weight in a contrast
Tune = Callable[[Sequence[int]], int]  # of several variants, the one that is best on the selection split
# of a selector: what it says of the number, not of the variant
DEPTH, METRIC, TUNED = "eval.depth", "metric", "tuned"
ROUNDING = 1e-12  # of weights that cancel
CHECKED = ConfigDict(extra="forbid")


@explained
@dataclass(frozen=True, config=CHECKED)
class Interaction:
    """By how much the metric is higher at `of` than at `over`."""

    of: Selector
    over: Selector


Side = Annotated[Interaction | Selector, Field(union_mode="left_to_right")]


@explained
@dataclass(frozen=True, config=CHECKED)
class Claim:
    """A sentence that a study can test.

    Args:
        text: with its place; in quotation marks only where it is verbatim.
        lower: The variants whose metric is lower, whether that is better or worse. None for a claim about
            `higher` alone: its metric is at least `margin`.
        higher: The variants whose metric is higher.
        margin: The least difference that is claimed, in the unit of the metric.
        within: Claims equivalence in place of a direction: the two differ by less than this.
        metric: by default the one that all selectors name (the first of `higher`, if they name several), else
            the score of the preset's runs. Name and unit of the difference are its.
        each: must hold of each variant of `lower` against each of `higher`, and not of their means
            alone.
    """

    text: str
    # the other names are those of version 0.1, which its records have
    lower: Side | None = Field(default=None, kw_only=True, validation_alias=AliasChoices("lower", "less"))
    higher: Side = Field(validation_alias=AliasChoices("higher", "than"))
    margin: float = Field(default=0.0, ge=0, validation_alias=AliasChoices("margin", "by"))
    within: float | None = Field(default=None, gt=0)
    metric: str = ""
    each: bool = False

    def __post_init__(self) -> None:
        metric_names = [selector.get(METRIC) for _, selector in self.selectors]
        if all(metric_names):  # then the score is in no number of it
            object.__setattr__(self, "metric", metric_names[0])
        if self.within is not None and self.margin:
            raise ConfigError(
                f"the claim {self.text!r}: margin is for a direction and within for equivalence: give one"
            )

    @property
    def selectors(self) -> tuple[tuple[float, Selector], ...]:
        """What the contrast adds, with the sign of each: `higher` minus `lower`."""
        sides = ((1.0, self.higher), *(((-1.0, self.lower),) if self.lower is not None else ()))
        parts = (
            ((sign, side.of), (-sign, side.over)) if isinstance(side, Interaction) else ((sign, side),)
            for sign, side in sides
        )
        return tuple(chain.from_iterable(parts))

    @property
    def contrast(self) -> str:
        """The contrast with its margin: `supervision steps=1 minus supervision steps=16: at least 0.5`."""
        return self.words(lambda name, level: f"{axis_title(name)}={value_text(level)}")

    def words(self, word: Callable[[str, Any], str]) -> str:
        """Return the contrast with its margin. `word` returns a setting in words, or nothing to leave it
        out.
        """
        minus = "" if self.lower is None else f" minus {_words(self.lower, word)}"
        return f"{'each of ' * self.each}{_words(self.higher, word)}{minus}: {self.margin_words}"

    @property
    def margin_words(self) -> str:
        """In words, what the contrast is claimed to be."""
        if self.within is not None:
            return f"less than {self.within:g} either way"
        return f"at least {self.margin:g}" if self.margin else "above 0"


class QuestionPart(Part):
    """A part that asks questions: a table with a row per question, below a forest plot."""

    explained = True


@PARTS.add("claims")
class Claims(QuestionPart):
    """A row a claim: the contrast with its interval, p by Holm over all of them, a verdict, and the seeds
    that it needs.

    A study's own claims stand at the head of its report by themselves (`Study(claims=...)`).
    """

    name: str = "claims"
    claims: tuple[Claim, ...] = ()
    default_title = "Claims"

    @property
    def required_names(self) -> list[str]:
        levels = [
            item for claim in self.claims for _, selector in claim.selectors for item in selector.items()
        ]
        return [level if name == TUNED else name for name, level in levels if name != METRIC]

    @property
    def shown_metrics(self) -> list[str]:
        return [
            selector.get(METRIC, claim.metric) for claim in self.claims for _, selector in claim.selectors
        ]

    def of_metrics(self, metrics: Sequence[str]) -> Self:
        for claim in self.claims:
            if any(name in selector for _, selector in claim.selectors for name in (DEPTH, TUNED)):
                raise ConfigError(f"{_claim_name(claim)}: {DEPTH} and {TUNED} are for the recursive models")
        return self

    def scored_by(self, score: str) -> Self:
        return replace(
            self, claims=tuple(replace(claim, metric=claim.metric or score) for claim in self.claims)
        )


@PARTS.add("differences")
class Differences(QuestionPart, OfVariants, BesidePublished):
    """Each variant minus its base, by the spread of all: interval, Holm-adjusted p, verdict, what could be
    detected.

    The base of a variant is the one that its design names (`leave_one_out`, `one_at_a_time`); with `base`, a
    label, that one for all. Beside it stands the difference of the two published numbers, where `targets` has
    both. A forest plot stands over it.
    """

    name: str = "differences"
    metric: str = "top1_accuracy"
    base: str = ""
    metrics_in = ("metric",)

    @property
    def heading(self) -> str:
        return self.title or f"{metric(self.metric).title}: differences"


@PARTS.add("effects")
class Effects(QuestionPart, OfVariants):
    """Main effects and interactions of a two-level `factorial`, with intervals."""

    name: str = "effects"
    metric: str = "top1_accuracy"
    metrics_in = ("metric",)

    @property
    def heading(self) -> str:
        return self.title or f"{metric(self.metric).title}: main effects and interactions"


def weights(claim: Claim, variants: Sequence[VariantRecord], configs: Sequence[Json]) -> Weights:
    """Give the weights of the claim's contrast. Of what a selector fits each variant counts the same, and a
    run under two labels once.

    Args:
        claim: with its metric.
        variants: of the plan.
        configs: their config fields by dotted path.

    Raises:
        ConfigError: a selector fits no variant, or one that leaks; both sides are the same; or the metric
            needs no test.
    """
    return _weights(claim, _selected(claim, variants, configs))


def weights_each(
    claim: Claim, variants: Sequence[VariantRecord], configs: Sequence[Json], tune: Tune | None = None
) -> list[Weights]:
    """Return the weights of every contrast in which a claim must hold: one, or with `each` one for each pair
    of variants.

    Args:
        claim: with its metric.
        variants: of the plan.
        configs: their config fields by dotted path.
        tune: which variant a tuned selector means; before there are results all that it fits.

    Raises:
        ConfigError: as `weights`; or the claim is of each of several variants, and its selectors fit one
            each.
    """
    selected = _selected(claim, variants, configs, tune)
    if not claim.each:
        return [_weights(claim, selected)]
    pairs: list[list[Selected]] = [[]]
    for side in (
        claim.higher,
        claim.lower,
    ):  # each variant of a side alone; a gain stays a difference of means
        parts, selected = (
            (selected[:1], selected[1:]) if isinstance(side, dict) else (selected[:2], selected[2:])
        )
        choices_of_side = [
            [(sign, name, [index])] for sign, name, variant_indices in parts for index in variant_indices
        ]
        pairs = [
            [*pair, *part]
            for pair in pairs
            for part in (choices_of_side if isinstance(side, dict) else [parts])
        ]
    if len(pairs) < 2:
        raise ConfigError(
            f"{_claim_name(claim)} is of each of several variants, but each side fits one: leave out each"
        )
    return [_weights(claim, pair) for pair in pairs]


# what a selector adds: sign, metric, variants with different settings
Selected = tuple[float, str, list[int]]


def _selected(
    claim: Claim, variants: Sequence[VariantRecord], configs: Sequence[Json], tune: Tune | None = None
) -> list[Selected]:
    """Return what `than` and then `less` add."""
    selected: list[Selected] = []
    first: dict[str, int] = {}  # settings -> the first variant that has them
    for sign, selector in claim.selectors:
        matching_indices = _matching_variants(claim, selector, variants, configs)
        name = selector.get(METRIC, claim.metric)
        if metric(name).computed:
            raise ConfigError(
                f"{_claim_name(claim)} is of {name!r}, which follows from the config and needs no test"
            )
        distinct_variants = list(
            dict.fromkeys(first.setdefault(canonical(configs[index]), index) for index in matching_indices)
        )
        measured = at_depth(name, selector[DEPTH]) if DEPTH in selector else name
        selected.append(
            (sign, measured, [tune(distinct_variants)] if tune and TUNED in selector else distinct_variants)
        )
    return selected


def _weights(claim: Claim, selected: Iterable[Selected]) -> Weights:
    result: Weights = {}
    for sign, name, variant_indices in selected:
        for index in variant_indices:
            terms = result.setdefault(index, {})
            terms[name] = terms.get(name, 0.0) + sign / len(variant_indices)
    nonzero = {}
    for index, terms in result.items():
        nonzero[index] = {name: weight for name, weight in terms.items() if abs(weight) > ROUNDING}
    if not any(nonzero.values()):
        raise ConfigError(f"{_claim_name(claim)} compares runs with themselves: {claim.contrast}")
    return {index: terms for index, terms in nonzero.items() if terms}


def _matching_variants(
    claim: Claim, selector: Selector, variants: Sequence[VariantRecord], configs: Sequence[Json]
) -> list[int]:
    """Return the variants that a selector of the claim fits: at least one, and all can be compared."""
    levels = [partial(level_of, variant, config) for variant, config in zip(variants, configs, strict=True)]
    fixed = {
        name: level_wanted for name, level_wanted in selector.items() if name not in (DEPTH, METRIC, TUNED)
    }
    matches = [index for index, level in enumerate(levels) if is_selected(fixed, level)]
    if not matches:
        levels_there = (
            choices(dict.fromkeys(f"{name}={value_text(level(name))}" for level in levels)) for name in fixed
        )
        raise ConfigError(
            f"{_claim_name(claim)} names {value_text(selector)}, which no variant has: there are {'; '.join(levels_there)}"
        )
    for index in matches:
        label, deepest = variants[index].label, configs[index].get("train.evaluation_depths")
        if variants[index].leaks:
            raise ConfigError(f"{_claim_name(claim)} rests on {label!r}, which leaks: choose other variants")
        if DEPTH in selector and deepest is not None and selector[DEPTH] not in range(1, deepest + 1):
            tested = f"{label!r} is tested after 1 to {deepest} steps: set train.evaluation_depths"
            raise ConfigError(f"{_claim_name(claim)} names {DEPTH}={selector[DEPTH]}, but {tested}")
    return matches


def _claim_name(claim: Claim) -> str:
    return f"the claim {claim.text!r}"


def _words(side: Side, word: Callable[[str, Any], str]) -> str:
    if isinstance(side, Interaction):
        return f"({_words(side.of, word)} minus {_words(side.over, word)})"
    words = (
        f"{axis_title(level)} tuned" if name == TUNED else word(name, level) for name, level in side.items()
    )
    return ", ".join(filter(None, words)) or "all"
