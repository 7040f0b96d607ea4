"""How metrics and costs are read: unit, direction, share, number of test items. Every program describes its
own.

`METRICS` has the costs of all programs; the recursive models' metrics are added by `recstudy.metrics`, and a
user's program states its own beside its settings. `using_metrics` puts those into the registry while a block
runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from recstudy.errors import ConfigError
from recstudy.plugins import named
from recstudy.plugins.registry import Registry

Better = Literal["higher", "lower"]
PERCENT = (0.0, 100.0)


class NotAvailable(Exception):
    """Why a score cannot be computed on this machine, in words for a table's note."""


class NotInstalled(NotAvailable):
    """The program, package or model that a score needs and this machine lacks."""


@dataclass(frozen=True)
class Metric:
    """A number that a run measures, and how it is read.

    Args:
        unit: Such as `%` or `s`; empty for a plain number.
        better: `higher`, `lower`, or None where neither is.
        items: Number of test items, if the metric is a share of them: intervals then know how fine it can be.
        title: Its name in tables. By default the name under which it is stated.
        form: How it is printed, such as `.1f`. By default one decimal for percent, else four digits.
        bounds: Least and largest value that it can have.
        share: It is a share of right answers, which spreads less near its bounds. `items` implies it.
        computed: It follows from the settings alone.
        timed: It depends on the machine, so that no published value is comparable.
        ranks: If a figure cannot show all variants, it says which are the best.
        by_finding, of_text, of_words, of_levels: It has a value for each class; depends on how captions are
        cut into tokens; also
            on how they are decoded and cut into words; has a value for each level of difficulty.
        short: A short name for a line in the terminal.
        tasks: The tasks of the recursive models that it is for; a task may name further metrics.
        of: A function of a run's answers, or its `module:name`, that computes it: a number, or one for each
            class by its name, whose mean is the metric (`auroc.Effusion` is that of one class). It raises
            `NotAvailable`, or gives NaN, if there is none.
        each: The value of every test item, whose mean it is.

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
            if not isinstance(self.items, int) or isinstance(self.items, bool) or self.items < 1:
                raise ConfigError(
                    f"{name}: items must be the number of test items, such as 10_000, but got {self.items!r}"
                )
            self.__dict__.update(
                share=True, bounds=self.bounds or (PERCENT if self.unit == "%" else (0.0, 1.0))
            )
        self.__dict__.update(form=self.form or (".1f" if self.unit == "%" else ".4g"))
        try:
            format(0.5, self.form)
        except (TypeError, ValueError):
            raise ConfigError(
                f"{name}: form must print a number, as .1f does, but got {self.form!r}"
            ) from None

    @property
    def heading(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def sign(self) -> int:
        """+1 if higher is better, -1 if lower."""
        return -1 if self.better == "lower" else 1

    def __call__(self, answers: Any) -> Any:
        """Compute it from a run's answers (NotAvailable: it does not follow from them)."""
        if self.of is None:
            raise NotAvailable(f"{self.title} does not follow from answers")
        return (named(self.of) if isinstance(self.of, str) else self.of)(answers)


METRICS: Registry[Metric] = Registry("metric", marks="_-")  # NAME@DEPTH and NAME.CLASS have further ones

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

# Has a program's own metrics in `METRICS`, before others of the same names, while a block runs. A reader does
# so inside `recstudy.plugins.reading`, whose lock keeps the studies of several threads apart.
using_metrics = METRICS.in_front
