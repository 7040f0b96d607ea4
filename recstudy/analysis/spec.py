"""What a report is made of, as data: a study lists these, the plan carries them, the reading half draws them.

Fields are named as in a config (`model.latent_steps`), or by the name of a grid's axis (`model`, `batch_size`).
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from recstudy.analysis.names import improved
from recstudy.errors import ConfigError, choices, nearest
from recstudy.papers import Target, published

_FROZEN = ConfigDict(extra="forbid")
MetricName = str


@dataclass(frozen=True, config=_FROZEN)
class Table:
    """Mean, 95 % interval and n of each metric, beside the published value and a verdict.

    One row a variant; or, with `rows` and `columns` (names of axes), the paper's layout of one metric; or, with `across`,
    one row a metric and one column a variant, without the metrics that no run has. `auroc.*` stands for all metrics of
    that beginning which the runs have. `group` puts the rows of each level of an axis (`data`) under a heading, or, by the
    name of a cost (`gflops`, `params`), those within a tenth of each other; the best is then that of its group.

    `settings` are config fields that stand as columns before the metrics, several in one column where they are a tuple
    (`2/0/2` cycles of an HRM's levels). `improvement` names a variant by its levels (`{"model": "MicarVLMoE"}`): a metric
    `avg_bleu_delta` is by how much its `avg_bleu` is better than the row's, in percent of it, paired by seed.
    """

    name: str
    metrics: tuple[MetricName, ...] = ("top1_accuracy", "params", "gflops")
    rows: str | None = None
    columns: str | None = None
    across: bool = False
    group: str | None = None
    settings: tuple[str | tuple[str, ...], ...] = ()
    improvement: dict[str, Any] = Field(default_factory=dict)  # axis -> level
    where: dict[str, Any] = Field(default_factory=dict)  # axis -> level: only these variants
    targets: tuple[Target, ...] = ()
    title: str = ""
    kind: Literal["table"] = "table"

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


@dataclass(frozen=True, config=_FROZEN)
class Tuned:
    """The paper's layout of one metric, in each cell at the level of `over` with the best score on the selection split.

    So a learning rate can be tuned for every model and batch size without a look at the test set.
    """

    name: str = "tuned"
    metric: MetricName = "top1_accuracy"
    rows: str = "model"
    columns: str = "batch_size"
    over: str = "learning_rate"
    by: MetricName = "selection_top1_accuracy"
    where: dict[str, Any] = Field(default_factory=dict)
    title: str = ""
    kind: Literal["tuned"] = "tuned"


@dataclass(frozen=True, config=_FROZEN)
class Curve:
    """A metric against a swept field, one line for each value of another, with interval bands and published points.

    With `drop`, each point minus the best of its line, paired by seed: how robust a model is to a batch size.
    """

    name: str
    x: str
    y: MetricName
    by: str | None = None
    drop: bool = False
    where: dict[str, Any] = Field(default_factory=dict)
    targets: tuple[Target, ...] = ()
    title: str = ""
    kind: Literal["curve"] = "curve"

    def __post_init__(self) -> None:
        if self.drop and self.x == "eval.depth":
            raise ConfigError(f"curve {self.name!r}: drop compares runs, and all depths at test are of the same runs")


@dataclass(frozen=True, config=_FROZEN)
class Differences:
    """Each variant minus its base, on the seeds that both have: interval, Holm-adjusted p, verdict, what could be detected.

    The base of a variant is the one that its design names (`leave_one_out`, `one_at_a_time`); with `base`, a label, that one
    for all. Beside it stands the difference of the two published numbers, where `targets` has both.
    """

    name: str = "differences"
    metric: MetricName = "top1_accuracy"
    base: str = ""
    where: dict[str, Any] = Field(default_factory=dict)
    targets: tuple[Target, ...] = ()
    title: str = ""
    kind: Literal["differences"] = "differences"


@dataclass(frozen=True, config=_FROZEN)
class Effects:
    """Of a two-level `factorial`, whole or a fraction: main effects and interactions with intervals, and their aliases."""

    name: str = "effects"
    metric: MetricName = "top1_accuracy"
    where: dict[str, Any] = Field(default_factory=dict)
    title: str = ""
    kind: Literal["effects"] = "effects"


@dataclass(frozen=True, config=_FROZEN)
class Interactions:
    """Cell means of two axes as lines, parallel where the axes do not interact; without `x` and `by`, a panel for every pair."""

    name: str = "interactions"
    metric: MetricName = "top1_accuracy"
    x: str | None = None
    by: str | None = None
    where: dict[str, Any] = Field(default_factory=dict)
    title: str = ""
    kind: Literal["interactions"] = "interactions"

    def __post_init__(self) -> None:
        if (self.x is None) != (self.by is None):
            raise ConfigError(f"interactions {self.name!r}: x and by go together, but only one of them is given")


@dataclass(frozen=True, config=_FROZEN)
class HeatMap:
    """A metric at every two levels of a sweep, as coloured cells with mean, interval and n."""

    name: str
    x: str
    y: str
    metric: MetricName = "top1_accuracy"
    where: dict[str, Any] = Field(default_factory=dict)
    title: str = ""
    kind: Literal["heat_map"] = "heat_map"


@dataclass(frozen=True, config=_FROZEN)
class LearningCurves:
    """Per-epoch values of every variant: mean over the seeds, with the range between them."""

    name: str = "learning_curves"
    metrics: tuple[str, ...] = ("train_loss", "selection_top1_accuracy")
    window: int = Field(default=1, ge=1)  # epochs that a moving average is taken over; 1: none
    title: str = ""
    kind: Literal["learning_curves"] = "learning_curves"


@dataclass(frozen=True, config=_FROZEN)
class LossTrace:
    """The training loss of single updates, light, and its moving average, dark: one seed of every variant."""

    name: str = "loss_trace"
    window: int = Field(default=50, ge=1)  # recorded points that an average is taken over
    title: str = ""
    where: dict[str, Any] = Field(default_factory=dict)
    kind: Literal["loss_trace"] = "loss_trace"


@dataclass(frozen=True, config=_FROZEN)
class Mistakes:
    """The first test images that each variant got wrong, with their true and predicted classes: one seed of a variant."""

    name: str = "mistakes"
    most: int = Field(default=25, ge=1)  # images of a variant; a run keeps 36
    title: str = ""
    where: dict[str, Any] = Field(default_factory=dict)
    kind: Literal["mistakes"] = "mistakes"


@dataclass(frozen=True, config=_FROZEN)
class Captions:
    """Test images with their reference captions and what each variant writes: one seed of a variant. A page and its CSV."""

    name: str = "captions"
    most: int = Field(default=12, ge=1)  # images; a run keeps 36
    title: str = ""
    where: dict[str, Any] = Field(default_factory=dict)
    kind: Literal["captions"] = "captions"


@dataclass(frozen=True, config=_FROZEN)
class ExpertLoad:
    """Of mixtures of experts: each expert's share of the test set's tokens by layer, a panel a variant; one seed of a variant."""

    name: str = "load"
    title: str = ""
    where: dict[str, Any] = Field(default_factory=dict)
    kind: Literal["expert_load"] = "expert_load"


@dataclass(frozen=True, config=_FROZEN)
class ExpertPath:
    """The experts that each token of one generated caption goes to, a panel a layer: of the first variant that has experts."""

    name: str = "experts"
    example: int = Field(default=0, ge=0, le=5)  # which of the first test images; a run keeps 6
    title: str = ""
    where: dict[str, Any] = Field(default_factory=dict)
    kind: Literal["expert_path"] = "expert_path"


@dataclass(frozen=True, config=_FROZEN)
class AttentionMaps:
    """Where a model looks in one test image as it writes each word, and at which words: of the first variant that has kept it.

    Without `layer` and `head`, which count from 1, the mean over them.
    """

    name: str = "attention"
    example: int = Field(default=0, ge=0, le=5)  # which of the first test images; a run keeps 6
    layer: int | None = Field(default=None, ge=1)
    head: int | None = Field(default=None, ge=1)
    title: str = ""
    where: dict[str, Any] = Field(default_factory=dict)
    kind: Literal["attention_maps"] = "attention_maps"


@dataclass(frozen=True, config=_FROZEN)
class Alignment:
    """Cosines of test images and their captions before and after training, and the differences: one seed of a variant."""

    name: str = "alignment"
    most: int = Field(default=12, ge=1)  # pairs of a variant that are shown with their image
    targets: tuple[Target, ...] = Field(default_factory=lambda: published("000_alignment_cosines"))
    title: str = ""
    where: dict[str, Any] = Field(default_factory=dict)
    kind: Literal["alignment"] = "alignment"


@dataclass(frozen=True, config=_FROZEN)
class Arithmetic:
    """Published claims that can be checked by counting, beside our own counts and a verdict.

    `counted` gives our number by the targets' metric: in single parameters where the paper prints millions, in percent
    where it prints a fraction or percent. Targets that are not in it are named under the table.
    """

    name: str = "arithmetic"
    counted: dict[str, float] = Field(default_factory=dict)
    targets: tuple[Target, ...] = Field(default_factory=lambda: published("001_parameter_arithmetic"))
    title: str = ""
    kind: Literal["arithmetic"] = "arithmetic"

    def __post_init__(self) -> None:
        known = list(dict.fromkeys(target.metric for target in self.targets))
        for name in self.counted:
            if name not in known:
                raise ConfigError(f"counted {name!r}, but the targets have {choices(known)}.{nearest(name, known)}")


@dataclass(frozen=True, config=_FROZEN)
class History:
    """Of a search: each objective trial by trial, and the best so far as a step line."""

    name: str = "history"
    title: str = ""
    kind: Literal["history"] = "history"


@dataclass(frozen=True, config=_FROZEN)
class Importance:
    """Of a search: how much each field matters for each objective, by PED-ANOVA and by fANOVA."""

    name: str = "importance"
    title: str = ""
    kind: Literal["importance"] = "importance"


@dataclass(frozen=True, config=_FROZEN)
class ParallelCoordinates:
    """Of a search: one line a finished trial through its settings to the first objective; a panel for each family."""

    name: str = "parallel_coordinates"
    title: str = ""
    kind: Literal["parallel_coordinates"] = "parallel_coordinates"


@dataclass(frozen=True, config=_FROZEN)
class Slices:
    """Of a search: the first objective against each field, in a panel of its own, coloured by trial number."""

    name: str = "slices"
    title: str = ""
    kind: Literal["slices"] = "slices"


@dataclass(frozen=True, config=_FROZEN)
class Pareto:
    """Two metrics or costs against each other, one point a trial (a variant in other studies), and the front as a line.

    Where `y` is not named it is the search's first objective, which is scored on the selection split.
    """

    name: str = "pareto"
    x: MetricName = "gflops"
    y: MetricName | None = None
    title: str = ""
    kind: Literal["pareto"] = "pareto"


@dataclass(frozen=True, config=_FROZEN)
class Best:
    """Of a search: a table of its best trials, with each metric over fresh seeds, which the search did not choose by.

    Ranked by the first objective; where there are several, the Pareto front comes first. `score` is the families' own.
    """

    name: str = "best"
    most: int = Field(default=10, ge=1)  # trials
    metrics: tuple[MetricName, ...] = ("score", "params", "gflops")
    title: str = ""
    kind: Literal["best"] = "best"


Inner = ExpertLoad | ExpertPath | AttentionMaps
Drawing = (
    Curve
    | Interactions
    | HeatMap
    | LearningCurves
    | LossTrace
    | Mistakes
    | Inner
    | Alignment
    | History
    | Importance
    | ParallelCoordinates
    | Slices
    | Pareto
)
OfCells = Table | Tuned | Best
OfRuns = OfCells | Differences | Effects  # each number with the runs behind it
Tabular = OfRuns | Arithmetic
AnyPart = Tabular | Captions | Drawing
ReportPart = Annotated[AnyPart, Field(discriminator="kind")]
REPORT: TypeAdapter[list[AnyPart]] = TypeAdapter(list[ReportPart])
