"""`recstudy judge runs.csv`: finished runs of a CSV file as a study, with its page, tables and verdicts. Nothing is run."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import tyro
import yaml
from pydantic import Field

from recstudy.errors import ConfigError, choices, nearest
from recstudy.options import File, ForPaper, Name, ResultsPlace
from recstudy.papers import Target, published
from recstudy.programs.metric import Metric, using_metrics
from recstudy.programs.settings import Config, canonical, configure
from recstudy.programs.table import (
    LOWER,
    PREFIX,
    PROGRAM,
    Column,
    Roles,
    RunTable,
    Table,
    assign,
    finished_runs,
    heads,
    name_of,
    read_table,
    value_of,
)
from recstudy.records import Results, write_whole
from recstudy.records.plans import IMPORTED, read_imported, record_look
from recstudy.records.reading import adapter
from recstudy.records.study_schema import Imported, ImportedRun, MetricRecord
from recstudy.report import Claim, Curve, Differences, Part
from recstudy.report import Table as TableOfRuns
from recstudy.report.claims import DEPTH, METRIC, TUNED
from recstudy.report.names import plural
from recstudy.study.design import MOST_RUNS, Variant
from recstudy.study.plan import Plan, Run, make_plan
from recstudy.study.record import record_plan
from recstudy.study.study import NAME, Study
from recstudy.terminal import console, output, say

PRESET = "imported"
SHOWN, MANY, BEST = 6, 500, 50  # metrics in the table; variants of which it shows the best 50 alone
POINTS = 1000  # levels along a figure
FEW = 12  # variants that are compared with the first one, and lines of a figure
Listed = Annotated[str, tyro.conf.arg(metavar="A,B")]
KEYS = (DEPTH, METRIC, TUNED, "of", "over")  # of a claim's selectors that name no setting


@dataclass(frozen=True)
class Judge:
    """Judge finished runs of a CSV file, as W&B, MLflow, Optuna and pandas write it. Runs nothing.

    Writes the page, tables, figures and verdicts of a study. The first line says which columns were taken as settings, seed and
    metrics. Such as: recstudy judge runs.csv --metrics accuracy:%:10000,loss:lower --claims claims.yaml
    """

    file: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="FILE.csv")]]
    """A line for each run, with columns for settings, seed and metrics."""
    claims: File = None
    """A YAML file with a list of claims, each with the fields of recstudy.Claim; or with claims, metrics, question, title
    and data."""
    published: File = None
    """A CSV file of published values to compare with."""
    settings: Listed = ""
    """The columns that are settings. Others are then no settings."""
    metrics: Annotated[str, tyro.conf.arg(metavar="A[:WORD...],B")] = ""
    """The columns that are metrics, the most important first. Words behind a name, with colons: higher or lower is better, the
    unit, and the number of test items of a share, such as accuracy:%:10000,loss:lower."""
    seed: Name = ""
    """The column that is the seed. Without one, runs of the same settings are numbered in their order."""
    name: Name = ""
    """Of the study. Default: the file's, without its ending. It is part of the run ids."""
    results: ResultsPlace = "results"
    """Where records and reports go. Runs that were imported before under this name stay, and are added to."""
    replace: bool = False
    """Take the values of this file where they differ from imported ones, and drop imported runs that it does not have."""
    report: tyro.conf.OmitArgPrefixes[ForPaper] = field(default_factory=ForPaper)

    def run(self) -> int:
        from recstudy.analysis.report import show_report

        name = self.name or self.file.stem
        if not NAME.fullmatch(name):
            such = "_".join(re.findall("[A-Za-z0-9]+", name)) or "runs"
            raise ConfigError(f"{name!r} cannot be the name of a study: give one, such as --name {such}")
        stated = read_claims(self.claims) if self.claims else ClaimsFile()
        given = {head: _words(words) for head, *words in (metric.split(":") for metric in _listed(self.metrics))}
        described: Mapping[str, Mapping[str, Any] | None] = given or stated.metrics
        table = read_table(self.file)
        roles = assign(table, _listed(self.settings), list(described), self.seed)
        metrics = {column.name: _metric(column, described) for column in roles.metrics}
        runs, lines = finished_runs(table, roles, PROGRAM + name)
        say(_assignment(table, roles, metrics, len(runs)))
        for line in lines:
            say(line)
        results = Results(self.results).pull()
        with results.holding(name, PRESET) as folder:
            imported = merged(read_imported(folder), Imported(files=(table.file,), runs=runs), self.replace)
            program = Table(name, metrics, stated.title, stated.data, imported.files)
            with using_metrics(metrics):
                targets = published(self.published.absolute()) if self.published else ()
            study = judged_study(name, program, imported.runs.values(), stated, targets)
            plan = finished_plan(study, imported.runs)
            with results.changing(folder / IMPORTED):
                write_whole(folder / IMPORTED, adapter(Imported).dump_json(imported, exclude_none=True))
            record_plan(plan, results)
        with output():
            record_look(results, name, PRESET)
            page = show_report(results, name, PRESET, self.report.formats, console(), self.report.paper)
            results.send(page.parent)
        return 0


# ------------------------------------------------------------------------------------------------------------- options


def _listed(words: str) -> list[str]:
    return [word.strip() for word in words.split(",") if word.strip()]


def _words(words: Sequence[str]) -> dict[str, Any]:
    """Return what words of the command line say of a metric."""
    said: dict[str, Any] = {}
    for word in words:
        kind = "better" if word in ("higher", "lower") else "items" if word.isdigit() else "unit"
        said[kind] = int(word) if kind == "items" else word
    return said


def _metric(column: Column, described: Mapping[str, Any]) -> Metric:
    """Return how a metric is read, as stated; else by its name, and in percent where an accuracy is above 1."""
    stated = described.get(column.head, described.get(column.name)) or {}
    known = [field.name for field in fields(MetricRecord)]
    for name in stated:
        if name not in known:
            raise ConfigError(f"the metric {column.head!r} has no {name!r}: it has {choices(known)}.{nearest(name, known)}")
    is_percent = re.search("acc(uracy)?(_|$)", column.name.lower()) and 1 < max(column.numbers, default=0) <= 100
    usual = {"better": "lower" if LOWER.fullmatch(column.name.lower()) else "higher", "unit": "%" if is_percent else ""}
    head = PREFIX.sub("", column.head)
    title = head if head != column.name else head.replace("_", " ").capitalize()
    return Metric(**{"title": title, **usual, **stated})


def _assignment(table: RunTable, roles: Roles, metrics: Mapping[str, Metric], runs: int) -> str:
    """Return the first line: which columns were taken as settings, seed and metrics."""
    read = []
    for column in roles.metrics:
        metric = metrics[column.name]
        items = f"{metric.items:,} test items" if metric.items else ""
        read.append(f"{column.head} ({', '.join(filter(None, [metric.unit, f'{metric.better} is better', items]))})")
    used = {*roles.settings, *roles.metrics, roles.seed, roles.state}
    left = heads((column for column in table.columns if column not in used), most=6)
    seed = roles.seed.head if roles.seed else "none, so runs of the same settings are numbered in their order"
    return (
        f"{table.file.name}: {plural(runs, 'run')}; settings: {heads(roles.settings)}; seed: {seed}; metrics: {', '.join(read)}; "
        f"left out: {left}. Other columns: --settings A,B --metrics C,D --seed S"
    )


class ClaimsFile(Config):
    """What a file of claims states; of metrics, the fields of `recstudy.Metric`."""

    claims: list[Any] = Field(default_factory=list)
    metrics: dict[str, dict[str, Any] | None] = Field(default_factory=dict)
    question: str = ""
    title: str = ""
    data: str = ""


def read_claims(file: Path) -> ClaimsFile:
    """Return what a YAML file states: a list of claims, or a `ClaimsFile`.

    Raises:
        ConfigError: It cannot be read or states something else. The message names file and line.
    """
    try:
        node: Any = yaml.compose(file.read_text(encoding="utf-8"), yaml.SafeLoader)
        stated = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise ConfigError(f"--claims {file}: {why}") from None
    if not isinstance(stated, list | dict):
        raise ConfigError(f"{file.name} states nothing: it needs a list of claims, such as - {{text: ..., than: {{lr: 0.1}}}}")
    try:
        found = configure(ClaimsFile, {"claims": stated} if isinstance(stated, list) else stated)
    except ConfigError as error:
        raise ConfigError(f"{file.name}: {error}") from None
    entries = node if isinstance(stated, list) else {key.value: value for key, value in node.value}.get("claims")
    claims = []
    for entry, place in zip(found.claims, entries.value if entries else (), strict=True):
        try:
            if not isinstance(entry, dict):
                raise ConfigError(f"a claim has fields, such as text: ..., than: {{lr: 0.1}}, but got {entry!r}")
            claims.append(Claim(**{name: value if name == "text" else _named(value, name) for name, value in entry.items()}))
        except ConfigError as error:
            raise ConfigError(f"{file.name}, line {place.start_mark.line + 1}: {error}") from None
    return found.model_copy(update={"claims": claims})


def _named(given: Any, key: str = "") -> Any:
    """Return a part of a claim with the names and values that settings and metrics have here."""
    if isinstance(given, dict):
        return {name if name in KEYS else name_of(name): _named(value, name) for name, value in given.items()}
    if isinstance(given, list):
        return [_named(value, key) for value in given]
    return given if not isinstance(given, str) else name_of(given) if key in (METRIC, TUNED) else value_of(given)


# -------------------------------------------------------------------------------------------------------------- study


def merged(before: Imported, new: Imported, replace_values: bool) -> Imported:
    """Return the imported runs with those of a new file. A known run keeps its values, and its file where nothing is added.

    Raises:
        ConfigError: A known run has another value now.
    """
    if replace_values:
        return new
    files = before.files
    if new.files[0].sha256 not in {file.sha256 for file in files}:
        files = (*files, *new.files)
    place = [file.sha256 for file in files].index(new.files[0].sha256)
    runs, is_new = dict(before.runs), False
    for run_id, run in new.runs.items():
        known = runs.get(run_id)
        if known and (known.status != "failed" or run.status == "failed"):
            for name, value in known.metrics.items():
                if run.status != known.status or run.metrics.get(name, value) != value:
                    now = run.metrics.get(name, value) if run.status == known.status else run.status
                    raise ConfigError(
                        f"{new.files[0].name}, line {run.line}: {name} of this run is {now}, but {value} was imported from "
                        f"{files[known.file].words}. --replace takes this file in place of all that was imported"
                    )
            if known.metrics.keys() >= run.metrics.keys():
                continue
            run = replace(run, metrics=known.metrics | run.metrics)
        runs[run_id] = replace(run, file=place) if place else run
        is_new = True
    return Imported(files=files, runs=runs) if is_new else before


def judged_study(
    name: str, program: Table, runs: Iterable[ImportedRun], stated: ClaimsFile, targets: tuple[Target, ...]
) -> Study:
    """Return the study of these runs: a variant for each combination of settings, in the order of their levels."""
    settings = list({canonical(run.settings): run.settings for run in runs}.values())
    names = dict.fromkeys(setting for values in settings for setting in values)
    levels = {setting: _levels(values.get(setting) for values in settings) for setting in names}
    axes = {setting: setting for setting, found in levels.items() if len(found) > 1}
    places = {axis: {canonical(level): place for place, level in enumerate(levels[axis])} for axis in axes}
    shown = [axis for axis in axes if not _follows(axis, levels, settings)]
    variants, labels = [], {}
    for values in sorted(settings, key=lambda values: [places[axis][canonical(values.get(axis))] for axis in axes]):
        label = ", ".join(f"{axis}={'none' if values.get(axis) is None else values[axis]}" for axis in shown) or program.title
        changes = {axis: values[axis] for axis in axes if axis in values}
        labels[canonical(values)] = label
        variants.append(Variant(label, changes, {axis: values.get(axis) for axis in axes}, axes))
    score = next(iter(program.metrics))
    table = TableOfRuns("results", metrics=tuple(program.metrics)[:SHOWN], targets=targets)
    if len(variants) > MANY:
        best = [labels[key] for key in _best(runs, score, program.metrics[score].sign)]
        title = f"{program.metrics[score].title}: the best {BEST} of {len(variants):,} variants, by their means"
        table = replace(table, title=title, where={"variant": best})
    parts: list[Part] = [table]
    for axis in shown if len(shown) <= 2 else ():
        lines = [other for other in shown if other != axis]
        if (
            2 < len(levels[axis]) <= POINTS
            and all(map(_is_number, levels[axis]))
            and all(len(levels[one]) <= FEW for one in lines)
        ):
            parts.append(Curve(f"by_{axis}", x=axis, y=score, by=next(iter(lines), None)))
    if 1 < len(variants) <= FEW:
        parts.append(Differences(metric=score, base=variants[0].label, targets=targets))
    return Study(
        name,
        {PRESET: {setting: found[0] for setting, found in levels.items() if setting not in axes}},
        variants,
        program=program,
        report=parts,
        claims=stated.claims,
        question=stated.question or f"What do the runs of {program.imported[-1].name} show?",
    )


def _follows(axis: str, levels: Mapping[str, Sequence[Any]], settings: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a number follows from a name, as a model's size does: then labels do without it."""
    texts = [name for name, found in levels.items() if name != axis and any(isinstance(level, str) for level in found)]
    pairs = [{(values.get(name), values.get(axis)) for values in settings} for name in texts]
    is_text = any(isinstance(level, str) for level in levels[axis])
    return not is_text and any(len(pair) == len(levels[name]) for name, pair in zip(texts, pairs, strict=True))


def _best(runs: Iterable[ImportedRun], score: str, sign: int) -> list[str]:
    """Return the settings, as canonical JSON, with the best means."""
    values: dict[str, list[float]] = {}
    for run in runs:
        if run.status == "done" and (value := run.metrics.get(score)) is not None:
            values.setdefault(canonical(run.settings), []).append(value)
    return sorted(values, key=lambda settings: -sign * fmean(values[settings]))[:BEST]


def _levels(values: Iterable[Any]) -> list[Any]:
    """Return the different levels of a setting: numbers in their order, others as they come."""
    found = list({canonical(value): value for value in values}.values())
    is_ordered = all(_is_number(value) for value in found if value is not None)
    return sorted(found, key=lambda value: (value is not None, value or 0)) if is_ordered else found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class FinishedPlan(Plan):
    """A plan whose runs are finished, each with the seed that it had."""

    runs: Sequence[Run] = ()  # type: ignore[assignment]


def finished_plan(study: Study, runs: Mapping[str, ImportedRun]) -> Plan:
    """Return the plan of exactly these runs."""
    if len(runs) > MOST_RUNS:
        raise ConfigError(f"{study.name} would have {len(runs):,} runs, but a study has {MOST_RUNS:,} at most: split the file")
    plan = make_plan(study)
    places = {canonical(config.values["settings"]): place for place, config in enumerate(plan.configs)}
    found = []
    for run_id, run in runs.items():
        place = places[canonical(run.settings)]
        found.append(Run(place, plan.variants[place].label, run.seed, plan.configs[place], run_id))
    found.sort(key=lambda run: (run.seed, run.variant))
    return FinishedPlan(**{field.name: getattr(plan, field.name) for field in fields(Plan)}, runs=found)
