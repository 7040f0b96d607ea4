"""What a search's log of trials and its records say together, without Ray."""

import tiny_search

from recstudy.records import Results
from recstudy.study.plan import record_plan
from recstudy.study.search import SearchPlan, make_search
from recstudy.study.trials import TrialLog
from recstudy.testing import make_result

FOUR = [
    {"model.latent_steps": steps, "train.batch_size": size, "train.learning_rate": 5e-3} for steps in (1, 2) for size in (16, 32)
]
SIX = [*FOUR, *({**params, "model.latent_steps": 3} for params in FOUR[:2])]


def finish(results: Results, run, score: float) -> None:
    results.run(run.id).finish(make_result(score))


def searched(plan: SearchPlan, results: Results, settings: list[dict], scores: list[float]) -> TrialLog:
    """The log of a search whose trials have these scores, which is now the one of its name."""
    record_plan(plan, results)
    log = TrialLog(plan, results)
    for number, (params, score) in enumerate(zip(settings, scores, strict=True)):
        log.add(plan.run(number, params), params)
        finish(results, plan.run(number, params), score)
    return log


def test_the_best_are_those_of_this_definition_whatever_was_searched_last(results):
    """Then with other epochs, in the reverse order and with more trials: `plan.json` is the other's."""
    plan = make_search(tiny_search.study)
    log = searched(plan, results, FOUR, [70.0, 90.0, 80.0, 60.0])
    for run in log.confirm():
        finish(results, run, 85.0)
    other = make_search(tiny_search.study, changes={"train.epochs": 7}, budget="8")
    searched(other, results, SIX, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])

    again = TrialLog(plan, results)

    assert [(run.variant, run.seed) for run in again.best()] == [(1, 1), (2, 1)]
    assert again.settled()
    assert [run.variant for run in TrialLog(other, results).best()] == [5, 4]
