"""Samplers, pruners and conditional ranges: recstudy's own beside a user's."""

import random

import optuna
import pytest
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.schedulers import AsyncHyperBandScheduler, MedianStoppingRule, TrialScheduler
from refusals import refused
from test_search_plan import VITRM, search

from recstudy import Range
from recstudy.base.errors import ConfigError
from recstudy.cluster.pruning import PrunedBy
from recstudy.plugins import gathering
from recstudy.records import Results, append_line
from recstudy.records.reading import adapter
from recstudy.records.study_schema import PlanRecord
from recstudy.study.plan import make_plan
from recstudy.study.record import plan_record, record_plan
from recstudy.study.space import Optimizer
from recstudy.study.strategies import PRUNERS, SAMPLERS
from recstudy.study.trials import TrialLog

EPOCHS = 27
WHEN = {"train.batch_size": {"model.latent_steps": [2, 3]}}
RANGES = {"model.latent_steps": Range(1, 3), "train.batch_size": Range([16, 32])}


class Idle:
    """A controller of Tune's without trials."""

    def get_live_trials(self) -> list:
        return []


def tunes(rule: str) -> TrialScheduler:
    clock = ("epochs_done", "score", "max")
    if rule == "asha":
        return AsyncHyperBandScheduler(*clock, max_t=EPOCHS, grace_period=EPOCHS // 9, stop_last_trials=False)
    return MedianStoppingRule(*clock, grace_period=EPOCHS // 9, min_samples_required=3)


@pytest.mark.parametrize("rule", ["asha", "median"])
def test_our_pruners_stop_the_runs_that_tunes_stop(rule):
    """Twenty runs at a time, of random scores, in a random order."""
    chance, stopped = random.Random(0), 0
    for _ in range(20):
        scheduler, ours = tunes(rule), PRUNERS[rule]
        scores: dict[str, dict[int, float]] = {}
        trials = {f"{number}": TuneTrial("mine", stub=True) for number in range(20)}
        for trial in trials.values():
            scheduler.on_trial_add(Idle(), trial)
        waiting = list(trials)
        while waiting:
            name = chance.choice(waiting[:4])
            run = scores.setdefault(name, {})
            epoch = len(run) + 1
            run[epoch] = chance.gauss(epoch, 5)
            decision = scheduler.on_trial_result(
                Idle(), trials[name], {"epochs_done": epoch, "score": run[epoch]}
            )
            other_scores = [
                scores_of_run for other_name, scores_of_run in scores.items() if other_name != name
            ]
            assert ours(run, other_scores, EPOCHS) == (decision == TrialScheduler.STOP), (name, epoch)
            if decision == TrialScheduler.STOP or epoch == EPOCHS:
                waiting.remove(name)
                stopped += decision == TrialScheduler.STOP
    assert stopped > 20


def line(epoch: int, score: float) -> dict[str, float]:
    return {"epoch": epoch, "epochs_done": epoch + 1, "selection_top1_accuracy": score}


def pruning(folder, rule: str, **changes) -> PrunedBy:
    """Of a search of which four runs ended before, at 91 to 99."""
    plan = make_plan(search(**changes), stopping=rule, changes={"train.epochs": 9})
    results = Results(folder).create()
    record_plan(plan, results)
    log = TrialLog(plan, results)
    for number in range(4):
        params = {"model.latent_steps": number + 1, "train.batch_size": 16}
        run = plan.run(number, params)
        log.add(run, params)
        results.run(run.id).path.mkdir(parents=True)
        for epoch in range(9):
            append_line(results.run(run.id).epochs, {"epoch": epoch, "selection_top1_accuracy": 91.0 + epoch})
    return PrunedBy(log)


@pytest.mark.parametrize("rule", ["asha", "median"])
def test_resumed_search_knows_its_earlier_runs(tmp_path, rule):
    scheduler = pruning(tmp_path, rule)

    answers = [scheduler.stops("poor", line(epoch, 10.0)) for epoch in range(9)]

    assert any(answers)
    assert not scheduler.stops("good", line(0, 99.0))
    assert scheduler.name == rule  # which the record of a stopped run has


def test_user_pruner_decides_by_scores_of_which_higher_is_better(tmp_path):
    calls = []
    with gathering():

        @PRUNERS.add("mine")
        def mine(run, other_runs, epochs):
            calls.append((dict(run), sorted(map(max, other_runs)), epochs))
            return run[max(run)] < 50

        scheduler = pruning(tmp_path, "mine")
        assert not scheduler.stops("a", line(0, 60.0))
        assert scheduler.stops("a", line(1, 40.0))
        assert not scheduler.stops("b", {"status": "done"})

    assert calls == [({1: 60.0}, [9] * 4, 9), ({1: 60.0, 2: 40.0}, [9] * 4, 9)]


def test_a_pruner_that_raises_is_named_with_its_line(tmp_path):
    with gathering():
        PRUNERS.add("broken")(lambda run, other_runs, epochs: 1 / 0)
        scheduler = pruning(tmp_path, "broken")

        with pytest.raises(
            ConfigError,
            match=r"pruner 'broken' raised an error: .*test_strategies.py, line \d+: ZeroDivisionError",
        ):
            scheduler.stops("a", line(0, 60.0))


def test_user_sampler_proposes():
    with gathering():
        SAMPLERS.add("every")(lambda plan, seed: optuna.samplers.BruteForceSampler(seed=seed))
        SAMPLERS.add("none")(lambda plan, seed: None)
        optimizer = Optimizer(make_plan(search(ranges=RANGES), sampler="every"), [])
        proposals = []
        for number in range(6):
            trial, params = optimizer.ask()
            proposals.append(tuple(params.values()))
            optimizer.start_trial(trial, str(number), "")
            optimizer.end_trial(str(number), "done", [1.0])
        with pytest.raises(
            ConfigError, match="the sampler 'none' must return an Optuna sampler, but returned None"
        ):
            Optimizer(make_plan(search(), sampler="none"), [])

    assert sorted(proposals) == [(steps, size) for steps in (1, 2, 3) for size in (16, 32)]
    with pytest.raises(
        ConfigError, match="--sampler must be one of tpe, gp, cmaes, nsgaii, qmc, random, but got 'every'"
    ):
        make_plan(search(), sampler="every")


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("search_fields", [{}, {"ranges": RANGES, "when": WHEN}], ids=["all", "conditional"])
def test_every_sampler_proposes_settings_within_the_ranges_and_conditions(sampler, search_fields):
    plan = make_plan(search(**search_fields), sampler=sampler, families=("vitrm", "trm"))
    optimizer = Optimizer(plan, [])
    uses_batch_size = set()

    for number in range(14):  # more than any sampler's random start
        trial, params = optimizer.ask()
        fields = plan.space.ranges[params.get("family", "vitrm")]
        searched = not search_fields or params["model.latent_steps"] in (2, 3)
        assert set(params) - {"family"} == {path for path in fields if searched or path != "train.batch_size"}
        assert all(params[path] in fields[path] for path in params if path != "family")
        run = plan.run(number, params)
        assert run.config.train.batch_size == params.get("train.batch_size", VITRM.train.batch_size)
        uses_batch_size.add(searched)
        optimizer.start_trial(trial, run.id, run.label)
        optimizer.end_trial(run.id, "done", [float(number)])

    assert uses_batch_size == ({True, False} if search_fields else {True}) or sampler == "cmaes"
    assert [trial.state for trial in optimizer.study.trials] == [optuna.trial.TrialState.COMPLETE] * 14


def test_first_random_and_counted_trials_obey_conditions():
    """The preset has six steps, which are not in the range; batch sizes are 16 and 32, and the preset's
    beside one step.
    """
    plan = make_plan(
        search(
            ranges=RANGES,
            when=WHEN,
            first=[{"model.latent_steps": 1}, {"model.latent_steps": 3, "train.batch_size": 16}],
        )
    )
    full_grid = [{"model.latent_steps": 1}] + [
        {"model.latent_steps": steps, "train.batch_size": size} for steps in (2, 3) for size in (16, 32)
    ]

    assert list(plan.first)[-2:] == [
        {"model.latent_steps": 1},
        {"model.latent_steps": 3, "train.batch_size": 16},
    ]
    assert list(plan.space.combinations()) == full_grid
    draws = plan.space.draws(0)
    assert {repr(next(draws)) for _ in range(100)} == set(map(repr, full_grid))


def test_condition_is_a_part_of_the_search_definition_and_in_the_plan():
    plan = make_plan(search(ranges=RANGES, when=WHEN))
    record = plan_record(plan)

    assert plan.definition != make_plan(search(ranges=RANGES)).definition
    assert record.search.space["vitrm"]["train.batch_size"].when == {"model.latent_steps": (2, 3)}
    restored = adapter(PlanRecord).validate_json(
        adapter(PlanRecord).dump_json(record, by_alias=True, exclude_none=True)
    )
    assert restored.search.space == record.search.space


@refused(globals(), "changes", "conditions of a search")
def test_conditions_that_cannot_be_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        make_plan(search(ranges=RANGES, **changes), families=["vitrm"])
