"""Which variants get further seeds until a study's questions are decided, and how each of them ends: by hand."""

from collections import deque
from dataclasses import replace

import pytest
import tiny

from recstudy.analysis.findings import Wanted
from recstudy.cluster.sources import Paid
from recstudy.errors import ConfigError
from recstudy.records import Results, append_line
from recstudy.study.budget import Budget, Meter
from recstudy.study.plan import plan_record, record_plan, resumed
from recstudy.study.study import make_plan
from recstudy.study.until import Ending, Until, ending, next_block

DECIDED = Wanted("one is better", (0, 1), "supported", True, 0)
CHEAP = Wanted("two is better", (1, 2), "undecided", False, 2)
DEAR = Wanted("three is better", (3, 4), "undecided", False, 5)
FAR = Wanted("four is better", (4, 5), "undecided", False, 36)
LOST = Wanted("five is better", (4, 5), "undecided", False, None, "1 seed failed or diverged")
BEGUN = Wanted("six is better", (2, 3), "not run", False, 0)
SEEDS = [3] * 6
ONE_EACH = [1.0] * 6


def test_each_variant_of_an_open_question_gets_a_seed_the_cheapest_first():
    assert next_block([DEAR, DECIDED, FAR, LOST, BEGUN, CHEAP], SEEDS, 10, ONE_EACH) == [1, 2, 3, 4]


def test_nothing_is_run_for_what_is_decided_or_out_of_reach_or_has_runs_to_come():
    assert next_block([DECIDED, FAR, LOST, BEGUN], SEEDS, 10, ONE_EACH) == []
    assert next_block([CHEAP], [5] * 6, 6, ONE_EACH) == []


def test_a_variant_that_is_ahead_waits_for_the_others_of_its_question():
    assert next_block([CHEAP], [3, 5, 3, 3, 3, 3], 10, ONE_EACH) == [2]


def test_a_question_that_the_budget_does_not_pay_for_waits():
    """The cheap one costs 4 runs, the dear one 10."""
    assert next_block([DEAR, CHEAP], SEEDS, 10, ONE_EACH, budget=13) == [1, 2]
    assert next_block([DEAR, CHEAP], SEEDS, 10, ONE_EACH, budget=14) == [1, 2, 3, 4]


def test_the_rest_of_a_budget_goes_to_the_most_promising_question():
    assert next_block([DEAR, CHEAP], SEEDS, 10, ONE_EACH, budget=2) == [1, 2]
    assert next_block([DEAR, CHEAP], SEEDS, 10, ONE_EACH, budget=1) == [1]


def test_prices_decide_what_is_cheap():
    assert next_block([DEAR, CHEAP], SEEDS, 10, [1, 10, 10, 1, 1, 1], budget=10) == [3, 4]


def test_how_a_question_ends():
    endings = [ending(one, SEEDS, 10) for one in (DECIDED, CHEAP, FAR, LOST, BEGUN)]
    spent = [ending(one, SEEDS, 10, spent=True) for one in (DECIDED, CHEAP, FAR, LOST, BEGUN)]

    assert endings == [Ending.DECIDED, Ending.OPEN, Ending.OUT_OF_REACH, Ending.OUT_OF_REACH, Ending.OPEN]
    assert spent == [Ending.DECIDED, Ending.BUDGET_SPENT, Ending.OUT_OF_REACH, Ending.OUT_OF_REACH, Ending.BUDGET_SPENT]


def test_a_plan_whose_variants_have_different_seeds_goes_in_blocks_too():
    plan = replace(make_plan(tiny.study, seeds=1), extended={1: 3, 4: 2})

    assert [(run.seed, run.variant) for run in plan.runs][6:] == [(1, 1), (1, 4), (2, 1)]
    assert plan_record(plan).seeds == (0, 1, 2)
    assert plan.definition == make_plan(tiny.study).definition


def begin(results: Results, plan, variant: int, seed: int) -> None:
    (run,) = (run for run in plan.runs if (run.variant, run.seed) == (variant, seed))
    results.run(run.id).path.mkdir(parents=True)
    append_line(results.run(run.id).attempts, {"attempt": 1})


def test_a_block_that_was_begun_is_gone_on_with_as_a_whole(results):
    """So that a kill within it leaves no look at half a block; one of which nothing has begun is chosen anew."""
    plan = make_plan(tiny.study, seeds_at_most=10)
    longer = replace(plan, extended={1: 3, 4: 3, 2: 2})
    record_plan(longer, results)
    assert resumed(plan, results).extended == {}

    begin(results, longer, 2, 1)
    begin(results, longer, 4, 2)

    assert resumed(plan, results).extended == {1: 3, 4: 3, 2: 2}
    record_plan(resumed(plan, results), results)
    assert {run.id for run in resumed(plan, results).runs} == {run.id for run in longer.runs}


def test_a_study_without_until_keeps_what_it_has_begun(results):
    plan = make_plan(tiny.study, seeds_at_most=10)
    longer = replace(plan, extended={1: 2})
    record_plan(longer, results)
    begin(results, longer, 1, 1)

    record_plan(plan, results)

    assert resumed(plan, results).extended == {1: 2}


def test_a_budget_in_runs_counts_all_that_are_planned(results):
    plan = make_plan(tiny.study, seeds_at_most=10)

    assert Until.of(plan, results).budget_left(plan) == float("inf")
    assert Until.of(plan, results, "8 runs").budget_left(plan) == 2
    assert not Until.of(plan, results, "6").spent


def test_a_budget_in_hours_is_spent_over_all_sessions(results):
    plan, now = make_plan(tiny.study, seeds_at_most=10), [0.0]
    log = results.root / "until.jsonl"
    for gpus, left in ((1.0, 1.5), (0.5, 1.0)):  # of a run of half an hour, then of one of an hour
        until = Until(10, Budget(2, "gpuh"), Meter(log, gpus=0, clock=lambda: now[0]))
        (run, *_) = plan.runs
        source = Paid(deque(), until.budget, until.meter, gpus)
        source.started(run)
        now[0] += 1800 / gpus
        source.ended(run, {})
        until.write(results)
        assert until.budget_left(plan) == pytest.approx(left)

    assert not until.spent
    assert Until(10, Budget(1, "gpuh"), until.meter).spent


def test_what_cannot_be_asked_for_is_refused(results):
    with pytest.raises(ConfigError, match="add --seeds-at-most N, such as 10, or state seeds_at_most in the study"):
        Until.of(make_plan(tiny.study), results)
    with pytest.raises(
        ConfigError, match="1 seed of each variant of tiny are 6 runs, but the budget is 5 runs: give more, or lower --seeds"
    ):
        Until.of(make_plan(tiny.study, seeds_at_most=10), results, "5")
    with pytest.raises(ConfigError, match="a budget is a number of runs"):
        Until.of(make_plan(tiny.study, seeds_at_most=10), results, "much")
