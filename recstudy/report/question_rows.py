"""The question of a report with its answer, the terms of its contrast, and the questions of one part."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

from recstudy.evidence import Answer, Estimate, Fit, Kind, Verdict, detectable
from recstudy.evidence.fits import Weighted
from recstudy.records.runs import Row
from recstudy.report.cells import NONE, missing_reason
from recstudy.report.names import difference_form, metric
from recstudy.report.targets import MatchedTarget

Direction = tuple[tuple[str, float], ...]  # metrics, each with its weight; the first weight is 1


@dataclass(frozen=True)
class Term:
    """A variant's term in a contrast: `weight` times the mean of its runs' `values`.

    Args:
        variant: The index of the variant.
        label: Its label.
        weight: Its weight in the contrast.
        direction: The metrics whose weighted sum is a run's value. There are several if the contrast compares
            the metric at several depths of the same weights.
        runs: The runs with a value.
        values: A value per run.
        fit: The fit of the values; None if there are none.
        key: The variant's key in the fit.
    """

    variant: int
    label: str
    weight: float
    direction: Direction
    runs: Sequence[Row]
    values: Sequence[float]
    fit: Fit | None
    key: int

    @cached_property
    def by_seed(self) -> dict[int, float]:
        """The value of each seed."""
        return {run.seed: value for run, value in zip(self.runs, self.values, strict=True)}

    def weighted(self, margin: float = 0.0) -> tuple[float, Weighted | None, dict[int, float]]:
        """Return weight, mean with its variance at the edge of a margin, and the value of each seed."""
        return self.weight, self.fit.weighted(self.key, margin) if self.fit else None, self.by_seed


@dataclass(frozen=True)
class PublishedDifference:
    """The difference of two published numbers. Papers print no paired difference."""

    ours: MatchedTarget
    theirs: MatchedTarget

    @property
    def value(self) -> float:
        """The first minus the second."""
        return round(self.ours.value - self.theirs.value, 9)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the difference is not comparable with ours; empty if it is."""
        return tuple(dict.fromkeys([*self.ours.reasons, *self.theirs.reasons]))


class Side(NamedTuple):
    """One side of a claim: its metric, its settings in words, and the mean over its runs."""

    metric: str
    words: str
    value: float


@dataclass(frozen=True)
class QuestionRow:
    """A question of a report and its answer.

    Args:
        metric: The metric of the contrast.
        answer: The answer to the question.
        terms: The term of each variant in the contrast.
        runs_left: The number of unfinished runs.
        lost_runs: Runs that ended without a value.
        marks: Notes on the question, for example that it was stated after the runs.
        in_blocks: The answer in each block, adjusted for the blocks (Holm), if there are several.
        label: The claim's sentence, the variant or the effect.
        contrast: The comparison and the tested range, in words.
        group: The base of a difference.
        published: The differences of published numbers that belong to a difference.
        items: The estimate over seeds and test items, if all runs have saved their answers.
        over_items_alone: The p value of McNemar's test.
        words: The contrast of a claim without the settings that all variants have.
        sides: Both sides of a claim; empty if a side is a difference itself or has no value.
        margin: The claimed margin in words.
    """

    metric: str
    answer: Answer
    terms: Sequence[Term]
    runs_left: int = 0
    lost_runs: Sequence[Row] = ()
    marks: Sequence[str] = ()
    in_blocks: Sequence[tuple[str, Answer]] = ()
    label: str = ""
    contrast: str = ""
    group: str = ""
    published: Sequence[PublishedDifference] = ()
    items: Estimate = NONE
    over_items_alone: float | None = None
    words: str = ""
    sides: Sequence[Side] = ()
    margin: str = ""

    @property
    def contrast_key(self) -> Hashable:
        """Equal for questions that are the same test, such as a claim and the difference that repeats it."""
        terms, question = sorted(self.terms, key=lambda term: term.variant), self.answer.question
        sign = -1 if terms and terms[0].weight < 0 else 1
        low, high = question.region
        edge: Hashable = sign * low if high in (inf, low) else (low, high)
        contrast_terms = [(term.variant, term.direction, round(sign * term.weight, 9)) for term in terms]
        return self.metric, tuple(contrast_terms), edge, self.answer.p, self.runs_left

    @property
    def is_mean(self) -> bool:
        """Whether it is about the metric of some variants themselves, and not about a difference."""
        is_positive = [term.weight > 0 and len(term.direction) == 1 for term in self.terms]
        return bool(is_positive) and all(is_positive)

    @property
    def kind(self) -> Kind:
        """Whether it is a claim, a difference or an effect."""
        return self.answer.question.kind

    @property
    def verdict(self) -> Verdict:
        return self.answer.verdict

    @property
    def estimate(self) -> Estimate:
        """The contrast with its 95 % interval."""
        return self.answer.estimate

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the contrast."""
        return self.estimate.interval

    @property
    def form(self) -> str:
        """The number format of the contrast and its interval. A mean has no sign."""
        return difference_form(self.metric, self.interval).removeprefix("+" * self.is_mean)

    @property
    def unit(self) -> str:
        """The unit of the contrast. The unit of a difference of percents is points."""
        unit = metric(self.metric).unit
        return "points" if unit == "%" and not self.is_mean else unit

    @property
    def loss_reasons(self) -> list[str]:
        """Why each of the lost runs has no value."""
        reasons = []
        for run in self.lost_runs:
            reason = missing_reason(run, self.metric) or "without a value at that depth"
            reasons.append(f"{run.label}, seed {run.seed}: {reason}")
        return reasons

    @property
    def variants(self) -> list[int]:
        """The variants of the contrast."""
        return [term.variant for term in self.terms]

    @property
    def has_more_seeds(self) -> bool:
        """Whether a variant has seeds that the others lack, so that pairs leave them out."""
        return any(term.fit and len(term.fit.scores[term.key]) > len(term.runs) for term in self.terms)

    @property
    def run_ids(self) -> tuple[str, ...]:
        return tuple(run.id for term in self.terms for run in term.runs)

    @property
    def detectable(self) -> float | None:
        """The smallest true difference that the test detects with a power of 80 %."""
        error, df = self.estimate.error, self.estimate.df
        return detectable(error, df, self.answer.alpha) if error and df else None

    @property
    def outcome(self) -> str:
        """`better` or `worse` of a significant difference.

        Empty if the difference is not significant or the metric has no better direction.
        """
        direction = metric(self.metric).better
        if self.verdict not in (Verdict.HIGHER, Verdict.LOWER) or direction is None:
            return ""
        return "better" if str(self.verdict) == direction else "worse"


@dataclass(frozen=True)
class Family:
    """The questions of one part.

    Args:
        rows: The questions with their answers.
        unmatched: Notes on published values that belong to no variant.
        levels: Axis of a factorial -> its two levels.
        adjusted_for: The number of questions for which p values are adjusted.
        more_tests: Further tests that count, because a base was chosen by its mean.
    """

    rows: Sequence[QuestionRow]
    unmatched: Sequence[str] = ()
    levels: Mapping[str, Sequence[Any]] | None = None
    adjusted_for: int = 0
    more_tests: int = 0
