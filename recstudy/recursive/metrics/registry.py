"""Define metrics and compute them from a run's answers.

`metric` makes a metric of a function of `Answers`, and `quantity` describes a metric that is measured
elsewhere. `recstudy.recursive.train` and `recstudy.recursive.reevaluate` call `measured`. Training selects
epochs with `selection_score`.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import Any, NamedTuple
from weakref import WeakSet

from recstudy.base.errors import ConfigError, choices, missing_package
from recstudy.plugins.files import INSTALLED, check_call
from recstudy.plugins.registry import PACKAGE
from recstudy.programs.metric import METRICS, PERCENT, Better, Metric, NotAvailable, NotInstalled
from recstudy.recursive.config.answers import Answers, Scores
from recstudy.recursive.config.tasks import TASKS

Value = float | Mapping[str, float]  # one value, or class or level -> its value
ROUNDING = 1e-9  # relative rounding error by which a sum may exceed its bounds


def quantity(
    title: str, unit: str = "", better: Better | None = None, form: str = ".4g", **fields: Any
) -> Metric:
    """Describe a metric of the recursive models that is not computed from answers."""
    return Metric(title=title, unit=unit, better=better, form=form, **fields)


def metric(
    title: str, *, tasks: tuple[str, ...] = ("multiclass",), **fields: Any
) -> Callable[[Callable[[Answers], Value]], Metric]:
    """Make a metric of a function of answers.

    Args:
        title: The title in tables and figures.
        tasks: The tasks that the metric is for.
        **fields: Other fields of `Metric`.

    >>> @METRICS.add("brier")
    ... @metric("Brier score", better="lower", bounds=(0, 2), form=".3f")
    ... def brier(answers: Answers) -> float:
    ...     right = np.eye(answers.logits.shape[1])[answers.labels]
    ...     return float(((answers.probabilities - right) ** 2).sum(1).mean())
    """

    def make_metric(function: Callable[[Answers], Value]) -> Metric:
        check_call(function, "answers")
        return quantity(title, tasks=tasks, of=function, **fields)

    return make_metric


# A metric, or a quantity, from 0 to 100 %.
percent_metric = partial(metric, unit="%", better="higher", form=".1f", bounds=PERCENT)
percent_quantity = partial(quantity, unit="%", better="higher", form=".1f", bounds=PERCENT)


class MeasuredMetrics(NamedTuple):
    """The values of metrics.

    Args:
        values: Metric, or `METRIC.CLASS`, -> its value.
        undefined: The classes without a value of some metric.
        unavailable: Metric without a value -> the reason.
        raised: The metrics whose code raised an error.
    """

    values: Scores
    undefined: tuple[str, ...]
    unavailable: dict[str, str]
    raised: tuple[str, ...] = ()


def measured(answers: Answers, names: Iterable[str] | None = None) -> MeasuredMetrics:
    """Compute metrics of answers.

    If the code of a metric raises an error, only this metric is unavailable. The run is not lost.

    Args:
        answers: The answers of a run.
        names: The metrics; by default all that are registered for the task.
    """
    values: Scores = {}
    undefined: dict[str, None] = {}
    unavailable: dict[str, str] = {}
    raised: list[str] = []
    for name in of_task(answers.task, answers.levels is not None) if names is None else names:
        try:
            value = METRICS[name](answers)
            if isinstance(value, Mapping):
                class_names = () if METRICS[name].of_levels else answers.class_names
                undefined |= dict.fromkeys(label for label in class_names if label not in value)
                numbers = {
                    f"{name}.{label}": _check_bounds(METRICS[name], number) for label, number in value.items()
                }
                if numbers:  # the mean over the classes or levels, and the value of each
                    values |= {name: sum(numbers.values()) / len(numbers), **numbers}
            else:
                values[name] = _check_bounds(METRICS[name], value)
        except NotAvailable as reason:
            unavailable[name] = str(reason)
        except Exception as error:  # an error of any kind in one metric must not lose the run
            raised.append(name)
            # Name the last line that is not in an installed package, because the user can change it.
            frames = extract_tb(error.__traceback__)
            user_frames = [frame for frame in frames if INSTALLED.isdisjoint(Path(frame.filename).parts)]
            frame = (user_frames or frames)[-1]
            location = f"{Path(frame.filename).name}, line {frame.lineno}"
            unavailable[name] = missing_package(error) or f"{type(error).__name__}: {error} ({location})"
    return MeasuredMetrics(values, tuple(undefined), unavailable, tuple(raised))


def score(name: str, answers: Answers) -> float:
    """Return a metric as one number, the mean over classes if it has several; NaN if it is not available."""
    try:
        value = METRICS[name](answers)
    except NotAvailable:
        return math.nan
    return _mean(value)


def selection_score(name: str, answers: Answers) -> float:
    """Return the score that selects epochs, or NaN if it is undefined on this split.

    Args:
        name: The metric of `train.score`.
        answers: The answers on the selection split.

    Raises:
        ConfigError: A metric returns None, an infinite value or no number, or the score needs a program that
            is not installed.
    """
    # The first evaluation also computes the metrics that the user registered for the task. One that returns
    # no number then fails before the training and not after it. Errors that it raises are reported later, by
    # `measured`, and do not stop the run.
    for other_name in of_task(answers.task, answers.levels is not None):
        if other_name != name and _is_users(other_name) and METRICS[other_name] not in _checked_metrics:
            value: Any = 0.0
            with suppress(Exception):
                value = METRICS[other_name](answers)
            _check_number(other_name, value)
            _checked_metrics.add(METRICS[other_name])
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


# The users' metrics that `selection_score` has checked in this process.
_checked_metrics: WeakSet[Metric] = WeakSet()


def _is_users(name: str) -> bool:
    return METRICS.modules.get(name, PACKAGE).partition(".")[0] != PACKAGE


def _check_number(name: str, value: Any) -> None:
    """Raise a ConfigError if a table cannot show the value. NaN is allowed: the metric is undefined."""
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
    """Return the value, or its mean over the classes."""
    if not isinstance(value, Mapping):
        return float(value)
    return sum(value.values()) / len(value) if value else math.nan


def of_task(task: str, levels: bool = False) -> list[str]:
    """Return the names of the metrics of a task.

    Args:
        task: The task.
        levels: Whether the images have levels of difficulty, for the metrics `of_levels`.
    """
    return [
        name
        for name, metric in answer_metrics().items()
        if is_for(name, task) and (levels or not metric.of_levels)
    ]


def answer_metrics() -> dict[str, Metric]:
    """Return the metrics that are computed from answers."""
    metrics = METRICS.complete().items()
    return {name: metric for name, metric in metrics if metric.of is not None}


def is_for(name: str, task: str) -> bool:
    """Return whether the metric names this task, or the task names this metric."""
    return task in METRICS[name].tasks or name in TASKS[task].metrics


def check_computed(name: str) -> Metric:
    """Return a metric that can be computed from answers.

    Raises:
        ConfigError: There is no such metric. The message names the available metrics.
    """
    metric = METRICS[name]
    if metric.of is None:
        raise ConfigError(
            f"{metric.title} ({name}) cannot be computed from answers."
            f" Choose from {choices(answer_metrics())}."
        )
    return metric


def _check_bounds(metric: Metric, value: float) -> float:
    """Return the value as a float.

    Raises:
        NotAvailable: The value is not finite or not within the metric's bounds.
    """
    value = float(value)
    if not math.isfinite(value):
        raise NotAvailable(f"it is {value} on this test split")
    low, high = metric.bounds or (-math.inf, math.inf)
    slack = ROUNDING * max([1.0, *(abs(end) for end in (low, high) if math.isfinite(end))])
    if not low - slack <= value <= high + slack:
        raise NotAvailable(f"it is {value:g}, but {metric.title} is from {low:g} to {high:g}")
    return value
