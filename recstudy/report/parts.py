"""What a part of a report is: a class whose fields stand in a study's file and its plan, and whose methods
make the part.

A kind of part is registered by the name that plans have for it. A figure of your own:

    @PARTS.add("reliability_diagram")
    class ReliabilityDiagram(FigurePart, OfVariants):
        name: str = "reliability"
        bins: int = Field(default=15, ge=1)

        def data(self, records: StudyRecords) -> pd.DataFrame:
            return pd.DataFrame(...)  # a row per point: the CSV beside the figure

        def draw(self, data: pd.DataFrame) -> go.Figure:
            return px.line(data, x="confidence", y="accuracy", color="label")

`records` has the study's `variants`, those `chosen(self.where)`, and the rows of their runs
(`by_variant[at]`), each with what was measured; `answers_of(records, row)` gives what a run answered on the
test split, `results.run(row.id).path` its folder. A table gives rows of cells, each a number with the runs
behind it, which `recstudy explain` names:

    @PARTS.add("confidence")
    class Confidence(TablePart, OfVariants):
        name: str = "confidence"

        def cells(self, records: StudyRecords) -> TableData:
            rows = []
            for at in records.chosen(self.where):
                values = {row.id: confidence(records, row) for row in records.by_variant[at] if row.done}
                rows.append(TableRow(records.variants[at].label, (cell_of_values(records, [at], "confidence",
                values),)))
            return TableData(self.name, self.heading, ("Confidence (%)",), tuple(rows))

Fields are checked by pydantic, and may be whatever it writes as JSON; those that `axes_in` and `metrics_in`
list are checked against the study before any run starts. The bases are in `recstudy.report`; so are
`StudyRecords`, `TableData`, `TableRow`, `answers_of` and `cell_of_values`.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from recstudy.errors import ConfigError, choices, nearest
from recstudy.explained import explained
from recstudy.papers import Target, by_name
from recstudy.plugins import Registry
from recstudy.programs.metric import METRICS
from recstudy.report.names import find_metric, improved_metric

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from recstudy.report.cells import TableData
    from recstudy.report.shown import RenderedPart
    from recstudy.report.study_records import StudyRecords

PARTS: "Registry[type[Part]]" = Registry("report part")


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
class _Declared:
    """Every class below is a frozen dataclass whose fields pydantic checks."""

    def __init_subclass__(cls) -> None:
        explained(dataclass(frozen=True, config=ConfigDict(extra="forbid", defer_build=True))(cls))


class Part(_Declared):
    """One part of a report: the name of its files, and the title over it.

    A kind of your own derives from `FigurePart` or `TablePart`.
    """

    name: str
    title: str = Field(default="", kw_only=True)
    default_title: ClassVar[str] = ""
    # its fields that name axes or config fields, checked before any run starts
    axes_in: ClassVar[tuple[str, ...]] = ()
    metrics_in: ClassVar[tuple[str, ...]] = ()  # its fields that name metrics, checked likewise
    # those that name metrics which it goes by, or follows epoch by epoch
    reads_in: ClassVar[tuple[str, ...]] = ()
    explained: ClassVar[bool] = False  # whether its numbers can be named as TABLE:ROW:COLUMN
    live: ClassVar[bool] = False  # whether it changes with every epoch of a run under way

    @property
    def heading(self) -> str:
        """The title, or what stands where none is given."""
        return self.title or self.default_title or self.name.replace("_", " ")

    @property
    def is_per_step(self) -> bool:
        """Whether it shows nothing but what runs report step by step, so that it is left out where none
        reports a step.
        """
        return False

    @property
    def required_names(self) -> list[str]:
        """The axes, config fields or costs that the study must have."""
        return self._words("axes_in")

    @property
    def shown_metrics(self) -> list[str]:
        """The metrics whose numbers a reader finds in it, the one that it is about first."""
        return self._words("metrics_in")

    def _words(self, which: str) -> list[str]:
        """Return the names in the fields that this class and its bases list under `which`."""
        fields = [field for kind in type(self).__mro__ for field in vars(kind).get(which, ())]
        return [name for field in fields for name in names_in(getattr(self, field))]

    def render(self, records: "StudyRecords") -> "RenderedPart":
        """Return what a page, a folder of files, the terminal and a notebook take of a part that is neither
        figure nor table.
        """
        raise ConfigError(
            f"the part {self.name!r} is neither figure nor table: {type(self).__name__} must define"
            " render(records)"
        )

    def scored_by(self, score: str) -> Self:
        """Return the part in a search whose families are judged by this metric."""
        return self

    def of_metrics(self, metrics: Sequence[str]) -> Self:
        """Return the part with the metrics of a user's own program where a default names those of the
        recursive models.

        Raises:
            ConfigError: the part needs what only the recursive models have.
        """
        stated = {field.name: field.default for field in fields(self)}
        changed: dict[str, Any] = {}
        for name in (name for kind in type(self).__mro__ for name in vars(kind).get("metrics_in", ())):
            value = getattr(self, name)
            if value and value == stated[name]:
                changed[name] = (
                    tuple(metrics)
                    if isinstance(value, tuple)
                    else "seconds"
                    if value == "gflops"
                    else metrics[0]
                )
        return replace(self, **changed)


class OfVariants(Part):
    """A part that may be of some variants only: those at the levels that `where` names, by axis."""

    where: dict[str, Any] = Field(default_factory=dict, kw_only=True)
    axes_in: ClassVar[tuple[str, ...]] = ("where",)


class BesidePublished(Part):
    """A part that shows published values too: each stands where a variant has its settings."""

    targets: tuple[Target, ...] = Field(default=(), kw_only=True)


class FigurePart(Part):
    """A figure. A kind of yours defines `data` and `draw`, and may define the other methods.

    Raises:
        ConfigError: `data` found that the part names what the study does not have.
    """

    def data(self, records: "StudyRecords") -> "pd.DataFrame":
        """Return what the figure shows, a row per point. It is written as CSV beside the figure."""
        raise ConfigError(
            f"the figure {self.name!r} has no data of its own: {type(self).__name__} must define"
            " data(records)"
        )

    @abstractmethod
    def draw(self, data: "pd.DataFrame") -> "go.Figure":
        """Draw the data. Text in it is escaped already; the page and the paper set template, width and
        margins.
        """

    def notes(self, records: "StudyRecords", data: "pd.DataFrame") -> Sequence[str]:
        """Return what a reader must know before the numbers: by default `data.attrs["notes"]`."""
        return list(data.attrs.get("notes", ()))

    def caption(self, data: "pd.DataFrame") -> str:
        """Say how to read the figure: by default `data.attrs["caption"]`."""
        return str(data.attrs.get("caption", ""))

    def finding(self, data: "pd.DataFrame") -> str:
        """Say in a few words what the figure shows."""
        return ""

    def describe(self, data: "pd.DataFrame") -> str:
        """Return the words in a picture, for readers who cannot see it: by default `data.attrs["words"]`."""
        return str(data.attrs.get("words", ""))

    def html_below(self, records: "StudyRecords", data: "pd.DataFrame") -> str:
        """Return HTML that a page shows under the figure."""
        return ""


class TablePart(Part):
    """A table whose numbers carry the runs behind them. A kind of yours defines `cells`.

    Raises:
        ConfigError: `cells` found that the part names what the study does not have.
    """

    explained = True

    @abstractmethod
    def cells(self, records: "StudyRecords") -> "TableData":
        """Return the rows of cells."""


class Undrawable(Part):
    """A part of a plan that cannot be read here, and why: of a kind that is not registered, or with fields
    that it refuses.
    """

    entry: Any = None  # as it stands in the plan
    reason: str = ""
    explained = True  # asked for a number of it, `explain` says why there is none


def dump_report(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return the parts as a plan has them: each with its `kind`.

    Raises:
        ConfigError: one is no part, or of a kind that is not registered.
    """
    return [
        (
            part.entry
            if isinstance(part, Undrawable)
            else {"kind": kind_of(part), **TypeAdapter(type(part)).dump_python(part, mode="json")}
        )
        for part in parts
    ]


def read_report(entries: Sequence[Any]) -> list[Part]:
    """Return the parts of a plan in their order. One that cannot be read is `Undrawable`, and spoils no
    other.
    """
    return [_read(entry, at) for at, entry in enumerate(entries, 1)]


def check_report(parts: Iterable[Part], have: Collection[str], is_own: bool = False) -> None:
    """Refuse a part that could never be drawn, before any run starts.

    Args:
        parts: Of the report.
        have: The study's axes and settings.
        is_own: Whether the runs are of a user's own program, which may report values by any names.

    Raises:
        ConfigError: something is no part, of a kind that is not registered, or names an axis, field or metric
            that is not there.
    """
    for part in parts:
        kind = kind_of(part)
        wanted = [name for name in part.required_names if not find_metric(name)]
        for name in (name for name in wanted if name not in have):
            raise ConfigError(
                f"the {kind} {part.name!r} names {name!r}, but the study has"
                f" {choices(have)}.{nearest(name, have)}"
            )
        metrics = [*part.shown_metrics, *([] if is_own and part.live else part._words("reads_in"))]
        for name in (name for name in metrics if not _is_metric(name)):
            raise ConfigError(
                f"the {kind} {part.name!r} shows {name!r}, which no metric is called.{nearest(name, METRICS)}"
            )


def kind_of(part: Part) -> str:
    """Return what plans call its kind.

    Raises:
        ConfigError: it is not registered.
    """
    kind = type(part)
    found = next((name for name, known in PARTS.items() if known is kind), None)
    if found is None:
        raise ConfigError(
            f"a report is made of parts, but got {part!r}."
            if not isinstance(part, Part)
            else (
                f"the report part {kind.__name__} is not registered: write"
                f' @PARTS.add("{kind.__name__.lower()}") over its class.'
            )
        )
    return found


def names_in(value: Any) -> list[str]:
    """Return the names in a field: a text, the keys of a dict, or any of these in a tuple."""
    return [value] if isinstance(value, str) else [name for item in value or () for name in names_in(item)]


def _is_metric(name: str) -> bool:
    """Tell whether it is one: `auroc.*`, `avg_bleu_delta`, `top1_accuracy@4` follow from others; `score` is a
    search's own.
    """
    name, at, depth = name.partition("@")
    if at and not depth.isdigit():
        return False
    return name == "score" or bool(find_metric(name.partition(".")[0]) or improved_metric(name))


def _read(entry: Any, at: int) -> Part:
    fields = dict(entry) if isinstance(entry, Mapping) else {}
    if isinstance(fields.get("title"), str):
        fields["title"] = by_name(fields["title"])
    name, title = str(fields.get("name") or f"part {at}"), str(fields.get("title") or "")
    try:
        if "kind" not in fields:
            raise ConfigError("it has no kind")
        return PARTS[str(fields.pop("kind"))](**fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        reason = (
            f"{'.'.join(map(str, first['loc'])) or 'its fields'}: {first['msg']}, but got {first['input']!r}"
        )
    except ConfigError as error:
        reason = str(error)
    except Exception as error:  # a user's class may raise anything, and the rest of the report is still good
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
    return Undrawable(name, title=title, entry=entry, reason=f"{name!r} cannot be drawn: {reason}")
