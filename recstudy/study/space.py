"""Optuna's side of a search: what to try next, given what the records say of the trials before.

The records are the truth. An Optuna study is made anew from them each time a search begins, in memory or in the storage
that optuna-dashboard reads; trials that a killed driver left open there are told FAIL.
"""

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import isfinite, sqrt
from statistics import fmean
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.importance import BaseImportanceEvaluator, FanovaImportanceEvaluator, PedAnovaImportanceEvaluator
from optuna.samplers import BaseSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial
from scipy.special import stdtrit

from recstudy.errors import ConfigError, StorageError
from recstudy.programs.settings import Tunable
from recstudy.records.stores import first_line, without_secrets
from recstudy.records.study_schema import FEWEST_TRIALS, ImportanceRecord
from recstudy.study.plan import Plan
from recstudy.study.search import FAMILY, Params, readable
from recstudy.study.strategies import SAMPLERS
from recstudy.study.trials import State, Tried

STATES: dict[State, TrialState] = {"done": TrialState.COMPLETE, "stopped": TrialState.PRUNED, "failed": TrialState.FAIL}
DIRECTIONS = {"max": StudyDirection.MAXIMIZE, "min": StudyDirection.MINIMIZE}
HALVES = 12  # of the trials, drawn for the intervals of importances: some seconds for 200 trials
RUN_ID = "run id"  # the attribute by which a trial is known in a storage

optuna.logging.set_verbosity(optuna.logging.ERROR)


class Optimizer:
    """Asks a sampler for settings and tells it what came of them.

    Args:
        plan: the search.
        tried: its trials so far, from the records.
        storage: a journal file or a database URL in which optuna-dashboard finds every trial; none by default.
    """

    def __init__(self, plan: Plan, tried: Sequence[Tried], storage: str = "") -> None:
        self.plan, self.single = plan, len(plan.objectives) == 1
        name = f"{plan.study.name} {plan.folder} {plan.definition}"
        directions = [DIRECTIONS[way] for way in plan.objectives.values()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)  # TPE in groups, GP and QMC are called so since Optuna 3
            sampler = SAMPLERS[plan.sampler](plan, len(tried))  # by another seed once it goes on: it then draws something else
        if not isinstance(sampler, BaseSampler):
            raise ConfigError(f"the sampler {plan.sampler!r} must give one of Optuna's samplers, but gave {sampler!r}")
        try:
            kept = storage if "://" in storage else JournalStorage(JournalFileBackend(storage)) if storage else None
            self.study = optuna.create_study(
                storage=kept, sampler=sampler, study_name=name, directions=directions, load_if_exists=True
            )
            self.study.stop = lambda: None  # type: ignore[method-assign]  # by a sampler with nothing left: it may draw again
            self._match(tried)
        except Exception as error:
            if not storage:
                raise
            shown = without_secrets(storage)
            why = first_line(error).replace(storage, shown)
            raise StorageError(f"--optuna-storage {shown} cannot be used: {why}") from None
        self._open: dict[str, Trial] = {}  # by run id
        self._reported: dict[str, int] = {}  # the last epoch of each

    def _match(self, tried: Sequence[Tried]) -> None:
        """Make the study what the records say: ghosts of a killed driver are told FAIL, what it lacks is added."""
        for _ in self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):  # killed before it was asked for
            self.study.tell(self.study.ask(), state=TrialState.FAIL)
        known = set()
        for trial in self.study.get_trials(deepcopy=False):
            if not trial.state.is_finished():
                self.study.tell(trial.number, state=TrialState.FAIL)
            elif trial.state is not TrialState.FAIL:
                known.add(trial.user_attrs.get(RUN_ID))
        self.study.add_trials([self._frozen(trial) for trial in tried if trial.run_id not in known])

    def _frozen(self, tried: Tried) -> FrozenTrial:
        fields = self.plan.space.ranges[self.plan.space.family_of(tried.params)]
        kinds: dict[str, BaseDistribution] = {path: distribution(fields[path]) for path in tried.params if path != FAMILY}
        if FAMILY in tried.params:
            kinds[FAMILY] = CategoricalDistribution(tuple(self.plan.space.bases))
        return create_trial(
            state=STATES[tried.state],
            values=None if tried.state != "done" else list(tried.values),
            params=dict(tried.params),
            distributions=kinds,
            user_attrs={RUN_ID: tried.run_id},
            intermediate_values=dict(tried.scores) if self.single else {},
        )

    def ask(self, fixed: Params | None = None) -> tuple[Trial, Params]:
        """New settings by the sampler, or `fixed` ones; the trial is to be told something."""
        if fixed is not None:
            self.study.enqueue_trial(dict(fixed))
        trial, families = self.study.ask(), tuple(self.plan.space.bases)
        family = str(trial.suggest_categorical(FAMILY, families)) if len(families) > 1 else families[0]
        fields = self.plan.space.ranges[family]
        return trial, self.plan.space.settings(family, lambda path: readable(_suggest(trial, path, fields[path])))

    def begun(self, trial: Trial, run_id: str, label: str) -> None:
        """A trial's run is under way."""
        trial.set_user_attr(RUN_ID, run_id)
        trial.set_user_attr("run", label)
        self._open[run_id] = trial

    @property
    def under_way(self) -> int:
        return len(self._open)

    def epoch(self, run_id: str, epoch: int, score: float | None) -> None:
        """An epoch's score, for the pictures of optuna-dashboard."""
        if self.single and score is not None and run_id in self._open and epoch > self._reported.get(run_id, -1):
            self._open[run_id].report(score, epoch)
            self._reported[run_id] = epoch  # a run that was killed reports some epochs again

    def ended(self, run_id: str, state: State, values: Sequence[float | None]) -> None:
        """What came of an open run; a value that is missing or no number is told as FAIL."""
        if run_id in self._open:
            self._reported.pop(run_id, None)
            self.tell(self._open.pop(run_id), state, values)

    def tell(self, trial: Trial, state: State, values: Sequence[float | None] = ()) -> None:
        numbers = [value for value in values if value is not None and isfinite(value)]
        whole = state == "done" and len(numbers) == len(self.plan.objectives)
        self.study.tell(trial, numbers if whole else None, state=STATES[state if whole or state != "done" else "failed"])

    def importance(self) -> ImportanceRecord:
        """Share of each field in the variance of each objective, as far as it can be computed, with its interval."""
        done = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        settings = {tuple(sorted(trial.params.items())) for trial in done}  # a repeated proposal is one trial
        evaluators: dict[str, BaseImportanceEvaluator] = {
            "PED-ANOVA": PedAnovaImportanceEvaluator(),
            "fANOVA": FanovaImportanceEvaluator(seed=0),
        }
        found: dict[str, dict[str, dict[str, float]]] = {name: {} for name in self.plan.objectives}
        known: dict[str, dict[str, dict[str, tuple[float, float]]]] = {name: {} for name in found}
        if len(settings) < FEWEST_TRIALS:
            few = f"too few trials: {len(settings)} finished, and it takes {FEWEST_TRIALS}"
            return ImportanceRecord(trials=len(settings), importance=found, missing=dict.fromkeys(evaluators, few))
        missing: dict[str, str] = {}
        for (at, (objective, way)), name in itertools.product(enumerate(self.plan.objectives.items()), evaluators):
            shares = partial(self._shares, evaluators[name], at, 1 if way == "min" else -1)  # PED-ANOVA: what makes it small
            try:
                found[objective][name] = shares(done)
                known[objective][name] = intervals(found[objective][name], shares, done)
            except (ValueError, RuntimeError) as error:  # such as all values the same
                missing[name] = str(error).splitlines()[0]
            if not found[objective].get(name):
                missing.setdefault(name, "the trials do not differ in any field")
        return ImportanceRecord(trials=len(settings), importance=found, intervals=known, missing=missing)

    def _shares(
        self, evaluator: BaseImportanceEvaluator, objective: int, sign: int, trials: Sequence[FrozenTrial]
    ) -> dict[str, float]:
        """Return each field's share by these trials (ValueError, RuntimeError: it cannot be computed)."""
        study = optuna.create_study(directions=self.study.directions)
        study.add_trials(trials)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # which reminds of the sign
            shares = optuna.importance.get_param_importances(
                study, evaluator=evaluator, target=lambda trial: sign * trial.values[objective]
            )
        return {path: float(share) for path, share in shares.items() if isfinite(share)}


def intervals(
    shares: Mapping[str, float], by: Callable[[Sequence[FrozenTrial]], Mapping[str, float]], trials: Sequence[FrozenTrial]
) -> dict[str, tuple[float, float]]:
    """Return the 95 % interval of each share, from 0 to 1: what random halves of the trials give instead.

    With half of the trials left out, the mean square of how far the halves are off is the variance itself (Shao and Wu 1989).
    """
    lot, halves = np.random.default_rng(0), list[Mapping[str, float]]()
    for _ in range(HALVES):
        half = [trials[at] for at in sorted(lot.permutation(len(trials))[: len(trials) // 2])]
        with suppress(ValueError, RuntimeError):  # of a half whose values are all the same
            halves.append(by(half))
    if len(halves) < 2:
        return {}
    quantile, ends = float(stdtrit(len(halves) - 1, 0.975)), {}
    for path, share in shares.items():
        reach = quantile * sqrt(fmean((half.get(path, 0.0) - share) ** 2 for half in halves))
        ends[path] = max(0.0, share - reach), min(1.0, share + reach)
    return ends


def distribution(range: Tunable) -> BaseDistribution:
    if range.values:
        return CategoricalDistribution(range.values)
    if range.whole:
        return IntDistribution(int(range.low), int(range.high), log=range.log)
    return FloatDistribution(range.low, range.high, log=range.log)


def _suggest(trial: Trial, path: str, range: Tunable) -> Any:
    if range.values:
        return trial.suggest_categorical(path, range.values)
    if range.whole:
        return trial.suggest_int(path, int(range.low), int(range.high), log=range.log)
    return trial.suggest_float(path, range.low, range.high, log=range.log)
