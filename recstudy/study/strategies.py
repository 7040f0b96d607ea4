"""How a search chooses what to try next, and which runs it stops early: samplers and pruners, ours and a
user's.

A sampler is a function of the search's plan and a seed that gives one of Optuna's samplers. A pruner is a
function that looks at the scores of a run, epoch by epoch, and at those of the others, and says whether the
run is stopped:

    @PRUNERS.add("hopeless")
    def hopeless(run, others, epochs):
        return max(run) >= 3 and max(run.values()) < 20
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from recstudy.errors import ConfigError
from recstudy.plugins import Registry

Scores = Mapping[int, float]  # epochs done -> the first objective on the selection split, larger is better
Pruner = Callable[[Scores, Sequence[Scores], int], bool]

SAMPLERS: Registry[Callable[..., Any]] = Registry("sampler")  # functions of a plan and a seed
PRUNERS: Registry[Pruner] = Registry("pruner")
ETA = 4  # of ASHA: one run of so many goes on beyond each rung
SAMPLES = 3  # runs that have come as far, below which the median says nothing


def _add(name: str, kind: str, **options: Any) -> None:
    """Register one of Optuna's samplers, by its class and what it is called with beside the seed."""

    @SAMPLERS.add(name)
    def make(plan: Any, seed: int) -> Any:
        import optuna.samplers  # half a second, which only a search that runs is to wait for

        if name == "cmaes" and len(plan.objectives) > 1:
            raise ConfigError(
                f"--sampler cmaes takes one objective, but {plan.study.name} has {len(plan.objectives)}"
            )
        if name == "tpe":  # settings differ in which fields they have
            options["group"] = len(plan.space.bases) > 1 or bool(plan.space.when)
        return getattr(optuna.samplers, kind)(seed=seed, **options)


_add("tpe", "TPESampler", multivariate=True)
_add("gp", "GPSampler")
_add("cmaes", "CmaEsSampler", warn_independent_sampling=False)
# its own 50 would be most of a budget of tens to hundreds of runs
_add("nsgaii", "NSGAIISampler", population_size=16)
_add("qmc", "QMCSampler", scramble=True, warn_independent_sampling=False, warn_asynchronous_seeding=False)
_add("random", "RandomSampler")


@PRUNERS.add("asha")
def asha(run: Scores, other_runs: Sequence[Scores], epochs: int) -> bool:
    """Stop a run that reaches a rung below the best quarter of those that were there before it (ASHA; Li et
    al. 2020).

    Rungs are at a ninth of the epochs, and at four times as many.
    """
    rung, last_epoch = grace(epochs), max(run)
    while rung * ETA <= min(last_epoch, epochs):
        rung *= ETA
    reached = [
        other_run[min(epoch for epoch in other_run if epoch >= rung)]
        for other_run in other_runs
        if max(other_run) >= rung
    ]
    if last_epoch < rung or not reached or any(rung <= epoch < last_epoch for epoch in run):
        return False
    from numpy import percentile

    return bool(run[last_epoch] < percentile(reached, (1 - 1 / ETA) * 100))


@PRUNERS.add("median")
def below_median(run: Scores, other_runs: Sequence[Scores], epochs: int) -> bool:
    """Stop a run whose best score is below the median of the others' means up to the same epoch (Golovin et
    al. 2017).
    """
    min_epochs, last_epoch = grace(epochs), max(run)
    past = [
        [score for epoch, score in other_run.items() if min_epochs <= epoch <= last_epoch]
        for other_run in other_runs
        if max(other_run) >= last_epoch
    ]
    means = [fmean(scores) for scores in past if scores]
    return last_epoch >= min_epochs and len(means) >= SAMPLES and max(run.values()) < median(means)


def grace(epochs: int) -> int:
    """Return the epochs before which no run is stopped."""
    return max(1, epochs // 9)
