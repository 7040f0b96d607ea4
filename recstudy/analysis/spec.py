"""What a report is made of, as data: a study lists these, the plan carries them, the reading half draws them.

Fields are named as in a config (`model.latent_steps`), or by the name of a grid's axis (`model`, `batch_size`).
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from recstudy.papers import Target

_FROZEN = ConfigDict(extra="forbid")
MetricName = str


@dataclass(frozen=True, config=_FROZEN)
class Table:
    """Mean, 95 % interval and n of each metric, beside the published value and a verdict.

    One row a variant; or, with `rows` and `columns` (names of axes), the paper's layout of one metric.
    """

    name: str
    metrics: tuple[MetricName, ...] = ("top1_accuracy", "params", "gflops")
    rows: str | None = None
    columns: str | None = None
    where: dict[str, Any] = Field(default_factory=dict)  # axis -> level: only these variants
    targets: tuple[Target, ...] = ()
    title: str = ""
    kind: Literal["table"] = "table"


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


ReportPart = Annotated[Table | Curve | LearningCurves, Field(discriminator="kind")]
REPORT: TypeAdapter[list[Table | Curve | LearningCurves]] = TypeAdapter(list[ReportPart])
