"""Run a study with `--until decided`: add seeds for open questions, from look to look, until none can be
decided.

A block of runs brings the variants of open questions to the next look of the schedule. It depends only on the
records, so a resumed study continues with the same block.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import inf
from typing import Self

from recstudy.base.errors import ConfigError
from recstudy.base.terminal import duration
from recstudy.evidence.seeds import schedule
from recstudy.records import PlanRecord, Results, read_record
from recstudy.records.plans import read_looks, record_look
from recstudy.records.runs import Row, distinct
from recstudy.report.names import plural
from recstudy.report.open_questions import OpenQuestion, open_questions
from recstudy.report.study_records import load_study
from recstudy.study.budget import Budget, Meter
from recstudy.study.plan import Plan, check_maximum
from recstudy.study.record import plan_record

# A question is given up if the chance to decide it at the maximum is below one half, even when the true
# effect is the estimate plus one standard error. With the estimate alone, true effects would be given up.
LEAST_CHANCE = 0.5
DEFAULT_MAXIMUM = 4  # in multiples of the seeds, for a study that states no maximum


class Ending(StrEnum):
    """The state of a question if no more runs are made."""

    DECIDED = "decided"
    OUT_OF_REACH = "out of reach"
    BUDGET_SPENT = "budget spent"
    OPEN = "open"


def ending(question: OpenQuestion, seeds: Sequence[int], maximum: int, budget_spent: bool = False) -> Ending:
    """Return the state of a question with these seeds, this maximum and this budget."""
    if question.is_decided:
        return Ending.DECIDED
    is_unlikely = question.chance < LEAST_CHANCE or seeds_left(question, seeds, maximum) == 0
    if is_unlikely and not question.waits:
        return Ending.OUT_OF_REACH
    return Ending.BUDGET_SPENT if budget_spent else Ending.OPEN


def seeds_left(question: OpenQuestion, seeds: Sequence[int], maximum: int) -> int:
    """Return how many more seeds each variant of a question can get."""
    return max(0, maximum - min(seeds[variant] for variant in question.variants))


def next_block(
    questions: Sequence[OpenQuestion],
    seeds: Sequence[int],
    maximum: int,
    prices: Sequence[float],
    budget: float = inf,
    stated_maximum: int = 0,
) -> dict[int, int]:
    """Return the variants that get further seeds.

    The cheapest question comes first. A question waits if the remaining budget does not cover its next look.

    Args:
        questions: The questions.
        seeds: The number of seeds of each variant so far.
        maximum: The maximum number of seeds of a variant.
        prices: The cost of one run of each variant.
        budget: The remaining budget, in the unit of the prices.
        stated_maximum: The argument of `schedule`.

    Returns:
        Variant -> its number of seeds at the next look. It is empty if no question is open.
    """

    def fewest_seeds(question: OpenQuestion) -> int:
        return min(seeds[variant] for variant in question.variants)

    def next_look(question: OpenQuestion) -> int:
        return next(look for look in schedule(maximum, stated_maximum) if look > fewest_seeds(question))

    def cost(question: OpenQuestion) -> float:
        added_seeds = question.more_seeds or next_look(question) - fewest_seeds(question)
        return added_seeds * sum(prices[variant] for variant in question.variants)

    planned = [question for question in questions if not question.waits]
    open_now = [question for question in planned if ending(question, seeds, maximum) is Ending.OPEN]
    block: dict[int, int] = {}
    for question in sorted(open_now, key=cost):
        look = next_look(question)
        target_seeds = {
            variant: max(look, block.get(variant, 0))
            for variant in question.variants
            if seeds[variant] < look
        }
        paid = {variant: block.get(variant, seeds[variant]) for variant in target_seeds}
        # A question only pays for the seeds that earlier questions of this block do not already add.
        price = sum(prices[variant] * (target_seeds[variant] - paid[variant]) for variant in target_seeds)
        if price <= budget:
            budget -= price
            block |= target_seeds
    return block


def with_maximum(plan: Plan, results: Results) -> Plan:
    """Return the plan with a maximum of four times its seeds, if it states none and no verdict was read yet.

    If the command was stopped and repeated, the recorded maximum is used.

    Raises:
        ConfigError: The plan has more seeds than the recorded maximum, or a verdict was read without one.
    """
    if plan.max_seeds:
        return plan
    recorded = read_record(results.study(plan.study.name, plan.folder) / "plan.json", PlanRecord)
    if recorded and recorded.definition == plan.definition and recorded.max_seeds:
        check_maximum(plan, recorded.max_seeds)
        return replace(plan, max_seeds=recorded.max_seeds)
    read_ids = {run_id for look in read_looks(results, plan_record(plan)) for run_id in look.runs}
    counts = Counter(run.variant for run in plan.runs if run.id in read_ids)
    if max(counts.values(), default=0) > (0 if plan.study.blocks else 1):  # one seed has no test
        raise ConfigError(
            f"--until decided needs the maximum number of seeds of {plan.study.name}, which states none, and"
            " its verdicts have been read: add --max-seeds N, such as 10. Verdicts beyond the first look"
            " are then stricter"
        )
    return replace(plan, max_seeds=DEFAULT_MAXIMUM * plan.seeds)


@dataclass
class Until:
    """The limits and the progress of a study with `--until decided`.

    Args:
        maximum: The maximum number of seeds of a variant.
        budget: The maximum cost of all runs, with the first seeds; None for no limit.
        meter: Measures the spent time, if the budget is in hours.

    Attributes:
        open_lines: A line about each open question, why the last block adds seeds.
    """

    maximum: int
    budget: Budget | None = None
    meter: Meter | None = None
    open_lines: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, plan: Plan, results: Results, budget: str = "") -> Self:
        """Check the limits, and return them.

        Raises:
            ConfigError: The budget does not cover the first seeds.
        """
        name, maximum = plan.study.name, plan.max_seeds
        if not budget:
            return cls(maximum)
        limit = Budget.parse(budget)
        if limit.unit != "runs":
            log = results.study(name, plan.folder) / f"until-{plan.definition}.jsonl"
            return cls(maximum, limit, Meter(log, limit))
        if (runs := len({run.id for run in plan.runs})) > limit.amount:
            raise ConfigError(
                f"{plural(plan.seeds, 'seed')} of each variant of {name} are {runs:,} runs, but the budget is"
                f" {limit}: give more, or lower --seeds"
            )
        return cls(maximum, limit)

    def budget_left(self, plan: Plan) -> float:
        """Return the remaining budget in its unit. With a budget in runs, all planned runs count."""
        if self.budget is None:
            return inf
        spent_amount = self.meter.spent_hours if self.meter else len({run.id for run in plan.runs})
        return self.budget.amount - spent_amount

    def next_plan(self, plan: Plan, results: Results) -> Plan | None:
        """Read the recorded study, and return the plan with the next block, or None if there is none."""
        budget = self.budget_left(plan)
        if budget <= 0:
            return None
        record_look(results, plan.study.name, plan.folder)
        records = load_study(results, plan.study.name, plan.folder)
        seeds = plan.seeds_each
        prices = [1.0] * len(seeds)
        # hours of a run, or GPU hours as the meter counts them; where none has finished, as of the others
        if self.meter:
            is_wall = self.meter.budget.unit == "h"
            share = wall_share(records.rows) if is_wall else self.meter.gpus
            run_hours = [_hours(rows, wall=True) for rows in records.by_variant]
            known_hours = [hours for hours in run_hours if hours is not None]
            mean = sum(known_hours) / len(known_hours) if known_hours else 0.0
            for variant, hours in enumerate(run_hours):
                prices[variant] = (share or 1.0) * (mean if hours is None else hours)
                if is_wall and (hours or 0.0) > budget:  # however many run at once, a run takes its own time
                    prices[variant] = inf
        questions = open_questions(records)
        block = next_block(questions, seeds, self.maximum, prices, budget, records.looks.at_study().maximum)
        self.open_lines = [
            f"- {question.text}: {_outlook(question, seeds, self.maximum)}"
            for question in questions
            if ending(question, seeds, self.maximum) is Ending.OPEN
        ]
        return replace(plan, extended={**plan.extended, **block}) if block else None

    def summary(self, plan: Plan, results: Results) -> Iterator[str]:
        """Yield lines about each question and the cost, compared with the same number of seeds for all
        variants.
        """
        records = load_study(results, plan.study.name, plan.folder)
        questions, budget_spent = open_questions(records), self.budget_left(plan) <= 0
        if not questions:
            yield (
                f"Nothing to decide: {plan.study.name} states no claim here, and no published value is"
                " comparable."
            )
            return
        seeds = plan.seeds_each
        endings = [ending(question, seeds, self.maximum, budget_spent) for question in questions]
        counts = Counter(endings)
        yield (
            f"{plural(len(questions), 'question')}:"
            f" {', '.join(f'{counts[end]} {end}' for end in Ending if counts[end])}."
        )
        for question, end in zip(questions, endings, strict=True):
            yield f"- {end}: {question.text}: {_outlook(question, seeds, self.maximum)}"
        # What the runs cost against the most seeds for every variant, at the mean device time of its runs.
        started_runs = distinct(row for row in records.rows if row.status != "not run")
        # each variant once, whatever its labels
        first = distinct(row for rows in records.by_variant for row in rows[:1])
        hours = [_hours(records.by_variant[row.variant], wall=False) for row in first]
        fixed = (
            f"{plural(self.maximum, 'seed')} of every variant would be"
            f" {plural(self.maximum * len(first), 'run')}"
        )
        if None not in hours:
            fixed += f", about {duration(3600 * self.maximum * sum(filter(None, hours)))}"
        device_time = duration(sum(float(row.value("device_seconds") or 0.0) for row in started_runs))
        yield f"Used: {plural(len(started_runs), 'run')}, {device_time} of device time; {fixed}."


def _hours(rows: Sequence[Row], wall: bool) -> float | None:
    """Return the mean hours of a variant's finished runs: wall time, or device time of the training."""
    seconds = [
        row.wall_seconds if wall else float(row.value("device_seconds") or 0.0) for row in rows if row.result
    ]
    return sum(seconds) / len(seconds) / 3600 if seconds else None


def wall_share(rows: Iterable[Row]) -> float:
    """Return the wall time of finished runs as a share of the sum of their times: 1/4 for four at once."""
    dates = [(row.provenance.started, row.provenance.finished) for row in distinct(rows) if row.result]
    spans = sorted(tuple(map(datetime.fromisoformat, pair)) for pair in dates if all(pair))
    wall, total, last = timedelta(), timedelta(), datetime.min.replace(tzinfo=UTC)
    for start, end in spans:
        total += end - start
        wall += max(timedelta(), end - max(start, last))
        last = max(last, end)
    return wall / total if total else 1.0


def _outlook(question: OpenQuestion, seeds: Sequence[int], maximum: int) -> str:
    """Return `undecided at 3 seeds, would take about 36 more, 7 are left; chance 62 % at the maximum ...`."""
    counts = sorted({seeds[variant] for variant in question.variants})
    verdict = f"{question.verdict} at {counts[0]}{f' to {counts[-1]}' if counts[1:] else ''} seeds"
    if question.is_decided:
        return verdict
    if question.waits:
        return f"{verdict}, and runs of it have not ended"
    if question.more_seeds:
        seed_count = seeds_left(question, seeds, maximum)
        verdict += f", would take about {question.more_seeds:,} more, {seed_count} are left"
    elif question.why:
        verdict += f", {question.why}"
    if 0 < question.chance < 1:  # 1: the variance is unknown; 0: the maximum is reached
        verdict += (
            f"; chance {100 * question.chance:.0f} % at the maximum of {maximum} if the true effect is one"
            " standard error larger"
        )
    return verdict
