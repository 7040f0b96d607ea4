"""What a number is called and how it is printed, and, where it can be computed from a run's answers, how."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from recstudy.errors import ConfigError, choices
from recstudy.metrics.answers import TASKS, Answers, NotAvailable
from recstudy.plugins import Registry, named
from recstudy.plugins.bundle import INSTALLED

if TYPE_CHECKING:
    from recstudy.metrics.answers import Floats

Value = float | Mapping[str, float]  # of all answers, or of each class that can be judged
Better = Literal["higher", "lower"]
ROUNDING = 1e-9  # by which a sum may leave its bounds, as a share of them


@dataclass(frozen=True)
class Metric:
    """A number of a run: its title, unit, better direction and form in print.

    `tasks` and `of`, a function of `Answers` or its `module:name`, are those of a metric that is computed from answers; it
    gives a number, or one for each class by its name, whose mean is the metric (`by_finding`: `auroc.Effusion` is that of one
    finding). It raises `NotAvailable`, or gives NaN, where there is none. A task may name further ones (`Task.metrics`). `ranks`:
    where a figure cannot show all variants, it says which are the best. `share`: it is a share of right answers, which spreads
    less near its bounds. `each`: the value of every image, whose mean it is.

    `computed` ones follow from the config, not from training; `timed` ones depend on the machine, so that no published one
    is comparable. One `of_text` depends on how captions are cut into tokens, one `of_words` also on how they are decoded and
    cut into words. One `of_levels` is of data whose images have levels of difficulty, and gives a number for each level.
    """

    title: str
    unit: str = ""
    better: Better | None = None
    form: str = ".4g"
    computed: bool = False
    timed: bool = False
    by_finding: bool = False
    of_text: bool = False
    of_words: bool = False
    of_levels: bool = False
    short: str = ""  # in few letters, for a line in the terminal
    bounds: tuple[float, float] | None = None  # least and largest that it can be
    tasks: tuple[str, ...] = ()
    ranks: bool = False
    share: bool = False
    of: Callable[[Answers], Value] | str | None = field(default=None, repr=False)
    each: "Callable[[Answers], Floats] | None" = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.better not in (None, "higher", "lower"):
            raise ConfigError(f"the metric {self.title!r}: better must be 'higher', 'lower' or None, but got {self.better!r}")
        try:
            format(0.5, self.form)
        except (TypeError, ValueError):
            raise ConfigError(
                f"the metric {self.title!r}: form must print a number, as .1f does, but got {self.form!r}"
            ) from None
        if callable(self.of):
            object.__setattr__(self, "__module__", self.of.__module__)  # whose it is: the registry asks

    @property
    def heading(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def sign(self) -> int:
        """By which more is better."""
        return -1 if self.better == "lower" else 1

    def __call__(self, answers: Answers) -> Value:
        if self.of is None:
            raise NotAvailable(f"{self.title} does not follow from answers")
        return (named(self.of) if isinstance(self.of, str) else self.of)(answers)


METRICS: Registry[Metric] = Registry("metric")


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

    return lambda of: Metric(title, tasks=tasks, of=of, **fields)


class MeasuredMetrics(NamedTuple):
    """Metrics by name, `METRIC.CLASS` among them; the classes that one leaves out; why others are `unavailable`, and which of
    these because their own code raised something.
    """

    values: dict[str, float]
    undefined: tuple[str, ...]
    unavailable: dict[str, str]
    raised: tuple[str, ...] = ()


def measured(answers: Answers, names: Iterable[str] | None = None) -> MeasuredMetrics:
    """Metrics of answers: those of these `names`, or all that are registered for the task.

    What a metric's own code raises makes that metric unavailable, and no other; the run is not lost, and it is said.
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
            lines = extract_tb(error.__traceback__)  # the last of them that raised it, or called an installed package that did
            line = ([line for line in lines if INSTALLED.isdisjoint(Path(line.filename).parts)] or lines)[-1]
            unavailable[name] = f"{type(error).__name__}: {error} ({Path(line.filename).name}, line {line.lineno})"
    return MeasuredMetrics(values, tuple(undefined), unavailable, tuple(raised))


def score(name: str, answers: Answers) -> float:
    """Return the one number of a metric; not a number where there is none."""
    try:
        value = METRICS[name](answers)
    except NotAvailable:
        return math.nan
    return float(value) if not isinstance(value, Mapping) else sum(value.values()) / len(value) if value else math.nan


def of_task(task: str, levels: bool = False) -> list[str]:
    """Return the metrics that answers of this task are judged by, with those `of_levels` where images have some."""
    known = METRICS.complete().items()
    return [name for name, one in known if one.of is not None and is_for(name, task) and (levels or not one.of_levels)]


def is_for(name: str, task: str) -> bool:
    """Return whether a metric is for answers of this task: because it says so, or because the task does."""
    return task in METRICS[name].tasks or name in TASKS[task].metrics


def check_computed(name: str) -> Metric:
    """Return the metric of this name, which can be computed from answers.

    Raises:
        ConfigError: there is none. The message names those there are.
    """
    if METRICS[name].of is None:
        known = [other for other, its in METRICS.items() if its.of is not None]
        raise ConfigError(f"{METRICS[name].title} ({name}) does not follow from answers: there are {choices(known)}.")
    return METRICS[name]


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
