"""The description of a metric or a cost: unit, direction, bounds and number of test items.

`METRICS` contains the costs of all programs. `recstudy.recursive.metrics` adds the metrics of the recursive
models. A user's program declares its metrics, which `using_metrics` adds to the registry inside a block.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from math import inf, isfinite
from typing import Any, Literal

from recstudy.base.errors import ConfigError
from recstudy.base.explained import explained
from recstudy.base.values import is_count, is_number
from recstudy.plugins import Registry, import_object
from recstudy.records.study_schema import MetricRecord

Better = Literal["higher", "lower"]
PERCENT = (0.0, 100.0)


class NotAvailable(Exception):
    """A score cannot be computed on this machine. The message becomes a note below the table."""


class NotInstalled(NotAvailable):
    """A program, package or model that a score needs is not installed on this machine."""


@explained
@dataclass(frozen=True)
class Metric:
    """The description of a metric.

    Args:
        unit: The unit, such as `%` or `s`; empty for a plain number.
        better: `higher` or `lower`; None if neither is better.
        items: Number of test items, if the metric is a share of them. Intervals then take its resolution
            into account.
        title: Name in tables. By default the name under which the metric is declared.
        form: Format of the number, such as `.1f`. By default one decimal for percent, else four digits.
        bounds: Smallest and largest possible value.
        share: Whether it is a share of correct answers, whose variance is smaller near the bounds. `items`
            implies it.
        computed: Whether it depends on the settings only.
        timed: Whether it depends on the machine, so that it cannot be compared with published values.
        ranks: Whether it selects the best variants if a figure cannot show all of them.
        by_finding: Whether it has a value for each class.
        of_text: Whether it depends on the tokenization of captions.
        of_words: Whether it depends on the decoding of captions and on their split into words.
        of_levels: Whether it has a value for each level of difficulty.
        short: A short name for a line in the terminal.
        tasks: The tasks of the recursive models that have it. A task may name additional metrics.
        of: A function of a run's answers, or its `module:name`. It returns a number, or a number for each
            class by name, whose mean is the metric (`auroc.Effusion` is the value of one class). It raises
            `NotAvailable` or returns NaN if the metric cannot be computed.
        each: A function of a run's answers that returns the value of each test item; their mean is the
            metric.

    Example:
        >>> Metric("%", items=10_000).bounds
        (0.0, 100.0)
    """

    unit: str = ""
    better: Better | None = "higher"
    items: int | None = None
    title: str = ""
    form: str = ""
    bounds: tuple[float, float] | None = None
    share: bool = False
    computed: bool = False
    timed: bool = False
    ranks: bool = False
    by_finding: bool = False
    of_text: bool = False
    of_words: bool = False
    of_levels: bool = False
    short: str = ""
    tasks: tuple[str, ...] = ()
    of: Callable[[Any], Any] | str | None = None
    each: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        name = f"the metric {self.title!r}" if self.title else "a metric"
        if self.better not in (None, "higher", "lower"):
            raise ConfigError(f"{name}: better must be 'higher', 'lower' or None, but got {self.better!r}")
        if self.items is not None:
            if not is_count(self.items, 1):
                raise ConfigError(
                    f"{name}: items must be the number of test items, such as 10_000, but got {self.items!r}"
                )
            self.__dict__.update(share=True)
        ends = self.bounds if self.bounds is not None else PERCENT
        if not (isinstance(ends, tuple | list) and len(ends) == 2 and all(map(is_number, ends))):
            raise ConfigError(f"{name}: bounds must be two numbers, such as (0, 1), but got {self.bounds!r}")
        if ends[0] >= ends[1]:
            raise ConfigError(f"{name}: the first of its bounds must be below the second, but got {ends!r}")
        if self.share and not self.bounds:
            self.__dict__.update(bounds=PERCENT if self.unit == "%" else (0.0, 1.0))
        self.__dict__.update(form=self.form or (".1f" if self.unit == "%" else ".4g"))
        try:
            format(0.5, self.form)
        except (TypeError, ValueError):
            raise ConfigError(
                f"{name}: form must be a format of a number, such as .1f, but got {self.form!r}"
            ) from None

    @property
    def heading(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def sign(self) -> int:
        """+1 if higher is better, -1 if lower."""
        return -1 if self.better == "lower" else 1

    def __call__(self, answers: Any) -> Any:
        """Compute the metric from a run's answers (NotAvailable if that is impossible)."""
        if self.of is None:
            raise NotAvailable(f"{self.title} cannot be computed from answers")
        return (import_object(self.of) if isinstance(self.of, str) else self.of)(answers)


def metric_fields(metric: Metric) -> dict[str, Any]:
    """Return the stated fields of a metric that records have."""
    values = {field.name: getattr(metric, field.name) for field in fields(MetricRecord)}
    return {name: value for name, value in values.items() if name == "better" or value}


def scale_problem(name: str, metric: Metric, values: Iterable[float]) -> str:
    """Return why values do not look like the metric's unit or bounds, without a fix; empty if they do.

    A change in percent has no bounds, so a metric with negative values may exceed 100 %.

    Args:
        name: The name of the metric for the reader.
        metric: Its description.
        values: Its values in all runs. A single run near 1 % proves nothing.

    Example:
        >>> scale_problem("accuracy", Metric("%"), [0.81, 0.79])
        'accuracy looks like a share: its values are 0.79 to 0.81, but its unit is %'
    """
    finite_values = sorted(filter(isfinite, values))
    if not finite_values:
        return ""
    lowest, highest = finite_values[0], finite_values[-1]
    spread = f"its values are {lowest:.6g}" + f" to {highest:.6g}" * (highest > lowest)
    is_percent = metric.unit == "%" and lowest >= 0
    low, high = metric.bounds or (PERCENT if is_percent else (-inf, inf))
    if lowest < low or highest > high:
        return f"{name} is not between {low:g} and {high:g} {metric.unit}".rstrip() + f": {spread}"
    if is_percent and 0 < highest <= 1 < high:
        return f"{name} looks like a share: {spread}, but its unit is %"
    return ""


# `marks`: characters allowed in names; `@` and `.` are reserved for NAME@DEPTH and NAME.CLASS
METRICS: Registry[Metric] = Registry("metric", marks="_-")

METRICS.update(
    {
        "params": Metric(better=None, title="Parameters", computed=True, form=",.0f"),
        "trained_params": Metric(better=None, title="Trained parameters", computed=True, form=",.0f"),
        "gflops": Metric("GFLOP/image", None, title="Forward", computed=True),
        "train_gflops": Metric("GFLOP/image", None, title="Training", computed=True),
        "train_pflop": Metric("PFLOP", None, title="Training in all"),
        "seconds": Metric("s", None, title="Wall time", timed=True),
        "evaluation_seconds": Metric("s", None, title="Evaluation at the end", timed=True),
        "device_seconds": Metric("s", None, title="Device time", timed=True),
        "epoch_seconds": Metric("s", None, title="Epoch, training pass", timed=True),
        "images_per_second": Metric("images/s", None, title="Throughput", timed=True),
        "peak_memory_mb": Metric("MB", None, title="Peak memory"),
        "cores_used": Metric("cores", None, title="Cores in use", form=".1f", timed=True),
        "mfu": Metric("%", None, title="MFU", timed=True),
        "gpu_use": Metric("%", None, title="GPU in use", form=".0f", bounds=PERCENT, timed=True),
        "gpu_use_peak": Metric("%", None, title="GPU in use, peak", form=".0f", bounds=PERCENT, timed=True),
    }
)

# Adds a program's metrics to `METRICS` inside a block, where they hide metrics with the same names. Readers
# call it inside `recstudy.plugins.reading`, whose lock separates the studies of several threads.
using_metrics = METRICS.overlay
