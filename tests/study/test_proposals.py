"""What a search proposes, and when it stops: by its budget, or because nothing is left to try, and which."""

import io
from collections.abc import Mapping

import pytest
from rich.console import Console

from recstudy import Range, Search
from recstudy.cluster.searching import Proposals
from recstudy.cluster.sources import Source
from recstudy.cluster.view import View
from recstudy.records import Results, Run
from recstudy.recursive import Digits, RunConfig, ViTRM
from recstudy.study.budget import Meter
from recstudy.study.plan import Plan, make_plan
from recstudy.study.record import record_plan
from recstudy.study.testing import finish_runs
from recstudy.study.trials import TrialLog

BASE = RunConfig(data=Digits(), model=ViTRM(width=16, heads=16, patch=2))
RATE = {"train.learning_rate": Range(1e-4, 1e-2, log=True)}


def plan(ranges: Mapping[str, Range], budget: str, **changes) -> Plan:
    fields = {
        "name": "s",
        "presets": {"quick": [BASE]},
        "vary": tuple(ranges),
        "ranges": ranges,
        "question": "?",
        "seeds": 0,
    }
    return make_plan(Search(**fields | changes), budget=budget)


class Searched:
    """A search whose runs end at once, with the scores 1, 2, 3, ... or the given ones."""

    def __init__(self, plan: Plan, results: Results, clock=None) -> None:
        self.plan, self.results, self.output = plan, results.create(), io.StringIO()
        record_plan(plan, results)
        self.log = TrialLog(plan, results)
        if clock:
            self.log.meter = Meter(self.log.path, plan.budget, clock)
        self.proposals = Proposals(self.log, View(Console(file=self.output, width=300)))

    def end(self, run: Run, score: float) -> None:
        finish_runs(self.results, [run], score)
        self.proposals.on_end(run, {"status": "done"})

    def to_the_end(self) -> "Searched":
        while run := self.proposals.next():
            self.end(run, self.log.run_count)
        return self

    def confirmed(self) -> list[tuple[int, int]]:
        """Number and fresh seed of the runs that are made, all of which end."""
        runs = self.log.confirm()
        for run in runs:
            self.end(run, 1.0)
        return [(run.variant, run.seed) for run in runs]


def test_settings_that_do_not_fit_together_do_not_end_a_search(results):
    """One width in sixteen goes with the heads: 30 misfits in a row come about once in seven settings."""
    ranges = {"model.width": Range(16, 271), "model.heads": Range([16]), **RATE}

    search = Searched(plan(ranges, "40"), results).to_the_end()

    assert len(search.log.params) == 40
    assert search.output.getvalue() == ""


def test_no_setting_is_run_twice(results):
    """Of three settings a study has run one before."""
    ranges = {"model.width": Range([16, 32, 48])}
    known_run = plan(ranges, "40").run(0, {"model.width": 32})
    finish_runs(results, [known_run], 7.0)

    search = Searched(plan(ranges, "40"), results).to_the_end()

    assert len(search.log.params) == 3
    assert search.output.getvalue().count("cached result of another study") == 1


@pytest.mark.parametrize(
    ("rate", "reason"),
    [
        ({}, "All settings are invalid, such as: "),
        (RATE, "Of 1,000 random settings, 0 were tried before, 1,000 are invalid, such as: "),
    ],
)
def test_search_without_valid_settings_ends_with_a_reason(results, rate, reason):
    search = Searched(plan({"model.width": Range([17, 19]), **rate}, "40"), results).to_the_end()

    assert search.log.params == {}
    assert search.output.getvalue().startswith(reason)
    assert "heads" in search.output.getvalue()


def test_a_space_is_searched_when_all_that_fits_together_was_tried(results):
    """Of six settings three fit."""
    ranges = {"model.width": Range([16, 17, 24]), "model.heads": Range([8, 16])}

    search = Searched(plan(ranges, "40"), results).to_the_end()

    assert sorted((params["model.width"], params["model.heads"]) for params in search.log.params.values()) == [
        (16, 8), (16, 16), (24, 8),
    ]  # fmt: skip
    assert search.output.getvalue() == "All valid settings were tried, so the search ends.\n"


@pytest.mark.parametrize("amount", range(1, 9))
def test_a_budget_of_runs_is_all_that_is_run(results, amount):
    """Fresh seeds get no more than half of it."""
    search = Searched(plan(RATE, str(amount), seeds=3), results).to_the_end()

    fresh = search.confirmed()

    assert len(search.log.params) + len(fresh) == amount
    assert len(fresh) == min(amount // 2, 3)
    assert search.log.is_settled()


def test_the_plan_says_beforehand_what_the_budget_is_for():
    assert (
        plan(RATE, "44", seeds=2).split
        == "44 runs in total: 24 to search, 20 for the best 10 with fresh seeds"
    )
    assert plan(RATE, "4", seeds=3).split == "4 runs in total: 2 to search, 2 for the best with fresh seeds"
    assert plan(RATE, "1", seeds=3).split == "1 run in total, without fresh seeds"
    assert (
        plan(RATE, "2h", seeds=3).split
        == "2 hours in total, at most half of it for 30 runs of the best 10 with fresh seeds"
    )


def test_larger_budget_resumes_and_reserves_runs_for_a_new_best(results):
    """Each later trial is better than those before, so that its fresh seeds are new, and paid for."""
    Searched(plan(RATE, "4", seeds=1, confirm=1), results).to_the_end().confirmed()

    search = Searched(plan(RATE, "6", seeds=1, confirm=1), results).to_the_end()

    assert len(search.log.params) == 4
    assert search.confirmed() == [(3, 1)]
    assert search.log.run_count == 6
    assert search.log.is_settled()


def test_runs_of_a_larger_budget_that_no_trial_can_use_are_named(results):
    """Later trials are worse, so that they need no fresh seeds. Three seeds stay reserved for a new best."""

    def search(budget: str) -> TrialLog:
        searched = Searched(plan(RATE, budget, seeds=3, confirm=3), results)
        while run := searched.proposals.next():
            searched.end(run, -searched.log.run_count)
        searched.confirmed()
        return searched.log

    assert search("12").unspent == ""
    log = search("16")
    assert (log.run_count, log.is_settled()) == (13, True)
    assert log.unspent == (
        ". Not used: 3 runs, because another trial needs 4 (3 of them for fresh seeds, if it is among the best)."
        " A larger --budget continues"
    )
    assert search("17").run_count == 14


def test_running_runs_are_counted_before_their_scores_are_known(results):
    search = Searched(plan(RATE, "4", seeds=1, confirm=2), results)

    proposed = [search.proposals.next() for _ in range(4)]

    assert [run is not None for run in proposed] == [True, True, False, False]


def test_hours_are_kept_for_fresh_seeds_by_what_a_run_takes(results):
    """Ten runs at most with fresh seeds; each takes a quarter of an hour, so half of the four hours are kept.
    Then eight fit.
    """
    clock_time = [0.0]
    search = Searched(plan(RATE, "4h", seeds=2, confirm=5), results, lambda: clock_time[0])
    while run := search.proposals.next():
        clock_time[0] += 900
        search.end(run, clock_time[0])
    source = Source(search.proposals.waiting, search.proposals.meter)

    assert (len(search.log.params), search.proposals.is_over, source.is_over) == (8, True, False)
    clock_time[0] += 7200
    assert source.is_over


def test_the_best_are_those_of_this_definition_whatever_was_searched_last(results):
    """Each later trial is better than those before."""
    first = Searched(plan(RATE, "6", seeds=1, confirm=2), results).to_the_end()
    first.confirmed()
    narrow = {"train.learning_rate": Range(1e-4, 1e-3, log=True)}
    # `plan.json` is now this one's
    other_search = Searched(plan(narrow, "8", seeds=1, confirm=2), results).to_the_end()

    reloaded = TrialLog(first.plan, results)

    assert [(run.variant, run.seed) for run in reloaded.best()] == [(3, 1), (2, 1)]
    assert reloaded.is_settled()
    assert [run.variant for run in TrialLog(other_search.plan, results).best()] == [5, 4]
