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

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from recstudy.base.errors import ConfigError
from recstudy.base.explained import explained
from recstudy.evidence.seeds import MAX_ALPHA, MIN_ALPHA
from recstudy.report.names import axis_title, metric, value_text
from recstudy.report.parts import PARTS, BesidePublished, OfMetric, OfVariants, Part

Selector = dict[str, Any]
# keys of a selector that choose the number, not the variant
DEPTH, METRIC, TUNED = "eval.depth", "metric", "tuned"
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
            raise ConfigError(f"{self.subject} {problem}")
        if self.of is None and self.lower is None:  # as in version 0.2
            at_least = self.margin if self.within is None else None
            self.__dict__.update(of=self.higher, at_least=at_least, higher=None, margin=0.0, lacks_lower=True)
        metric_names = [selector.get(METRIC) for _, selector in self.selectors]
        if all(metric_names):  # then the score of the runs plays no part
            object.__setattr__(self, "metric", metric_names[0])

    @property
    def subject(self) -> str:
        """The claim as the subject of a message."""
        return f"the claim {self.text!r}"

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

    def side_words(self, level_words: LevelWords) -> list[tuple[str, str]]:
        """Return the metric and the settings in words of `higher` and `lower`.

        The result is empty if a side is an interaction, or if there is one side.
        """
        sides = [side for side in self.sides if isinstance(side, dict)]
        if len(sides) < 2:
            return []
        words = []
        for side in sides:
            settings = {name: level for name, level in side.items() if name != METRIC}
            words.append((side.get(METRIC, self.metric), _words(settings, level_words, every="")))
        return words

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
                    f"{claim.subject} uses {DEPTH} or {TUNED}, which only the recursive models have"
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


def _words(side: Side, level_words: LevelWords, every: str = "all") -> str:
    """Return a side of a contrast in words; `every` if no setting tells its variants from others."""
    if isinstance(side, Interaction):
        return f"({_words(side.of, level_words)} minus {_words(side.over, level_words)})"
    words = []
    for name, level in side.items():
        words.append(f"{axis_title(level)} tuned" if name == TUNED else level_words(name, level))
    return ", ".join(filter(None, words)) or every
