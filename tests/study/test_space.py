"""Optuna's side of a search: made anew from the records, and never told what is not so."""

import optuna
import pytest
from test_search_plan import search

from recstudy.base.errors import ConfigError, StorageError
from recstudy.records.study_schema import FEWEST_TRIALS
from recstudy.study.plan import make_plan
from recstudy.study.space import Optimizer
from recstudy.study.trials import Tried

STATES = optuna.trial.TrialState


def plan(**changes):
    return make_plan(search(), **changes)


def states(optimizer):
    return [trial.state for trial in optimizer.study.trials]


def test_optimizer_records_the_outcome_of_a_run():
    optimizer = Optimizer(plan(), [])
    for run_id in "abcd":
        optimizer.start_trial(optimizer.ask()[0], run_id, run_id)
        optimizer.report_epoch(run_id, 0, 50.0)
        optimizer.report_epoch(run_id, 1, None)

    optimizer.end_trial("a", "done", [71.5])
    optimizer.end_trial("b", "stopped", [None])
    optimizer.end_trial("c", "failed", [])
    optimizer.end_trial("d", "done", [float("nan")])  # the search is told FAIL, not left waiting
    optimizer.end_trial("z", "done", [1.0])  # none of its trials

    assert states(optimizer) == [STATES.COMPLETE, STATES.PRUNED, STATES.FAIL, STATES.FAIL]
    assert optimizer.study.trials[0].intermediate_values == {0: 50.0}
    assert optimizer.study.best_value == 71.5


def test_optuna_study_is_rebuilt_from_the_records():
    tried = [
        Tried({"model.latent_steps": 2, "train.batch_size": 32}, "a", "done", [80.0], {0: 60.0, 1: 80.0}),
        Tried({"model.latent_steps": 5, "train.batch_size": 64}, "b", "stopped", scores={0: 20.0}),
        Tried({"model.latent_steps": 6, "train.batch_size": 16}, "c", "failed"),
    ]

    optimizer = Optimizer(plan(), tried)

    assert states(optimizer) == [STATES.COMPLETE, STATES.PRUNED, STATES.FAIL]
    assert optimizer.study.best_params == {"model.latent_steps": 2, "train.batch_size": 32}
    assert optimizer.study.trials[1].intermediate_values == {0: 20.0}


def test_several_objectives():
    objectives = {"score": "max", "gflops": "min"}
    optimizer = Optimizer(make_plan(search(objectives=objectives), sampler="nsgaii"), [])
    for run_id, values in {"a": [70.0, 0.2], "b": [60.0, 0.1], "c": [50.0, 0.3], "d": [90.0, None]}.items():
        optimizer.start_trial(optimizer.ask()[0], run_id, run_id)
        optimizer.report_epoch(run_id, 0, 1.0)
        optimizer.end_trial(run_id, "done", values)

    assert sorted(tuple(trial.values) for trial in optimizer.study.best_trials) == [(60.0, 0.1), (70.0, 0.2)]
    assert states(optimizer)[-1] == STATES.FAIL
    with pytest.raises(ConfigError, match="cmaes takes one objective, but s has 2"):
        Optimizer(make_plan(search(objectives=objectives), sampler="cmaes"), [])


def test_a_storage_is_brought_up_to_the_records(tmp_path):
    """A killed driver left a trial open there and had put another down, and one that ended is missing."""
    journal = str(tmp_path / "optuna.journal")
    first = Optimizer(plan(), [], journal)
    first.start_trial(first.ask()[0], "a", "a")
    first.end_trial("a", "done", [70.0])
    first.start_trial(first.ask()[0], "ghost", "ghost")
    first.study.enqueue_trial({"model.latent_steps": 2, "train.batch_size": 32})

    done = [
        Tried({"model.latent_steps": 2, "train.batch_size": 32}, run_id, "done", [70.0]) for run_id in "ab"
    ]
    optimizer = Optimizer(plan(), done, journal)

    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(journal))
    (name,) = optuna.get_all_study_names(storage)
    trials = optuna.load_study(study_name=name, storage=storage).trials
    assert [(trial.user_attrs.get("run id"), trial.state) for trial in trials] == [
        ("a", STATES.COMPLETE),
        ("ghost", STATES.FAIL),
        (None, STATES.FAIL),
        ("b", STATES.COMPLETE),
    ]
    assert optimizer.ask({"model.latent_steps": 4, "train.batch_size": 32})[1]["model.latent_steps"] == 4


@pytest.mark.parametrize("storage", ["nosuch://somewhere/db", "/proc/nowhere/optuna.journal"])
def test_a_storage_that_cannot_be_used_is_named(storage):
    with pytest.raises(StorageError, match=f"--optuna-storage {storage} cannot be used"):
        Optimizer(plan(), [], storage)


def test_importance_finds_the_field_that_matters():
    """The score is the number of latent steps: nothing else moves it."""
    optimizer = Optimizer(plan(sampler="random"), [])
    settings = set()
    for number in range(40):
        trial, params = optimizer.ask()
        settings.add(tuple(params.values()))
        optimizer.start_trial(trial, str(number), "")
        optimizer.end_trial(str(number), "done", [float(params["model.latent_steps"])])

    importance = optimizer.importance()

    assert importance.trials == len(settings)  # the same settings twice are one trial
    assert importance.missing == {}
    for shares in importance.importance["selection_top1_accuracy"].values():
        assert sum(shares.values()) == pytest.approx(1)
        assert shares["model.latent_steps"] > 0.8
    for method, intervals in importance.intervals["selection_top1_accuracy"].items():
        for path, (low, high) in intervals.items():
            assert 0 <= low <= importance.importance["selection_top1_accuracy"][method][path] <= high <= 1
        other_bounds = [high for path, (_, high) in intervals.items() if path != "model.latent_steps"]
        assert intervals["model.latent_steps"][0] > max(other_bounds)


@pytest.mark.parametrize("count", [0, FEWEST_TRIALS - 1])
def test_importance_of_too_few_trials_is_missing_with_its_reason(count):
    """Of two trials each of four fields had 25 %."""
    tried = [
        Tried(
            {"model.latent_steps": 1 + number % 6, "train.batch_size": 2 ** (4 + number // 6)},
            str(number),
            "done",
            [float(number)],
        )
        for number in range(count)
    ]
    importance = Optimizer(plan(), tried).importance()

    assert (importance.trials, importance.importance) == (count, {"selection_top1_accuracy": {}})
    assert importance.missing == dict.fromkeys(
        ["PED-ANOVA", "fANOVA"], f"too few trials: {count} finished, and it takes 10"
    )
