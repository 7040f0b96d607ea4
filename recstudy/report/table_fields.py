"""The kinds of tables.

Fields are named as in a config (`model.latent_steps`), or by the name of a grid's axis (`model`, `batch_size`).
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from pydantic import Field

from recstudy.errors import ConfigError, choices, nearest
from recstudy.papers import Target, published
from recstudy.report.names import axis_title, improved, inline, metric
from recstudy.report.parts import PARTS, BesidePublished, OfVariants, TablePart

MetricName = str


@PARTS.add("table")
class Table(TablePart, OfVariants, BesidePublished):
    """Mean, 95 % interval and n of each metric, beside the published value and a verdict.

    One row a variant; or, with `rows` and `columns` (names of axes), the paper's layout of one metric; or, with `across`,
    one row a metric and one column a variant, without the metrics that no run has. `auroc.*` stands for all metrics of
    that beginning which the runs have. `group` puts the rows of each level of an axis (`data`) under a heading, or, by the
    name of a cost (`gflops`, `params`), those within a tenth of each other; the best is then that of its group.

    `settings` are config fields that stand as columns before the metrics, several in one column where they are a tuple
    (`2/0/2` cycles of an HRM's levels). `improvement` names a variant by its levels (`{"model": "MicarVLMoE"}`): a metric
    `avg_bleu_delta` is by how much its `avg_bleu` is better than the row's, in percent of it, paired by seed.
    """

    metrics: tuple[MetricName, ...] = ("top1_accuracy", "params", "gflops")
    rows: str | None = None
    columns: str | None = None
    across: bool = False
    group: str | None = None
    settings: tuple[str | tuple[str, ...], ...] = ()
    improvement: dict[str, Any] = Field(default_factory=dict)  # axis -> level
    axes_in: ClassVar[tuple[str, ...]] = ("rows", "columns", "group", "settings", "improvement")
    metrics_in: ClassVar[tuple[str, ...]] = ("metrics",)

    @property
    def heading(self) -> str:
        """The title, or what is measured and by what: `Top-1 accuracy by model and batch size`, `AUROC of each variant`."""
        names = [name.removesuffix(".*") for name in self.metrics]
        measured = [name for name in names if not metric(name).computed] or names
        titles = [metric(measured[0]).title, *map(inline, measured[1:])] if measured else [self.name]
        several = [*titles[:2], "other metrics"] if len(titles) > 3 else titles
        said = " and ".join(filter(None, (", ".join(several[:-1]), several[-1])))
        axes = " and ".join(axis_title(axis) for axis in (self.rows, self.columns) if axis)
        return self.title or (f"{said} by {axes}" if axes else f"{said} of each variant")

    def __post_init__(self) -> None:
        given = {"group": self.group is not None, "settings": bool(self.settings), "improvement": bool(self.improvement)}
        for field in (field for field, used in given.items() if used):
            if self.across or self.rows is not None or self.columns is not None:
                raise ConfigError(
                    f"table {self.name!r}: {field} goes with one row a variant, so with neither rows, columns nor across"
                )
        if self.across and (self.rows is not None or self.columns is not None):
            raise ConfigError(f"table {self.name!r}: across puts metrics in rows, so it takes neither rows nor columns")
        if bool(self.improvement) != any(improved(name) for name in self.metrics):
            raise ConfigError(
                f"table {self.name!r}: improvement={{AXIS: LEVEL}} and a metric such as top1_accuracy_delta go together, "
                "but only one of them is given"
            )


@PARTS.add("budgets")
class Budgets(TablePart, OfVariants, BesidePublished):
    """Of puzzles: FLOPs at test and exact accuracy, from the same weights, a row for each way to think more and each count."""

    name: str = "budgets"
    default_title: ClassVar[str] = "Exact accuracy by FLOPs at test, same weights"


@PARTS.add("tuned")
class Tuned(TablePart, OfVariants):
    """The paper's layout of one metric, in each cell at the level of `over` with the best score on the selection split.

    So a learning rate can be tuned for every model and batch size without a look at the test set.
    """

    name: str = "tuned"
    metric: MetricName = "top1_accuracy"
    rows: str = "model"
    columns: str = "batch_size"
    over: str = "learning_rate"
    by: MetricName = "selection_top1_accuracy"
    axes_in: ClassVar[tuple[str, ...]] = ("rows", "columns", "over")
    metrics_in: ClassVar[tuple[str, ...]] = ("metric",)
    reads_in: ClassVar[tuple[str, ...]] = ("by",)

    @property
    def heading(self) -> str:
        return self.title or f"{metric(self.metric).title}, {axis_title(self.over)} tuned in each cell"

    def of_metrics(self, metrics: Sequence[str]) -> Self:
        if self.by not in metrics:
            known = choices(metrics)
            raise ConfigError(f"tuned {self.name!r}: by must be a metric of data that no other metric is of: there are {known}")
        return super().of_metrics(metrics)


@PARTS.add("differences")
class Differences(OfVariants, BesidePublished):
    """Each variant minus its base, by the spread of all: interval, Holm-adjusted p, verdict, what could be detected.

    The base of a variant is the one that its design names (`leave_one_out`, `one_at_a_time`); with `base`, a label, that one
    for all. Beside it stands the difference of the two published numbers, where `targets` has both. A forest plot stands over it.
    """

    name: str = "differences"
    metric: MetricName = "top1_accuracy"
    base: str = ""
    metrics_in: ClassVar[tuple[str, ...]] = ("metric",)
    explained: ClassVar[bool] = True

    @property
    def heading(self) -> str:
        return self.title or f"{metric(self.metric).title}: differences"


@PARTS.add("effects")
class Effects(OfVariants):
    """Main effects and interactions of a two-level `factorial`, with intervals."""

    name: str = "effects"
    metric: MetricName = "top1_accuracy"
    metrics_in: ClassVar[tuple[str, ...]] = ("metric",)
    explained: ClassVar[bool] = True

    @property
    def heading(self) -> str:
        return self.title or f"{metric(self.metric).title}: main effects and interactions"


@PARTS.add("arithmetic")
class Arithmetic(BesidePublished):
    """Published claims that can be checked by counting, beside our own counts and a verdict.

    `counted` gives our number by the targets' metric: in single parameters where the paper prints millions, in percent
    where it prints a fraction or percent. Targets that are not in it are named under the table. `given`: those of them that the
    study itself has put in, which counting does not reproduce.
    """

    name: str = "arithmetic"
    counted: dict[str, float] = Field(default_factory=dict)
    given: tuple[str, ...] = ()
    targets: tuple[Target, ...] = Field(default_factory=lambda: published("001_parameter_arithmetic"), kw_only=True)
    default_title: ClassVar[str] = "Published parameter arithmetic, counted again"

    def __post_init__(self) -> None:
        known = list(dict.fromkeys(target.metric for target in self.targets))
        for name in self.counted:
            if name not in known:
                raise ConfigError(f"counted {name!r}, but the targets have {choices(known)}.{nearest(name, known)}")
        for name in self.given:
            if name not in self.counted:
                raise ConfigError(f"given {name!r}, but counted are {choices(self.counted)}.{nearest(name, self.counted)}")
