"""What a number is called and how it is printed, and, where it can be computed from a run's answers, how."""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from traceback import extract_tb
from typing import Any, NamedTuple
from weakref import WeakSet

from recstudy.errors import ConfigError, choices, missing_package
from recstudy.metrics.answers import TASKS, Answers
from recstudy.plugins.files import INSTALLED, check_call
from recstudy.plugins.registry import PACKAGE
from recstudy.programs.metric import METRICS, Better, Metric, NotAvailable, NotInstalled

Value = float | Mapping[str, float]  # of all answers, or of each class that can be judged
ROUNDING = 1e-9  # by which a sum may leave its bounds, as a share of them


def quantity(
    title: str, unit: str = "", better: Better | None = None, form: str = ".4g", **fields: Any
) -> Metric:
    """Describe a metric of the recursive models."""
    return Metric(title=title, unit=unit, better=better, form=form, **fields)


def metric(
    title: str, *, tasks: tuple[str, ...] = ("multiclass",), **fields: Any
) -> Callable[[Callable[[Answers], Value]], Metric]:
    """Make a metric of a function of answers; `fields` are those of `Metric`.

    >>> @METRICS.add("brier")
    ... @metric("Brier score", better="lower", bounds=(0, 2), form=".3f")
    ... def brier(answers: Answers) -> float:
    ...     right = np.eye(answers.logits.shape[1])[answers.labels]
    ...     return float(((answers.probabilities - right) ** 2).sum(1).mean())
    """

    def of_function(function: Callable[[Answers], Value]) -> Metric:
        check_call(function, "answers")
        return quantity(title, tasks=tasks, of=function, **fields)

    return of_function


class MeasuredMetrics(NamedTuple):
    """Metrics by name, `METRIC.CLASS` among them; the classes that one leaves out; why others are
    `unavailable`, and which of these because their own code raised something.
    """

    values: dict[str, float]
    undefined: tuple[str, ...]
    unavailable: dict[str, str]
    raised: tuple[str, ...] = ()


def measured(answers: Answers, names: Iterable[str] | None = None) -> MeasuredMetrics:
    """Metrics of answers: those of these `names`, or all that are registered for the task.

    What a metric's own code raises makes that metric unavailable, and no other; the run is not lost, and it
    is said.
    """
    values: dict[str, float] = {}
    undefined: dict[str, None] = {}
    unavailable: dict[str, str] = {}
    raised: list[str] = []
    for name in of_task(answers.task, answers.levels is not None) if names is None else names:
        try:
            value = METRICS[name](answers)
            if isinstance(value, Mapping):
                judged = () if METRICS[name].of_levels else answers.class_names
                undefined |= dict.fromkeys(known for known in judged if known not in value)
                values |= _checked(name, value)
            else:
                values[name] = _within(METRICS[name], value)
        except NotAvailable as reason:
            unavailable[name] = str(reason)
        except Exception as error:  # of whatever kind: one metric is no reason to lose a run
            raised.append(name)
            # the last of them that raised it, or called an installed package that did
            lines = extract_tb(error.__traceback__)
            line = ([line for line in lines if INSTALLED.isdisjoint(Path(line.filename).parts)] or lines)[-1]
            place = f"{Path(line.filename).name}, line {line.lineno}"
            unavailable[name] = missing_package(error) or f"{type(error).__name__}: {error} ({place})"
    return MeasuredMetrics(values, tuple(undefined), unavailable, tuple(raised))


def score(name: str, answers: Answers) -> float:
    """Return the one number of a metric; not a number where there is none."""
    try:
        value = METRICS[name](answers)
    except NotAvailable:
        return math.nan
    return _mean(value)


def selection_score(name: str, answers: Answers) -> float:
    """Return the score that selects epochs; not a number if it is undefined on this split.

    The first evaluation also computes the metrics that the user has registered for the task, so that one that
    gives no number fails before the training and not after it. An error that such a metric raises costs no
    run: see `measured`.

    Raises:
        ConfigError: A metric gives None, an infinite value or no number; or the score needs a program that is
            not installed.
    """
    for other in of_task(answers.task, answers.levels is not None):
        if other != name and _is_users(other) and METRICS[other] not in _checked_metrics:
            value: Any = 0.0
            with suppress(Exception):
                value = METRICS[other](answers)
            _check_number(other, value)
            _checked_metrics.add(METRICS[other])
    try:
        value = METRICS[name](answers)
    except NotInstalled as reason:
        raise ConfigError(
            f"train.score {name!r} cannot select epochs: {reason}. Set train.score to another metric"
        ) from None
    except NotAvailable:
        return math.nan
    if _is_users(name):
        _check_number(name, value)
    return _mean(value)


# those of users that `selection_score` has computed in this process
_checked_metrics: WeakSet[Metric] = WeakSet()


def _is_users(name: str) -> bool:
    return METRICS.modules.get(name, PACKAGE).partition(".")[0] != PACKAGE


def _check_number(name: str, value: Any) -> None:
    """Refuse (ConfigError) what no table could show; not a number means that the metric is undefined."""
    for number in value.values() if isinstance(value, Mapping) else [value]:
        try:
            is_number = not math.isinf(float(number))
        except (TypeError, ValueError):
            is_number = False
        if not is_number:
            raise ConfigError(
                f"the metric {name!r} gives {number!r} on the selection split, but must give a finite number."
                " Raise NotAvailable with the reason if there is none"
            )


def _mean(value: Value) -> float:
    """Return the one number of a metric: the mean over the classes if it has a value for each."""
    if not isinstance(value, Mapping):
        return float(value)
    return sum(value.values()) / len(value) if value else math.nan


def of_task(task: str, levels: bool = False) -> list[str]:
    """Return the metrics that answers of this task are judged by, with those `of_levels` where images have
    some.
    """
    return [
        name for name, one in answer_metrics().items() if is_for(name, task) and (levels or not one.of_levels)
    ]


def answer_metrics() -> dict[str, Metric]:
    """Return the metrics that are computed from answers."""
    known = METRICS.complete().items()
    return {name: metric for name, metric in known if metric.of is not None}


def is_for(name: str, task: str) -> bool:
    """Return whether a metric is for answers of this task: because it says so, or because the task does."""
    return task in METRICS[name].tasks or name in TASKS[task].metrics


def check_computed(name: str) -> Metric:
    """Return the metric of this name, which can be computed from answers.

    Raises:
        ConfigError: there is none. The message names those there are.
    """
    found = METRICS[name]
    if found.of is None:
        raise ConfigError(
            f"{found.title} ({name}) does not follow from answers: there are {choices(answer_metrics())}."
        )
    return found


def _checked(name: str, value: Mapping[str, float]) -> dict[str, float]:
    """Return the mean over the classes, and each of them."""
    each = {f"{name}.{known}": _within(METRICS[name], one) for known, one in value.items()}
    return {name: sum(each.values()) / len(each), **each} if each else {}


def _within(known: Metric, value: float) -> float:
    """Return a number that the metric can be.

    Raises:
        NotAvailable: it is none.
    """
    value = float(value)
    if not math.isfinite(value):
        raise NotAvailable(f"it is {value} on this test split")
    low, high = known.bounds or (-math.inf, math.inf)
    slack = ROUNDING * max([1.0, *(abs(end) for end in (low, high) if math.isfinite(end))])
    if not low - slack <= value <= high + slack:
        raise NotAvailable(f"it is {value:g}, but {known.title} is from {low:g} to {high:g}")
    return value
