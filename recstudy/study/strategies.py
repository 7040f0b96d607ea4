"""How a search chooses what to try next, and which runs it stops early: samplers and pruners, ours and a user's.

A sampler is a function of the search's plan and a seed that gives one of Optuna's samplers. A pruner is a function that looks at
the scores of a run, epoch by epoch, and at those of the others, and says whether the run is stopped:

    @PRUNERS.add("hopeless")
    def hopeless(run, others, epochs):
        return max(run) >= 3 and max(run.values()) < 20
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING

from recstudy.errors import ConfigError
from recstudy.plugins import Registry

if TYPE_CHECKING:  # half a second, which only a search that runs is to wait for
    from optuna.samplers import BaseSampler

    from recstudy.study.search import SearchPlan

    Sampler = Callable[[SearchPlan, int], BaseSampler]

Scores = Mapping[int, float]  # epochs done -> the first objective on the selection split, larger is better
Pruner = Callable[[Scores, Sequence[Scores], int], bool]

SAMPLERS: "Registry[Sampler]" = Registry("sampler")
PRUNERS: Registry[Pruner] = Registry("pruner")
POPULATION = 16  # of NSGA-II: budgets here are tens to hundreds of runs, its own 50 would be most of them
ETA = 4  # of ASHA: one run of so many goes on beyond each rung
SAMPLES = 3  # runs that have come as far, below which the median says nothing


@SAMPLERS.add("tpe")
def tpe(plan: "SearchPlan", seed: int) -> "BaseSampler":
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, multivariate=True, group=plan.conditional)


@SAMPLERS.add("gp")
def gp(plan: "SearchPlan", seed: int) -> "BaseSampler":
    from optuna.samplers import GPSampler

    return GPSampler(seed=seed)


@SAMPLERS.add("cmaes")
def cmaes(plan: "SearchPlan", seed: int) -> "BaseSampler":
    from optuna.samplers import CmaEsSampler

    if len(plan.objectives) > 1:
        raise ConfigError(f"--sampler cmaes takes one objective, but {plan.study.name} has {len(plan.objectives)}")
    return CmaEsSampler(seed=seed, warn_independent_sampling=False)


@SAMPLERS.add("nsgaii")
def nsgaii(plan: "SearchPlan", seed: int) -> "BaseSampler":
    from optuna.samplers import NSGAIISampler

    return NSGAIISampler(seed=seed, population_size=POPULATION)


@SAMPLERS.add("qmc")
def qmc(plan: "SearchPlan", seed: int) -> "BaseSampler":
    from optuna.samplers import QMCSampler

    return QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False, warn_asynchronous_seeding=False)


@SAMPLERS.add("random")
def random(plan: "SearchPlan", seed: int) -> "BaseSampler":
    from optuna.samplers import RandomSampler

    return RandomSampler(seed=seed)


@PRUNERS.add("asha")
def asha(run: Scores, others: Sequence[Scores], epochs: int) -> bool:
    """Stop a run that reaches a rung below the best quarter of those that were there before it (ASHA; Li et al. 2020).

    Rungs are at a ninth of the epochs, and at four times as many.
    """
    rung, now = grace(epochs), max(run)
    while rung * ETA <= min(now, epochs):
        rung *= ETA
    reached = [other[min(epoch for epoch in other if epoch >= rung)] for other in others if max(other) >= rung]
    if now < rung or not reached or any(rung <= epoch < now for epoch in run):
        return False
    from numpy import percentile

    return bool(run[now] < percentile(reached, (1 - 1 / ETA) * 100))


@PRUNERS.add("median")
def below_median(run: Scores, others: Sequence[Scores], epochs: int) -> bool:
    """Stop a run whose best score is below the median of the others' means up to the same epoch (Golovin et al. 2017)."""
    least, now = grace(epochs), max(run)
    past = [[score for epoch, score in other.items() if least <= epoch <= now] for other in others if max(other) >= now]
    means = [fmean(scores) for scores in past if scores]
    return now >= least and len(means) >= SAMPLES and max(run.values()) < median(means)


def grace(epochs: int) -> int:
    """Return the epochs before which no run is stopped."""
    return max(1, epochs // 9)
