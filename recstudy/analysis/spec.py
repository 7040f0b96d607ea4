"""What a report is made of, as data: a study lists these, the plan carries them, the reading half draws them.

Fields are named as in a config (`model.latent_steps`), or by the name of a grid's axis (`model`, `batch_size`).
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from recstudy.errors import ConfigError, choices, nearest
from recstudy.papers import Target, published

_FROZEN = ConfigDict(extra="forbid")
MetricName = str


@dataclass(frozen=True, config=_FROZEN)
class Table:
    """Mean, 95 % interval and n of each metric, beside the published value and a verdict.

    One row a variant; or, with `rows` and `columns` (names of axes), the paper's layout of one metric; or, with `across`,
    one row a metric and one column a variant, without the metrics that no run has. `auroc.*` stands for all metrics of
    that beginning which the runs have.
    """

    name: str
    metrics: tuple[MetricName, ...] = ("top1_accuracy", "params", "gflops")
    rows: str | None = None
    columns: str | None = None
    across: bool = False
    where: dict[str, Any] = Field(default_factory=dict)  # axis -> level: only these variants
    targets: tuple[Target, ...] = ()
    title: str = ""
    kind: Literal["table"] = "table"

    def __post_init__(self) -> None:
        if self.across and (self.rows is not None or self.columns is not None):
            raise ConfigError(f"table {self.name!r}: across puts metrics in rows, so it takes neither rows nor columns")


@dataclass(frozen=True, config=_FROZEN)
class Curve:
    """A metric against a swept field, one line for each value of another, with interval bands and published points."""

    name: str
    x: str
    y: MetricName
    by: str | None = None
    where: dict[str, Any] = Field(default_factory=dict)
    targets: tuple[Target, ...] = ()
    title: str = ""
    kind: Literal["curve"] = "curve"


@dataclass(frozen=True, config=_FROZEN)
class LearningCurves:
    """Per-epoch values of every variant: mean over the seeds, with the range between them."""

    name: str = "learning_curves"
    metrics: tuple[str, ...] = ("train_loss", "selection_top1_accuracy")
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

    In a search `y` is the first objective where it is not named, and `selection_top1_accuracy` is the search's own score.
    """

    name: str = "pareto"
    x: MetricName = "gflops"
    y: MetricName | None = None
    title: str = ""
    kind: Literal["pareto"] = "pareto"


@dataclass(frozen=True, config=_FROZEN)
class Best:
    """Of a search: a table of its best trials, with each metric over fresh seeds, which the search did not choose by.

    Ranked by the first objective; where there are several, the Pareto front comes first.
    """

    name: str = "best"
    most: int = Field(default=10, ge=1)  # trials
    metrics: tuple[MetricName, ...] = ("top1_accuracy", "params", "gflops")
    title: str = ""
    kind: Literal["best"] = "best"


Drawing = Curve | LearningCurves | LossTrace | Mistakes | History | Importance | ParallelCoordinates | Slices | Pareto
AnyPart = Table | Arithmetic | Best | Captions | Alignment | Drawing
ReportPart = Annotated[AnyPart, Field(discriminator="kind")]
REPORT: TypeAdapter[list[AnyPart]] = TypeAdapter(list[ReportPart])
