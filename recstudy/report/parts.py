"""Base classes of report parts: figures and tables with fields that a study states and methods that draw.

A study file lists parts, a plan stores their fields, and `kinds.render_part` draws them. `PARTS` registers
each kind of part by its name in plans. A figure of your own:

    @PARTS.add("reliability_diagram")
    class ReliabilityDiagram(FigurePart, OfVariants):
        name: str = "reliability"
        bins: int = Field(default=15, ge=1)

        def data(self, records: StudyRecords) -> pd.DataFrame:
            return pd.DataFrame(...)  # a row per point: the CSV beside the figure

        def draw(self, data: pd.DataFrame) -> go.Figure:
            return px.line(data, x="confidence", y="accuracy", color="label")

`records` has the study's `variants`, the indices `chosen(self.where)` and the rows of their runs
(`by_variant[index]`) with all measured values. `answers_of(records, row)` returns a run's answers on the test
split, and `records.results.run(row.id).path` is its folder. A table returns rows of cells. Each cell is a
number with the runs behind it, which `recstudy explain` lists:

    @PARTS.add("confidence")
    class Confidence(TablePart, OfVariants):
        name: str = "confidence"

        def cells(self, records: StudyRecords) -> TableData:
            rows = []
            for index in records.chosen(self.where):
                values = {row.id: confidence(records, row) for row in records.by_variant[index] if row.done}
                cell = cell_of_values(records, [index], "confidence", values)
                rows.append(TableRow(records.variants[index].label, (cell,)))
            return TableData(self.name, self.heading, ["Confidence (%)"], rows)

Pydantic checks the fields, which may have any type that it writes as JSON. Before any run starts, the fields
that `axes_in` and `metrics_in` list are checked against the study. `recstudy.report` exports the base
classes, `StudyRecords`, `TableData`, `TableRow` and `cell_of_values`, `recstudy.recursive` exports
`answers_of`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Self, dataclass_transform

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.explained import explained
from recstudy.base.lazy import go, pd
from recstudy.base.opened import is_regular_file
from recstudy.papers import Target, by_name
from recstudy.plugins import Registry, missing_reasons
from recstudy.programs.metric import METRICS
from recstudy.records.files import Json
from recstudy.report.names import find_metric, improved_metric, metric
from recstudy.report.shown import RenderedPart
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import TableData

PARTS: Registry[type[Part]] = Registry("report part")
# functions that add to a report the parts that it lacks, such as a figure that answers its question
COMPLETIONS: list[Callable[[list[Part], StudyRecords], list[Part]]] = []
SAMPLED_RUNS = 50  # started runs that are checked for logs by step


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
class _Declared:
    """Make every subclass a frozen dataclass whose fields pydantic checks."""

    def __init_subclass__(cls) -> None:
        explained(dataclass(frozen=True, config=ConfigDict(extra="forbid", defer_build=True))(cls))


class Part(_Declared):
    """One part of a report, with the name of its files and its title.

    Derive your own kinds from `FigurePart` or `TablePart`.
    """

    name: str
    title: str = Field(default="", kw_only=True)
    default_title: ClassVar[str] = ""
    # Fields that name axes or config fields. They are checked before any run starts.
    axes_in: ClassVar[tuple[str, ...]] = ()
    metrics_in: ClassVar[tuple[str, ...]] = ()  # fields that name metrics, checked likewise
    # Fields that name metrics by which the part orders or selects, or which it plots by epoch.
    reads_in: ClassVar[tuple[str, ...]] = ()
    explained: ClassVar[bool] = False  # whether `recstudy explain` accepts TABLE:ROW:COLUMN
    live: ClassVar[bool] = False  # whether it changes with every epoch of a running run
    run_file: ClassVar[str] = ""  # the file of a run that it draws, also on the run's own page

    @property
    def heading(self) -> str:
        """The title; if none is given, the default title or the name."""
        return self.title or self.default_title or self.name.replace("_", " ")

    @property
    def is_per_step(self) -> bool:
        """Whether the part shows only values by step. It is left out if no run reports steps."""
        return False

    @property
    def required_names(self) -> list[str]:
        """The axes, config fields or costs that the study must have."""
        return self._words("axes_in")

    @property
    def shown_metrics(self) -> list[str]:
        """The metrics whose numbers the part shows, its main metric first."""
        return self._words("metrics_in")

    def _fields(self, attribute: str) -> list[str]:
        """Return the fields that this class and its bases list under the attribute."""
        return [field for kind in type(self).__mro__ for field in vars(kind).get(attribute, ())]

    def _words(self, attribute: str) -> list[str]:
        """Return the names in these fields."""
        return [name for field in self._fields(attribute) for name in names_in(getattr(self, field))]

    def render(self, records: StudyRecords) -> RenderedPart:
        """Return the rendered part. A part that is neither figure nor table must define this method."""
        raise ConfigError(f"{type(self).__name__} does not define `render`: see recstudy.report.parts")

    @classmethod
    def of_run(cls, config: Json) -> Self | None:
        """Return the part as the board's page of one run with these settings shows it, or None."""
        return cls()  # type: ignore[call-arg]  # a kind that draws a file of runs has a default name

    def scored_by(self, score: str) -> Self:
        """Return the part for a search whose families are compared by this metric."""
        return self

    def of_metrics(self, metrics: Sequence[str]) -> Self:
        """Return the part for a user's own program.

        Default metrics of the recursive models are replaced by the program's metrics.

        Raises:
            ConfigError: The part needs values that only the recursive models have.
        """
        defaults = {field.name: field.default for field in fields(self)}
        changed: dict[str, Any] = {}
        for name in self._fields("metrics_in"):
            value = getattr(self, name)
            if value and value == defaults[name]:
                if isinstance(value, tuple):
                    changed[name] = tuple(metrics)
                else:
                    # Nothing counts the FLOPs of a user's own program, so wall time is the cost.
                    changed[name] = "seconds" if value == "gflops" else metrics[0]
        return replace(self, **changed)


class OfVariants(Part):
    """A part of all variants, or of those that the selector `where` names (axis -> level)."""

    where: dict[str, Any] = Field(default_factory=dict, kw_only=True)
    axes_in: ClassVar[tuple[str, ...]] = ("where",)

    def comparable(self, records: StudyRecords) -> list[int]:
        """Return the variants of the part, without models that were given the answer."""
        return [index for index in records.chosen(self.where) if not records.leaks(index)]


class OfMetric(Part):
    """A part about one metric, which its title names."""

    metric: str = "top1_accuracy"
    metrics_in = ("metric",)
    subject: ClassVar[str] = ""

    @property
    def heading(self) -> str:
        return self.title or f"{metric(self.metric).title}: {self.subject}"


class BesidePublished(Part):
    """A part that also shows published values, each at the variant with its settings."""

    targets: tuple[Target, ...] = Field(default=(), kw_only=True)


class FigurePart(Part):
    """A figure. Your own kind must define `data` and `draw`, and may define the other methods.

    Raises:
        ConfigError: The part names an axis, variant or metric that the study does not have.
    """

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return the figure's data, a row per point. The report also writes them as CSV."""
        raise ConfigError(f"{type(self).__name__} does not define `data`: see recstudy.report.parts")

    @abstractmethod
    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Return the figure of these data.

        Text in the data is escaped already. The page and the paper set template, width and margins.
        """

    def notes(self, records: StudyRecords, data: pd.DataFrame) -> Sequence[str]:
        """Return warnings about the numbers, by default `data.attrs["notes"]`."""
        return list(data.attrs.get("notes", ()))

    def caption(self, data: pd.DataFrame) -> str:
        """Return how to read the figure, by default `data.attrs["caption"]`."""
        return str(data.attrs.get("caption", ""))

    def finding(self, data: pd.DataFrame) -> str:
        """Return the main result of the figure in a few words."""
        return ""

    def describe(self, data: pd.DataFrame) -> str:
        """Return a text for readers who cannot see the figure, by default `data.attrs["words"]`."""
        return str(data.attrs.get("words", ""))

    def html_below(self, records: StudyRecords, data: pd.DataFrame) -> str:
        """Return HTML that a page shows under the figure."""
        return ""

    def shown(self, data: pd.DataFrame, notes: Iterable[str], html_below: str = "") -> RenderedPart:
        """Return the rendered figure of these data."""
        empty = RenderedPart(
            self.name,
            data=data,
            draw=self.draw,
            title=self.heading,
            html_below=html_below,
            notes=list(notes),
        )
        if empty.is_empty:
            return empty
        caption, words = self.caption(data), self.describe(data)
        return replace(empty, finding=self.finding(data), caption=caption, description=words)


class TablePart(Part):
    """A table whose numbers know the runs behind them. Your own kind must define `cells`.

    Raises:
        ConfigError: The part names an axis, variant or metric that the study does not have.
    """

    explained = True

    def cells(self, records: StudyRecords) -> TableData:
        """Return the rows of cells."""
        raise ConfigError(f"{type(self).__name__} does not define `cells`: see recstudy.report.parts")


class Undrawable(Part):
    """A part of a plan that cannot be read: its kind is not registered, or a field is invalid."""

    entry: Any = None  # the part's fields in the plan
    reason: str = ""
    explained = True  # so that `recstudy explain` states the reason


def dump_report(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return the parts as entries of a plan, each with its `kind`.

    Raises:
        ConfigError: An entry is not a part, or its kind is not registered.
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
    """Return the parts of a plan in their order. A part that cannot be read becomes `Undrawable`."""
    return [_read(entry, position) for position, entry in enumerate(entries, 1)]


def parts_of(records: StudyRecords) -> list[Part]:
    """Return the parts of a study's report. A part that cannot be read is `Undrawable` and has the reason.

    Parts that show only values by step are left out if no run has reported a step. A figure is added if the
    report has none that answers its question.
    """
    return records.compute_once("parts", lambda: _parts_of(records))


def shown_metrics(records: StudyRecords) -> list[str]:
    """Return the metrics whose numbers the parts of the report show, each once, the main one first."""
    return list(dict.fromkeys(name for part in parts_of(records) for name in part.shown_metrics))


def _parts_of(records: StudyRecords) -> list[Part]:
    with records.study_modules():
        # A part of a user's own kind is read with the class of the user's module.
        parts = read_report(records.plan.report)
    started_runs = [row for row in records.rows if row.status != "not run"][:SAMPLED_RUNS]
    has_steps = any(is_regular_file(records.results.run(row.id).epochs) for row in started_runs)
    parts = [part for part in parts if has_steps or not started_runs or not part.is_per_step]
    for complete in COMPLETIONS:
        parts = complete(parts, records)
    return parts


def missing_modules(records: StudyRecords) -> list[str]:
    """Return why modules that the study defines are not available; empty if nothing is lost without them."""
    # A user's own program loses only report parts, and the recursive models may lose a model or a metric.
    lacks_modules = (
        any(isinstance(part, Undrawable) for part in parts_of(records))
        if records.is_own
        else records.plan.plugins
    )
    return list(missing_reasons) if lacks_modules else []


def check_report(parts: Iterable[Part], have: Collection[str], is_own: bool = False) -> None:
    """Refuse parts that could never be drawn, before any run starts.

    Args:
        parts: The parts of the report.
        have: The study's axes and settings.
        is_own: Whether the runs are of a user's own program, which may report values under any name.

    Raises:
        ConfigError: An entry is not a part, its kind is not registered, or it names an unknown axis, field or
            metric.
    """
    for part in parts:
        kind = kind_of(part)
        for name in part.required_names:
            if not find_metric(name) and name not in have:
                raise ConfigError(
                    f"the {kind} {part.name!r} names {name!r}, but the study has"
                    f" {choices(have)}.{nearest(name, have)}"
                )
        metrics = [*part.shown_metrics, *([] if is_own and part.live else part._words("reads_in"))]
        for name in metrics:
            if not _is_metric(name):
                raise ConfigError(
                    f"the {kind} {part.name!r} shows {name!r}, but no metric has this"
                    f" name.{nearest(name, METRICS)}"
                )


def kind_of(part: Part) -> str:
    """Return the name of a part's kind in plans.

    Raises:
        ConfigError: The object is not a part, or its kind is not registered.
    """
    if not isinstance(part, Part):
        raise ConfigError(f"a report is made of parts, but got {part!r}.")
    kind = type(part)
    kind_name = next((name for name, registered in PARTS.items() if registered is kind), None)
    if kind_name is None:
        raise ConfigError(
            f"the report part {kind.__name__} is not registered: write"
            f' @PARTS.add("{kind.__name__.lower()}") over its class.'
        )
    return kind_name


def names_in(value: Any) -> list[str]:
    """Return the names in a field: a text, the keys of a dict, or any of these in a tuple."""
    if isinstance(value, str):
        return [value]
    return [name for item in value or () for name in names_in(item)]


def _is_metric(name: str) -> bool:
    """Return whether a name is a metric's.

    `auroc.*`, `avg_bleu_delta` and `top1_accuracy@4` are derived from registered metrics.
    """
    name, separator, depth = name.partition("@")
    if separator and not depth.isdigit():
        return False
    # `score` is the metric by which a search compares its families.
    return name == "score" or bool(find_metric(name.partition(".")[0]) or improved_metric(name))


def _read(entry: Any, position: int) -> Part:
    fields = dict(entry) if isinstance(entry, Mapping) else {}
    if isinstance(fields.get("title"), str):
        fields["title"] = by_name(fields["title"])
    name, title = str(fields.get("name") or f"part {position}"), str(fields.get("title") or "")
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
    # A user's class may raise anything, and the other parts must still be drawn.
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
    return Undrawable(name, title=title, entry=entry, reason=f"{name!r} cannot be drawn: {reason}")
