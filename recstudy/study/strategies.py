"""Register samplers, which choose the trials of a search, and pruners, which stop poor runs early.

A sampler is a function of the search's plan and a seed that returns an Optuna sampler. A pruner is a function
of the scores of a run by epoch, the scores of the other runs, and the number of epochs. It returns whether
the run is stopped. Users can register their own:

    @PRUNERS.add("hopeless")
    def hopeless(run, others, epochs):
        return max(run) >= 3 and max(run.values()) < 20
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from recstudy.base.errors import ConfigError
from recstudy.plugins import Registry

# Finished epochs -> the first objective on the selection split, with the sign that makes larger values
# better.
Scores = Mapping[int, float]
Pruner = Callable[[Scores, Sequence[Scores], int], bool]

SAMPLERS: Registry[Callable[..., Any]] = Registry("sampler")  # functions of a plan and a seed
PRUNERS: Registry[Pruner] = Registry("pruner")
# ASHA: one in so many runs continues beyond each rung.
ETA = 4
# With fewer other runs at this epoch, the median means little.
SAMPLES = 3


def _add(name: str, kind: str, **options: Any) -> None:
    """Register a sampler of Optuna by its class and its arguments, apart from the seed."""

    @SAMPLERS.add(name)
    def make(plan: Any, seed: int) -> Any:
        # The import takes half a second, so only a running search imports it.
        import optuna.samplers

        if name == "cmaes" and len(plan.objectives) > 1:
            raise ConfigError(
                f"--sampler cmaes takes one objective, but {plan.study.name} has {len(plan.objectives)}"
            )
        # With conditions or families, trials have different fields, and TPE must group them.
        if name == "tpe":
            options["group"] = len(plan.space.bases) > 1 or bool(plan.space.when)
        return getattr(optuna.samplers, kind)(seed=seed, **options)


_add("tpe", "TPESampler", multivariate=True)
_add("gp", "GPSampler")
_add("cmaes", "CmaEsSampler", warn_independent_sampling=False)
# Optuna's default of 50 would use most of a budget of tens to hundreds of runs.
_add("nsgaii", "NSGAIISampler", population_size=16)
_add("qmc", "QMCSampler", scramble=True, warn_independent_sampling=False, warn_asynchronous_seeding=False)
_add("random", "RandomSampler")


@PRUNERS.add("asha")
def asha(run: Scores, other_runs: Sequence[Scores], epochs: int) -> bool:
    """Stop a run that is not among the best quarter of the runs so far at a rung (ASHA; Li et al. 2020).

    The rungs are at one ninth and four ninths of the epochs.
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
    """Stop a run whose best score is below the median of the other runs' mean scores up to this epoch.

    This is the median stopping rule of Golovin et al. (2017).
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
    """Return the number of epochs in which no run is stopped."""
    return max(1, epochs // 9)
