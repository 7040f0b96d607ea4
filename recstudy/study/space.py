"""Propose trials with Optuna, based on the recorded trials.

The records are the authority: each session of a search builds a new Optuna study from them. The study is in
memory, or in the storage of optuna-dashboard, where trials that a killed driver left open are marked FAIL.
"""

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from math import isfinite, sqrt
from statistics import fmean
from typing import Any

import numpy as np
import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.importance import FanovaImportanceEvaluator, PedAnovaImportanceEvaluator
from optuna.samplers import BaseSampler, RandomSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState
from scipy.special import stdtrit

from recstudy.base.errors import ConfigError, StorageError
from recstudy.programs.settings import Range
from recstudy.records.plans import FAMILY
from recstudy.records.stores import first_line, without_secrets
from recstudy.records.study_schema import FEWEST_TRIALS, ImportanceRecord
from recstudy.study.plan import Plan
from recstudy.study.search import Params, label, readable
from recstudy.study.strategies import SAMPLERS
from recstudy.study.trials import State, Tried

STATES = {"done": TrialState.COMPLETE, "stopped": TrialState.PRUNED, "failed": TrialState.FAIL}
# Random halves of the trials for the intervals of importances: some seconds for 200 trials.
HALVES = 12
RUN_ID = "run id"  # the attribute by which a trial is known in a storage
Shares = dict[str, float]  # field -> its share in the variance of an objective
EVALUATORS: dict[str, Callable[[], Any]] = {
    "PED-ANOVA": PedAnovaImportanceEvaluator,
    "fANOVA": partial(FanovaImportanceEvaluator, seed=0),  # it loads scikit-learn
}

optuna.logging.set_verbosity(optuna.logging.ERROR)


class Optimizer:
    """Asks a sampler for settings, and tells it the outcomes.

    Args:
        plan: The plan of the search.
        tried: Its recorded trials so far.
        storage: A journal file or database URL for optuna-dashboard. By default the study is in memory.
    """

    def __init__(self, plan: Plan, tried: Sequence[Tried], storage: str = "") -> None:
        self.plan = plan
        self._open: dict[str, Trial] = {}  # by run id
        self._reported: dict[str, int] = {}  # the last epoch of each
        with warnings.catch_warnings():
            # Optuna calls TPE in groups, GP and QMC experimental since version 3.
            warnings.simplefilter("ignore", ExperimentalWarning)
            # The number of past trials is the seed, so that a resumed search does not repeat its proposals.
            sampler = SAMPLERS[plan.sampler](plan, len(tried))
        if not isinstance(sampler, BaseSampler):
            raise ConfigError(
                f"the sampler {plan.sampler!r} must return an Optuna sampler, but returned {sampler!r}"
            )
        try:
            self.study = optuna.create_study(
                storage=JournalStorage(JournalFileBackend(storage))
                if storage and "://" not in storage
                else storage or None,
                # A cheap sampler until all past trials are in the study.
                sampler=RandomSampler(),
                study_name=f"{plan.study.name} {plan.folder} {plan.definition}",
                directions=["maximize" if way == "max" else "minimize" for way in plan.objectives.values()],
                load_if_exists=True,
            )
            self._add(tried)
        except Exception as error:
            if not storage:
                raise
            location = without_secrets(storage)
            why = first_line(error).replace(storage, location)
            raise StorageError(f"--optuna-storage {location} cannot be used: {why}") from None
        self.study.sampler = sampler
        # A sampler stops the study if it has nothing left to propose; here it may propose again.
        self.study.stop = lambda: None  # type: ignore[method-assign]

    def _add(self, tried: Sequence[Tried]) -> None:
        """Update the Optuna study from the records, and mark open trials of a killed driver FAIL."""
        # These trials were enqueued, and the driver was killed before it asked for them.
        for _ in self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            self.study.ask()
        for ghost in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            self.study.tell(ghost.number, state=TrialState.FAIL)
        end_states = (TrialState.COMPLETE, TrialState.PRUNED)
        known_ids = {
            trial.user_attrs.get(RUN_ID) for trial in self.study.get_trials(deepcopy=False, states=end_states)
        }
        for trial in (trial for trial in tried if trial.run_id not in known_ids):
            self.start_trial(self.ask(trial.params)[0], trial.run_id, label(trial.params))
            for epoch, score in trial.scores.items():
                self.report_epoch(trial.run_id, epoch, score)
            self.end_trial(trial.run_id, trial.state, trial.values)

    def ask(self, fixed: Params | None = None) -> tuple[Trial, Params]:
        """Return new settings from the sampler, or `fixed` settings. Report its outcome later."""
        if fixed is not None:
            self.study.enqueue_trial(dict(fixed))
        trial, families = self.study.ask(), tuple(self.plan.space.bases)
        family = str(trial.suggest_categorical(FAMILY, families)) if len(families) > 1 else families[0]
        ranges = self.plan.space.ranges[family]
        return trial, self.plan.space.settings(
            family, lambda path: readable(_suggest(trial, path, ranges[path]))
        )

    def start_trial(self, trial: Trial, run_id: str, label: str) -> None:
        """Mark a trial as running."""
        trial.set_user_attr(RUN_ID, run_id)
        trial.set_user_attr("run", label)
        self._open[run_id] = trial

    @property
    def running_trials(self) -> int:
        return len(self._open)

    def report_epoch(self, run_id: str, epoch: int, score: float | None) -> None:
        """Report the score of an epoch, for the plots of optuna-dashboard."""
        is_new = run_id in self._open and epoch > self._reported.get(run_id, -1)
        if is_new and score is not None and len(self.plan.objectives) == 1:
            self._open[run_id].report(score, epoch)
            # A resumed run reports some epochs again.
            self._reported[run_id] = epoch

    def end_trial(self, run_id: str, state: State, values: Sequence[float | None]) -> None:
        """Tell the outcome of an open trial."""
        if run_id in self._open:
            self.tell(self._open.pop(run_id), state, values)

    def tell(self, trial: Trial, state: State, values: Sequence[float | None] = ()) -> None:
        """Tell the Optuna study the outcome of a trial. If a value is missing or not finite, the trial is
        FAIL.
        """
        numbers = [value for value in values if value is not None and isfinite(value)]
        if state == "done" and len(numbers) < len(self.plan.objectives):
            state = "failed"
        self.study.tell(trial, numbers if state == "done" else None, STATES[state])

    def importance(self) -> ImportanceRecord:
        """Return each field's share of the variance of each objective with its interval, where it is
        computable.
        """
        trials = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        # a repeated proposal is one trial
        count = len({tuple(sorted(trial.params.items())) for trial in trials})
        shares: dict[str, dict[str, Shares]] = {name: {} for name in self.plan.objectives}  # by method
        bounds: dict[str, dict[str, Any]] = {name: {} for name in shares}
        missing_methods: dict[str, str] = {}
        if count < FEWEST_TRIALS:
            reason = f"too few trials: {count} finished, and it takes {FEWEST_TRIALS}"
            return ImportanceRecord(
                trials=count, importance=shares, missing=dict.fromkeys(EVALUATORS, reason)
            )
        for (index, (name, way)), method in product(enumerate(self.plan.objectives.items()), EVALUATORS):
            # PED-ANOVA: what makes it small
            compute = partial(self._shares, method, index, 1 if way == "min" else -1)
            try:
                shares[name][method] = compute(trials)
                bounds[name][method] = intervals(shares[name][method], compute, trials)
            except (ValueError, RuntimeError) as error:  # such as all values the same
                missing_methods[method] = str(error).splitlines()[0]
            if not shares[name].get(method):
                missing_methods.setdefault(method, "the trials do not differ in any field")
        return ImportanceRecord(trials=count, importance=shares, intervals=bounds, missing=missing_methods)

    def _shares(self, method: str, objective: int, sign: int, trials: Sequence[FrozenTrial]) -> Shares:
        """Return the share of each field by these trials.

        Raises:
            ValueError: It cannot be computed.
            RuntimeError: It cannot be computed.
        """
        study = optuna.create_study(directions=self.study.directions)
        study.add_trials(trials)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # which reminds of the sign
            shares = optuna.importance.get_param_importances(
                study, evaluator=EVALUATORS[method](), target=lambda trial: sign * trial.values[objective]
            )
        return {path: float(share) for path, share in shares.items() if isfinite(share)}


def intervals(
    shares: Shares, compute: Callable[[Sequence[FrozenTrial]], Shares], trials: Sequence[FrozenTrial]
) -> dict[str, tuple[float, float]]:
    """Return the 95 % confidence interval of each share, from 0 to 1, based on random halves of the trials.

    With half of the trials left out, the mean squared deviation of the halves is the variance itself
    (delete-d jackknife; Shao and Wu 1989).
    """
    generator, halves = np.random.default_rng(0), list[Shares]()
    for _ in range(HALVES):
        half = [trials[index] for index in sorted(generator.permutation(len(trials))[: len(trials) // 2])]
        # A half can have equal values only, which have no importances.
        with suppress(ValueError, RuntimeError):
            halves.append(compute(half))
    if len(halves) < 2:
        return {}
    quantile = float(stdtrit(len(halves) - 1, 0.975))
    bounds = {}
    for path, share in shares.items():
        error = quantile * sqrt(fmean((half.get(path, 0.0) - share) ** 2 for half in halves))
        bounds[path] = max(0.0, share - error), min(1.0, share + error)
    return bounds


def _suggest(trial: Trial, path: str, range: Range) -> Any:
    if range.values:
        return trial.suggest_categorical(path, range.values)
    if range.is_integer:
        return trial.suggest_int(path, int(range.low), int(range.high), log=range.log)
    return trial.suggest_float(path, range.low, range.high, log=range.log)
