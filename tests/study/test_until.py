"""Which variants get further seeds until a study's questions are decided, and how each of them ends: by
hand.
"""

import io
import re
from collections import Counter, deque
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import pytest
import tiny
import tiny_until
from rich.console import Console

from recstudy import Claim, Function, Metric, RunContext, Study, grid
from recstudy.base.errors import ConfigError
from recstudy.cluster.sources import Source, study_steps
from recstudy.cluster.view import View
from recstudy.records import Results, append_line
from recstudy.records.plans import record_look
from recstudy.report.open_questions import OpenQuestion
from recstudy.report.study_records import load_study
from recstudy.study.budget import Budget, Meter
from recstudy.study.plan import make_plan
from recstudy.study.record import plan_record, record_plan, resumed
from recstudy.study.testing import make_result
from recstudy.study.until import Ending, Until, ending, next_block, with_maximum

DECIDED = OpenQuestion("one is better", (0, 1), "supported", is_decided=True)
CHEAP = OpenQuestion("two is better", (1, 2), "undecided", False, more_seeds=2, chance=0.9)
DEAR = OpenQuestion("three is better", (3, 4), "undecided", False, more_seeds=5, chance=0.6)
FAR = OpenQuestion("four is better", (4, 5), "undecided", False, more_seeds=36, chance=0.3)
LOST_QUESTION = OpenQuestion("five is better", (4, 5), "undecided", False, why="1 seed failed or diverged")
BEGUN_QUESTION = OpenQuestion("six is better", (2, 3), "not run", False, waits=True)
SEEDS = [3] * 6
EQUAL_PRICES = [1.0] * 6


@pytest.mark.parametrize(
    ("questions", "seeds", "max_seeds", "prices", "budget", "block"),
    [
        # each open question, the cheapest first, up to the next look
        (
            [DEAR, DECIDED, FAR, LOST_QUESTION, BEGUN_QUESTION, CHEAP],
            SEEDS,
            10,
            EQUAL_PRICES,
            inf,
            {1: 5, 2: 5, 3: 5, 4: 5},
        ),
        # nothing is open, or in reach, or without runs to come
        ([DECIDED, FAR, LOST_QUESTION, BEGUN_QUESTION], SEEDS, 10, EQUAL_PRICES, inf, {}),
        ([CHEAP], [10] * 6, 10, EQUAL_PRICES, inf, {}),
        ([CHEAP], [3, 5, 3, 3, 3, 3], 10, EQUAL_PRICES, inf, {2: 5}),  # a variant that is ahead waits
        ([DEAR, CHEAP], SEEDS, 10, EQUAL_PRICES, 7, {1: 5, 2: 5}),  # the next look of either costs 4 runs
        ([DEAR, CHEAP], SEEDS, 10, EQUAL_PRICES, 8, {1: 5, 2: 5, 3: 5, 4: 5}),
        ([DEAR, CHEAP], SEEDS, 10, EQUAL_PRICES, 3, {}),
        ([DEAR, CHEAP], SEEDS, 10, [1, 10, 10, 1, 1, 1], 10, {3: 5, 4: 5}),  # prices decide what is cheap
    ],
)
def test_next_block_chooses_variants_for_more_seeds(questions, seeds, max_seeds, prices, budget, block):
    assert next_block(questions, seeds, max_seeds, prices, budget=budget) == block


def test_question_is_decided_open_or_out_of_reach():
    """A question is given up if even an effect of one standard error more would be decided in less than half
    of the cases.
    """
    endings = [
        ending(question, SEEDS, 10) for question in (DECIDED, CHEAP, FAR, LOST_QUESTION, BEGUN_QUESTION)
    ]
    endings_without_budget = [
        ending(question, SEEDS, 10, budget_spent=True)
        for question in (DECIDED, CHEAP, FAR, LOST_QUESTION, BEGUN_QUESTION)
    ]

    assert endings == [Ending.DECIDED, Ending.OPEN, Ending.OUT_OF_REACH, Ending.OUT_OF_REACH, Ending.OPEN]
    assert endings_without_budget == [
        Ending.DECIDED,
        Ending.BUDGET_SPENT,
        Ending.OUT_OF_REACH,
        Ending.OUT_OF_REACH,
        Ending.BUDGET_SPENT,
    ]
    assert ending(CHEAP, [10] * 6, 10) is Ending.OUT_OF_REACH


def undecided(run: RunContext) -> dict[str, float]:
    scores = {("a", 0): 80.0, ("a", 1): 79.0, ("a", 2): 81.0, ("b", 0): 79.5, ("b", 1): 81.5, ("b", 2): 80.4}
    return {"accuracy": scores.get((run.settings["kind"], run.seed), 80.0 + run.seed % 3)}


def open_study(train: Any = undecided, name: str = "why") -> Study:
    """Return a study whose claim `undecided` leaves open at three seeds."""
    claim = Claim("b above a", lower={"kind": "a"}, higher={"kind": "b"})
    metrics, variants = {"accuracy": Metric("%")}, grid({"kind": ["a", "b"]})
    return Study(
        name,
        program=Function(train, name=name),
        settings={"kind": "a"},
        metrics=metrics,
        variants=variants,
        seeds=3,
        claims=[claim],
    )


def test_a_block_says_why_it_runs_although_more_seeds_are_needed_than_are_left(results, typed):
    output = typed("--until", "decided", "--no-ray", "--results", results.root, study=open_study())

    assert re.search(
        r"Not decided yet: 4 additional runs, .*\n"
        r"- b above a: undecided at 3 seeds, would take about \d+ more, 9 are left; chance \d\d % at the maximum of 12 if"
        r" the true effect is one standard error larger\n",
        output,
    )
    assert re.search(
        r"- out of reach: b above a: undecided at \d seeds, .*; chance [1-4]?\d % at the maximum of 12",
        output,
    )


def test_a_plan_whose_variants_have_different_seeds_goes_in_blocks_too():
    plan = replace(make_plan(tiny.study, seeds=1), extended={1: 3, 4: 2})

    assert [(run.seed, run.variant) for run in plan.runs][6:] == [(1, 1), (1, 4), (2, 1)]
    assert plan_record(plan).seeds == (0, 1, 2)
    assert plan.definition == make_plan(tiny.study).definition


def begin(results: Results, plan, variant: int, seed: int) -> None:
    (run,) = (run for run in plan.runs if (run.variant, run.seed) == (variant, seed))
    results.run(run.id).path.mkdir(parents=True)
    append_line(results.run(run.id).attempts, {"attempt": 1})


def test_started_block_is_completed(results):
    """So that a kill within it leaves no look at half a block; one of which nothing has begun is chosen
    anew.
    """
    plan = make_plan(tiny.study, max_seeds=10)
    longer = replace(plan, extended={1: 3, 4: 3, 2: 2})
    record_plan(longer, results)
    assert resumed(plan, results).extended == {}

    begin(results, longer, 2, 1)
    begin(results, longer, 4, 2)

    assert resumed(plan, results).extended == {1: 3, 4: 3, 2: 2}
    record_plan(resumed(plan, results), results)
    assert {run.id for run in resumed(plan, results).runs} == {run.id for run in longer.runs}


def test_study_without_until_keeps_its_started_runs(results):
    plan = make_plan(tiny.study, max_seeds=10)
    longer = replace(plan, extended={1: 2})
    record_plan(longer, results)
    begin(results, longer, 1, 1)

    record_plan(plan, results)

    assert resumed(plan, results).extended == {1: 2}


def test_a_study_without_a_maximum_gets_four_times_its_seeds_until_a_verdict_is_read(results):
    plan = make_plan(tiny.study, seeds=2)
    with_default = with_maximum(plan, results)
    record_plan(with_default, results)

    assert with_default.max_seeds == 8
    assert with_maximum(plan, results).max_seeds == 8  # after a stop, whatever was read
    for run in plan.runs:
        results.run(run.id).finish(make_result(80.0))
    record_plan(plan, results)
    record_look(results, "tiny", "quick")
    with pytest.raises(ConfigError, match="its verdicts have been read: add --max-seeds N"):
        with_maximum(plan, results)


def test_a_maximum_that_is_stated_after_verdicts_were_read_adds_seeds(results, typed, monkeypatch):
    """It gave up at 3 seeds, whatever the maximum, because no look was planned beyond the first."""

    def train(run):
        return {"accuracy": 80.0 + run.seed % 3 + (run.settings["kind"] == "b")}

    study = open_study(train, "later")
    for words in ([], ["--until", "decided", "--max-seeds", "25"]):
        output = typed(*words, "--no-ray", "--results", results.root, study=study)
        # dates have whole seconds
        monkeypatch.setattr("recstudy.study.record.current_time", lambda: "2099-01-01T00:00:00+00:00")

    assert "Not decided yet: 44 additional runs" in output
    assert "- decided: b above a: supported at 25 seeds" in output


def test_more_seeds_than_the_recorded_maximum_are_refused(results):
    record_plan(with_maximum(make_plan(tiny.study, seeds=2), results), results)

    with pytest.raises(ConfigError, match="9 seeds are more than the 8 that tiny may have"):
        with_maximum(make_plan(tiny.study, seeds=9), results)


def test_a_budget_in_runs_counts_all_that_are_planned(results):
    plan = make_plan(tiny.study, max_seeds=10)

    assert Until.of(plan, results).budget_left(plan) == float("inf")
    assert Until.of(plan, results, "8 runs").budget_left(plan) == 2


def test_a_budget_in_hours_is_spent_over_all_sessions(results):
    plan, clock_time = make_plan(tiny.study, max_seeds=10), [0.0]
    log = results.root / "until.jsonl"
    for gpus, left in ((1.0, 1.5), (0.5, 1.0)):  # of a run of half an hour, then of one of an hour
        until = Until(10, Budget(2, "gpuh"), Meter(log, Budget(2, "gpuh"), clock=lambda: clock_time[0]))
        until.meter.gpus = gpus
        (run, *_) = plan.runs
        source = Source(deque(), until.meter)
        source.on_start(run)
        clock_time[0] += 1800 / gpus
        source.on_end(run, {})
        until.meter.write()
        assert until.budget_left(plan) == pytest.approx(left)

    assert not until.meter.is_spent
    assert Meter(log, Budget(1, "gpuh")).is_spent


def test_runs_at_once_share_the_hours_of_a_budget(results):
    plan = with_maximum(make_plan(open_study()), results)
    record_plan(plan, results)
    dates = {"started": "2026-01-01T00:00:00+00:00", "finished": "2026-01-01T01:00:00+00:00"}
    for run in plan.runs:
        score = (80.0, 79.0, 81.0, 79.5, 81.5, 80.4)[3 * run.variant + run.seed]
        result = make_result(score, "accuracy", provenance=dates, cost={"seconds": 3600})
        results.run(run.id).finish(result)
    meters = [Meter(results.root / f"{hours}.jsonl", Budget(hours, "h")) for hours in (1.1, 0.9)]

    block, too_short = (Until(12, meter.budget, meter).next_plan(plan, results) for meter in meters)

    assert len(block.runs) - len(plan.runs) == 4  # 40 minutes, as six runs took an hour
    assert too_short is None  # a run takes an hour


def test_the_hours_of_a_budget_begin_once_the_study_is_locked(results):
    plan, clock_time = make_plan(tiny.study, max_seeds=10), [0.0]
    meter = Meter(results.root / "until.jsonl", Budget(2, "h"), clock=lambda: clock_time[0])
    clock_time[0] = 3600
    view = View(Console(file=io.StringIO()))

    next(study_steps(plan, plan.runs, results, view, (), Until(10, meter.budget, meter), shared=False))

    assert meter.spent_hours == 0


@pytest.mark.whole
def test_a_study_ends_with_each_question_decided_or_out_of_reach(results, typed):
    command = partial(typed, "--until", "decided", "--results", results.root, study=tiny_until.study)

    assert "--until decided, 2 questions: at most 9 further runs, up to 4 seeds of 3 variants" in command(
        "--dry-run"
    )
    first = command("--no-ray")

    assert "2 questions: 1 decided, 1 out of reach." in first
    assert re.search(r"- decided: one epoch teaches less: supported at \d seeds", first)
    assert re.search(
        r"- out of reach: a hair more decay helps: undecided at \d( to \d)? seeds, (would take|unlikely)",
        first,
    )
    records = load_study(results, "tiny_until", "quick")
    seeds = Counter(row.variant for row in records.rows)
    assert f"Used: {len(records.rows)} runs, " in first
    assert "; 4 seeds of every variant would be 16 runs, about " in first
    assert seeds[1] == 1  # no claim is about it
    assert 2 <= seeds[0] <= 4
    assert records.looks.at([0, 2]).seed_counts[:2] == (3,)  # one seed has no test
    assert set(results.states().items()) == {(row.id, "done") for row in records.rows}

    second_output = command()

    assert f"{len(records.rows)} runs: all finished before" in second_output
    assert "Ray dashboard" not in second_output
    assert second_output.splitlines()[-1] == first.splitlines()[-1]
