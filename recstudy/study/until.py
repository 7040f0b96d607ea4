"""`--until decided`: seeds for the questions that are open, block by block, until none is left that seeds could settle.

A block is one more seed for some variants. Which these are follows from the records, so that a study that was stopped goes on
as it would have gone on.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate
from math import inf
from typing import Self

from recstudy.errors import ConfigError
from recstudy.records import Results
from recstudy.records.plans import record_look
from recstudy.records.runs import Row, distinct
from recstudy.report.findings import OpenQuestion, open_questions
from recstudy.report.names import plural
from recstudy.report.study_records import load_study
from recstudy.study.budget import Budget, Meter
from recstudy.study.plan import Plan
from recstudy.terminal import duration


class Ending(StrEnum):
    """How a question stands once no more runs are made."""

    DECIDED = "decided"
    OUT_OF_REACH = "out of reach"
    BUDGET_SPENT = "budget spent"
    OPEN = "open"


def ending(question: OpenQuestion, seeds: Sequence[int], at_most: int, spent: bool = False) -> Ending:
    """Return how a question ends if its variants have so many seeds of `at_most`, and if the budget is `spent`."""
    if question.decided:
        return Ending.DECIDED
    if question.more is None or question.more > seeds_left(question, seeds, at_most):
        return Ending.OUT_OF_REACH
    return Ending.BUDGET_SPENT if spent else Ending.OPEN


def seeds_left(question: OpenQuestion, seeds: Sequence[int], at_most: int) -> int:
    """Return how many seeds each variant of a question may still get."""
    return max(0, at_most - min(seeds[variant] for variant in question.variants))


def next_block(
    asked: Sequence[OpenQuestion], seeds: Sequence[int], at_most: int, prices: Sequence[float], budget: float = inf
) -> list[int]:
    """Choose the variants that get one more seed, in the order in which they start; none where nothing is open.

    The question that costs least to settle goes first. One that the budget does not pay for beside those before it waits, so
    that what is left settles something. Of a question's variants, those with the fewest seeds get one.

    Args:
        asked: the questions.
        seeds: of each variant, so far.
        at_most: seeds of a variant.
        prices: of one run of each variant.
        budget: what is left, in the unit of the prices.
    """

    def cost(question: OpenQuestion) -> float:
        return (question.more or 0) * sum(prices[variant] for variant in question.variants)

    block: dict[int, None] = {}
    rest = budget
    for question in sorted(asked, key=cost):
        if not question.more or ending(question, seeds, at_most) is not Ending.OPEN:
            continue
        if not block or cost(question) <= rest:
            rest -= cost(question)
            fewest = min(seeds[variant] for variant in question.variants)
            block |= dict.fromkeys(variant for variant in question.variants if seeds[variant] == fewest)
    paid = accumulate(prices[variant] for variant in block)
    return [variant for variant, sum_so_far in zip(block, paid, strict=True) if sum_so_far <= budget] or [*block][:1]


@dataclass
class Until:
    """How far a study that runs until its questions are decided may go, and how far it is.

    Args:
        at_most: Seeds of a variant.
        budget: What all its runs may cost, those of its first seeds included; None for no limit.
        meter: Of a budget in hours, what has been spent.
    """

    at_most: int
    budget: Budget | None = None
    meter: Meter | None = None

    @classmethod
    def of(cls, plan: Plan, results: Results, budget: str = "") -> Self:
        """Check what was asked for.

        Raises:
            ConfigError: it is not said how many seeds there may be at most, or the budget does not pay for the first ones.
        """
        name, at_most = plan.study.name, plan.seeds_at_most
        if not at_most:
            raise ConfigError(
                f"--until decided asks how many seeds a variant of {name} may get at most: add --seeds-at-most N, such as 10, or "
                "state seeds_at_most in the study"
            )
        if not budget:
            return cls(at_most)
        limit = Budget.parse(budget)
        if limit.unit != "runs":
            log = results.study(name, plan.folder) / f"until-{plan.definition}.jsonl"
            return cls(at_most, limit, Meter(log, limit))
        if (runs := len({run.id for run in plan.runs})) > limit.amount:
            raise ConfigError(
                f"{plural(plan.seeds, 'seed')} of each variant of {name} are {runs:,} runs, but the budget is {limit}: give "
                "more, or lower --seeds"
            )
        return cls(at_most, limit)

    def budget_left(self, plan: Plan) -> float:
        """Tell what may still be spent, in the budget's unit: of one in runs, all that are planned count."""
        if self.budget is None:
            return inf
        spent = self.meter.spent if self.meter else len({run.id for run in plan.runs})
        return self.budget.amount - spent

    def further(self, plan: Plan, results: Results) -> Plan | None:
        """Read the study as it is recorded and give its plan with the next block; None where it ends here."""
        left = self.budget_left(plan)
        if left <= 0:
            return None
        record_look(results, plan.study.name, plan.folder)
        records = load_study(results, plan.study.name, plan.folder)
        seeds = plan.seeds_each
        prices = [1.0] * len(seeds)
        if self.meter:  # hours of a run, of a device where GPU hours are counted; where none has finished, as of the others
            hours = [_hours(rows, wall=self.meter.budget.unit == "h") for rows in records.by_variant]
            known = [price for price in hours if price is not None]
            mean = sum(known) / len(known) if known else 0.0
            prices = [mean if price is None else price for price in hours]
        block = next_block(open_questions(records), seeds, self.at_most, prices, left)
        return replace(plan, extended={**plan.extended, **{variant: seeds[variant] + 1 for variant in block}}) if block else None

    def told(self, plan: Plan, results: Results) -> Iterator[str]:
        """Say how each question stands, and what the runs cost against as many seeds for every variant."""
        records = load_study(results, plan.study.name, plan.folder)
        asked, spent = open_questions(records), self.budget_left(plan) <= 0
        if not asked:
            yield f"Nothing to decide: {plan.study.name} states no claim here, and no published value is comparable."
            return
        seeds = plan.seeds_each
        endings = [ending(question, seeds, self.at_most, spent) for question in asked]
        counts = Counter(endings)
        yield f"{plural(len(asked), 'question')}: {', '.join(f'{counts[end]} {end}' for end in Ending if counts[end])}."
        for question, end in zip(asked, endings, strict=True):
            yield f"- {end}: {question.text}: {_standing(question, seeds, self.at_most)}"
        # What the runs cost against the most seeds for every variant, at the mean device time of its runs.
        made = distinct(row for row in records.rows if row.status != "not run")
        first = distinct(row for rows in records.by_variant for row in rows[:1])  # each variant once, whatever its labels
        hours = [_hours(records.by_variant[row.variant], wall=False) for row in first]
        fixed = f"{plural(self.at_most, 'seed')} of every variant would be {plural(self.at_most * len(first), 'run')}"
        if None not in hours:
            fixed += f", about {duration(3600 * self.at_most * sum(filter(None, hours)))}"
        used = duration(sum(float(row.value("device_seconds") or 0.0) for row in made))
        yield f"Used: {plural(len(made), 'run')}, {used} of device time; {fixed}."


def _hours(rows: Sequence[Row], wall: bool) -> float | None:
    """Average the hours of a variant's finished runs, on the wall with their evaluation, or of their devices in training."""
    seconds = [row.paid if wall else float(row.value("device_seconds") or 0.0) for row in rows if row.result]
    return sum(seconds) / len(seconds) / 3600 if seconds else None


def _standing(question: OpenQuestion, seeds: Sequence[int], at_most: int) -> str:
    """`undecided at 3 seeds, would take 36 more, at most 7 are left`."""
    counts = sorted({seeds[variant] for variant in question.variants})
    verdict = f"{question.verdict} at {counts[0]}{f' to {counts[-1]}' if counts[1:] else ''} seeds"
    if question.decided:
        return verdict
    if question.more is None:
        return f"{verdict}, {question.why}"
    if not question.more:
        return f"{verdict}, and runs of it have not ended"
    return f"{verdict}, would take {question.more:,} more, at most {seeds_left(question, seeds, at_most)} are left"
