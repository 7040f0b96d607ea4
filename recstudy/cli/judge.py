"""`recstudy judge runs.csv`: make a study with page, tables and verdicts from finished runs in a CSV file."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import yaml
from pydantic import Field
from tyro.conf import OmitArgPrefixes, Positional, arg

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.terminal import output, say
from recstudy.base.values import canonical
from recstudy.cli.options import File, ForPaper, Name, ResultsPlace, read_yaml
from recstudy.cli.study import draw_report
from recstudy.papers import Target, published
from recstudy.programs.columns import (
    BLOCKS,
    LOWER,
    METRIC,
    NEITHER,
    PREFIX,
    SEED,
    SETTING,
    Column,
    name_of,
    value_of,
)
from recstudy.programs.metric import Metric, using_metrics
from recstudy.programs.settings import Config, configure
from recstudy.programs.table import PROGRAM, RunTable, TableProgram, assign, finished_runs, read_table
from recstudy.records import Results, Run, write_whole
from recstudy.records.plans import IMPORTED, read_imported
from recstudy.records.reading import adapter
from recstudy.records.study_schema import Imported, ImportedFile, ImportedRun, MetricRecord
from recstudy.report import Claim, Curve, Differences, Part, Ranks
from recstudy.report import Table as TableOfRuns
from recstudy.report.claims import DEPTH, TUNED
from recstudy.report.figures.ranks import MIN_RANKED_BLOCKS
from recstudy.report.names import plural
from recstudy.study.design import MOST_RUNS, Variant
from recstudy.study.plan import Plan, make_plan
from recstudy.study.record import record_plan
from recstudy.study.repository import commit_date
from recstudy.study.study import NAME, Study

PRESET = "imported"
TABLE_METRICS, MANY_VARIANTS, BEST_VARIANTS = (
    6,
    500,
    50,
)  # metrics in the table; variants of which it shows the best 50 alone
FIGURE_POINTS = 1000  # levels along a figure
FEW_VARIANTS = 12  # variants that are compared with the first one, and lines of a figure
Listed = Annotated[str, arg(metavar="A,B")]
KEYS = (DEPTH, "metric", TUNED, "of", "over")  # of a claim's selectors that name no setting


@dataclass(frozen=True)
class Judge:
    """Write the page, tables and verdicts of finished runs in a CSV file.

    Exports of W&B, MLflow, Optuna, Ray and pandas are read unchanged. The first line of output says which
    columns are settings, seed and metrics. Unclear columns, cells and lines are refused. Example: recstudy
    judge runs.csv --metrics accuracy:%:10000,loss:lower --claims claims.yaml
    """

    file: Positional[Annotated[Path, arg(metavar="FILE.csv")]]
    """A row per run, with columns for settings, seed and metrics."""
    claims: File = None
    """A YAML file with a list of claims (the fields of recstudy.Claim), or with claims, metrics, question,
    title and data."""
    published: File = None
    """A CSV file of published values to compare with."""
    settings: Listed = ""
    """The columns that are settings. Default: detected."""
    metrics: Annotated[str, arg(metavar="A[:WORD...],B")] = ""
    """The columns that are metrics, the most important first. After colons: higher or lower (which is
    better), the unit, and the number of test items, such as accuracy:%:10000,loss:lower."""
    seed: Name = ""
    """The column of the seed. Without one, runs with equal settings are numbered."""
    blocks: Listed = ""
    """The settings within which variants are compared. Default: a varied data set, task, environment or fold.
    none: compare across them."""
    texts: Listed = ""
    """The settings whose cells are texts although they may look like numbers, such as versions 1.1 and
    1.10."""
    last: Name = ""
    """The column that counts the lines of a run, such as epoch. The last line of each run counts."""
    lines_are_runs: bool = False
    """Count each line as a run and number the runs. Ids and seeds are then left out."""
    name: Name = ""
    """The name of the study, part of its run ids. Default: the file name."""
    results: ResultsPlace = "results"
    """Where records and reports go. Runs that were imported before under this name stay, and are added to."""
    replace: bool = False
    """Take the values of this file where they differ from imported ones, and drop imported runs that it does
    not have.
    """
    report: OmitArgPrefixes[ForPaper] = field(default_factory=ForPaper)

    def run(self) -> int:
        name = self.name or self.file.stem
        if not NAME.fullmatch(name):
            example_name = "_".join(re.findall("[A-Za-z0-9]+", name)) or "runs"
            raise ConfigError(
                f"{name!r} cannot be the name of a study: give one, such as --name {example_name}"
            )
        texts = _list(self.texts)
        claims_file = read_claims(self.claims, map(name_of, texts)) if self.claims else ClaimsFile()
        described = {
            head: _words(words) for head, *words in (metric.split(":") for metric in _list(self.metrics))
        }
        described = described or claims_file.metrics
        table = read_table(self.file)
        assign(table, _list(self.settings), list(described), self.seed, texts, self.last, self.lines_are_runs)
        metrics = {column.name: _metric(column, described) for column in table.with_role(METRIC)}
        runs, lines = finished_runs(table, PROGRAM + name)
        results = Results(self.results).pull()
        with results.holding(name, PRESET) as folder:
            earlier_imports = read_imported(folder)
            imported = merge_imports(Imported() if self.replace else earlier_imports, table.file, runs)
            with using_metrics(metrics):
                targets = published(self.published.absolute()) if self.published else ()
            program = TableProgram(name, metrics, claims_file.title, claims_file.data, imported.files)
            program.committed = commit_date(self.claims) if self.claims else ""
            blocks = _list(self.blocks)
            plan, words = finished_plan(name, program, imported.runs, claims_file, targets, blocks)
            say(_assignment(table, metrics, len(runs), words), *lines)
            say(*import_changes(earlier_imports, imported, runs))
            with results.changing(folder / IMPORTED):
                write_whole(folder / IMPORTED, adapter(Imported).dump_json(imported, exclude_none=True))
            record_plan(plan, results)
        with output():
            draw_report(results, name, PRESET, self.report)
        return 0


# --------------------------------------------------------------------------------------------------
# metrics


def _list(words: str) -> list[str]:
    return [word.strip() for word in words.split(",") if word.strip()]


def _words(words: Sequence[str]) -> dict[str, Any] | None:
    """Return the fields of a metric that the command line states.

    Raises:
        ConfigError: A unit is probably a misspelt `higher` or `lower`.
    """
    fields: dict[str, Any] = {}
    for word in words:
        if word in ("higher", "lower"):
            fields["better"] = word
        elif hint := nearest(word, ("higher", "lower")):
            raise ConfigError(f"--metrics: {word!r} would be a unit.{hint}")
        elif word.isdigit():
            fields["items"] = int(word)
        else:
            fields["unit"] = word
    return fields


def _metric(column: Column, described: Mapping[str, Mapping[str, Any] | None]) -> Metric:
    """Return a metric as stated. By default it follows from its name, in percent if an accuracy exceeds 1."""
    field_names = [field.name for field in fields(MetricRecord)]
    matches = (
        overrides
        for name, overrides in described.items()
        if name == column.head or name_of(name) == column.name
    )
    stated_fields = next(matches, None) or {}
    for name in stated_fields:
        if name not in field_names:
            raise ConfigError(
                f"the metric {column.head!r} has no {name!r}: it has {choices(field_names)}."
                f"{nearest(name, field_names)}"
            )
    head, name = PREFIX.sub("", column.head), column.name.lower()
    is_percent = re.search("acc(uracy)?(_|$)", name) and 1 < max(column.numbers, default=0) <= 100
    usual = {
        "title": head.replace("_", " ").capitalize() if head == column.name else head,
        "better": "lower" if LOWER.fullmatch(name) else "higher",
        "unit": "%" if is_percent else "",
    }
    return Metric(**{**usual, **stated_fields})


def _assignment(table: RunTable, metrics: Mapping[str, Metric], runs: int, blocks: str) -> str:
    """Return the line about which columns are settings, blocks, seed and metrics."""
    parts = []
    for column in table.with_role(METRIC):
        metric = metrics[column.name]
        items = f"{metric.items:,} test items" if metric.items else ""
        parts.append(
            f"{column.head} ({', '.join(filter(None, [metric.unit, f'{metric.better} is better', items]))})"
        )
    seed = (
        table.heads(SEED)
        if table.with_role(SEED)
        else "none, so runs of the same settings are numbered in their order"
    )
    return (
        f"{table.file.name}: {plural(runs, 'run')}; settings: {table.heads(SETTING)}{blocks}; seed: {seed};"
        f" metrics: {', '.join(parts)}; left out: {table.heads(NEITHER, limit=6)}. Other columns: --settings"
        " A,B --metrics C,D --seed S"
    )


# --------------------------------------------------------------------------------------------------
# claims


class ClaimsFile(Config):
    """The content of a claims file. Metrics have the fields of `recstudy.Metric`."""

    claims: list[Any] = Field(default_factory=list)
    metrics: dict[str, dict[str, Any] | None] = Field(default_factory=dict)
    question: str = ""
    title: str = ""
    data: str = ""


def read_claims(file: Path, texts: Iterable[str] = ()) -> ClaimsFile:
    """Return the content of a claims file: a list of claims, or a `ClaimsFile`.

    Args:
        file: The YAML file.
        texts: The names of the settings whose levels are texts.

    Raises:
        ConfigError: The file cannot be read or has other content. The message names file and line.
    """
    values = read_yaml("--claims", file)
    if not isinstance(values, list | dict):
        raise ConfigError(
            f"{file.name} states nothing: it needs a list of claims, such as - {{text: ..., higher: {{lr:"
            " 0.1}}"
        )
    node: Any = yaml.compose(file.read_text(encoding="utf-8"), yaml.SafeLoader)  # which has the lines
    if isinstance(values, list):
        entries, values = node.value, {"claims": values}
    else:
        entries = next((value.value for key, value in node.value if key.value == "claims"), ())
    try:
        claims_file = configure(ClaimsFile, values)
    except ConfigError as error:
        raise ConfigError(f"{file.name}: {error}") from None
    claims, text_names = [], {*texts}
    for entry, place in zip(claims_file.claims, entries, strict=True):
        try:
            if not isinstance(entry, dict):
                raise ConfigError(
                    f"a claim has fields, such as text: ..., higher: {{lr: 0.1}}, but got {entry!r}"
                )
            claims.append(
                Claim(
                    **{
                        name: value if name == "text" else _normalize(value, name, text_names)
                        for name, value in entry.items()
                    }
                )
            )
        except ConfigError as error:
            raise ConfigError(f"{file.name}, line {place.start_mark.line + 1}: {error}") from None
    return claims_file.model_copy(update={"claims": claims})


def _normalize(value: Any, key: str, texts: Collection[str]) -> Any:
    """Return a part of a claim with the names and values of the settings and metrics in the study."""
    if isinstance(value, dict):
        return {
            name if name in KEYS else name_of(name): _normalize(value, name, texts)
            for name, value in value.items()
        }
    if isinstance(value, list):
        return [_normalize(value, key, texts) for value in value]
    if not isinstance(value, str) or name_of(key) in texts:
        return value
    return name_of(value) if key in ("metric", TUNED) else value_of(value)


# --------------------------------------------------------------------------------------------------
# study


def merge_imports(earlier_imports: Imported, file: ImportedFile, runs: Mapping[str, ImportedRun]) -> Imported:
    """Return the imported runs with those of a file. A run that failed before may have finished in the file.

    Raises:
        ConfigError: A finished run has other values in the file.
    """
    files = (*earlier_imports.files, file)
    file_index = [imported_file.sha256 for imported_file in files].index(file.sha256)
    known_runs = dict(earlier_imports.runs)
    conflicts = []
    for run_id, run in runs.items():
        earlier_run = known_runs.get(run_id)
        if earlier_run is None or earlier_run.status == "failed" != run.status:
            known_runs[run_id] = replace(run, file=file_index) if file_index else run
            continue
        measured = {name: value for name, value in earlier_run.metrics.items() if name in run.metrics}
        if run.status != earlier_run.status or measured.items() - run.metrics.items():
            conflicts.append(
                f"line {run.line}: this run is {run.status} with {run.metrics}, but it was imported as "
                f"{earlier_run.status} with {measured} from {earlier_imports.files[earlier_run.file].words}"
            )
        elif run.metrics.keys() - earlier_run.metrics.keys():
            known_runs[run_id] = replace(run, metrics=earlier_run.metrics | run.metrics, file=file_index)
    if conflicts:
        raise ConfigError(
            f"{file.name}, {'; '.join(conflicts[:FEW_VARIANTS])}. {plural(len(conflicts), 'imported run')} "
            "would change, and nothing was. --replace takes this file in place of all that was imported"
        )
    if known_runs == earlier_imports.runs:
        return earlier_imports
    return Imported(
        files=earlier_imports.files if file_index < len(earlier_imports.files) else files, runs=known_runs
    )


def import_changes(
    earlier_imports: Imported, current_imports: Imported, runs: Mapping[str, ImportedRun]
) -> list[str]:
    """Return a line about the new, changed and missing runs of a file; empty if it has the same runs."""
    added, missing_ids = (
        current_imports.runs.keys() - earlier_imports.runs.keys(),
        earlier_imports.runs.keys() - runs.keys(),
    )
    earlier_values, values = (
        {run_id: (run.status, run.metrics) for run_id, run in imported.runs.items()}
        for imported in (earlier_imports, current_imports)
    )
    changed = [
        run_id for run_id in earlier_values.keys() & values if earlier_values[run_id] != values[run_id]
    ]
    if not earlier_imports.runs or not (added or changed or missing_ids):
        return []
    line = (
        f"{plural(len(earlier_imports.runs), 'run')} imported before: this file adds {len(added)} and changes"
        f" {len(changed)}; it lacks {len(missing_ids)}"
    )
    fate = (
        "are dropped"
        if missing_ids.isdisjoint(current_imports.runs)
        else "stay in the study (--replace drops them)"
    )
    return [f"{line}, which {fate}" if missing_ids else line]


def finished_plan(
    name: str,
    program: TableProgram,
    runs: Mapping[str, ImportedRun],
    claims_file: ClaimsFile,
    targets: tuple[Target, ...],
    stated_blocks: Sequence[str],
) -> tuple[Plan, str]:
    """Return the plan of these runs, with one variant for each combination of settings.

    The text is about the blocks, or about why nothing is compared.
    """
    if len(runs) > MOST_RUNS:
        raise ConfigError(
            f"{name} would have {len(runs):,} runs, but a study has {MOST_RUNS:,} at most: split the file"
        )
    settings = {canonical(run.settings): run.settings for run in runs.values()}
    levels = _levels(list(settings.values()))
    axes = {axis: axis for axis, values in levels.items() if len(values) > 1}
    names = list(map(name_of, stated_blocks)) or [axis for axis in axes if BLOCKS.fullmatch(axis.lower())]
    names = [] if names == ["none"] else names
    # an axis that follows from blocks, such as the number of classes, is one of them
    blocks = dict.fromkeys([*names, *(axis for axis in axes if _depends(axis, names, settings.values()))])
    methods = {canonical([run.get(axis) for axis in axes if axis not in blocks]) for run in settings.values()}
    block_levels = {canonical([run.get(axis) for axis in blocks]) for run in settings.values()}
    words = f"; blocks (compared within): {choices(blocks)}" if blocks else ""
    if blocks and len(methods) == 1:
        words = f"; only {choices(blocks)} varies, so nothing is compared (to compare it: --blocks none)"
    labelled = [axis for axis in axes if not _follows(axis, levels, settings.values())]
    variants = {}
    for key in sorted(settings, key=lambda key: [levels[axis][settings[key].get(axis)] for axis in axes]):
        values = {axis: settings[key].get(axis) for axis in axes}
        changes = {axis: value for axis, value in values.items() if value is not None}
        label = ", ".join(f"{axis}={changes.get(axis, 'none')}" for axis in labelled)
        variants[key] = Variant(label or program.title, changes, values, axes)
    has_differences = 1 < len(methods) <= FEW_VARIANTS
    ranks = [Ranks(metric=next(iter(program.metrics)))] if len(block_levels) >= MIN_RANKED_BLOCKS else []
    study = Study(
        name,
        {PRESET: {setting: next(iter(values)) for setting, values in levels.items() if setting not in axes}},
        list(variants.values()),
        program=program,
        report=[
            *_report(
                program,
                runs.values(),
                variants,
                {axis: list(levels[axis]) for axis in labelled},
                targets,
                has_differences,
            ),
            *(ranks if has_differences else []),
        ],
        blocks=tuple(blocks) if len(methods) > 1 else (),
        claims=claims_file.claims,
        question=claims_file.question or f"What do the runs of {program.imported[-1].name} show?",
    )
    plan = make_plan(study)
    positions = {key: position for position, key in enumerate(variants)}
    planned = []
    for run_id, run in runs.items():
        position = positions[canonical(run.settings)]
        planned.append(Run(position, run.seed, run_id, plan.variants[position].label, plan.configs[position]))
    planned.sort(key=lambda run: (run.seed, run.variant))
    return replace(plan, finished=planned), words


def _report(
    program: TableProgram,
    runs: Iterable[ImportedRun],
    variants: Mapping[str, Variant],
    levels: Mapping[str, Sequence[Any]],
    targets: tuple[Target, ...],
    has_differences: bool,
) -> list[Part]:
    """Return a table of the metrics, figures over one or two settings, and differences."""
    score, metric = next(iter(program.metrics.items()))
    table = TableOfRuns("results", metrics=tuple(program.metrics)[:TABLE_METRICS], targets=targets)
    if len(variants) > MANY_VARIANTS:
        values: dict[str, list[float]] = {}
        for run in runs:
            if run.status == "done" and (value := run.metrics.get(score)) is not None:
                values.setdefault(canonical(run.settings), []).append(metric.sign * value)
        best = sorted(values, key=lambda key: fmean(values[key]), reverse=True)[:BEST_VARIANTS]
        title = f"{metric.title}: the best {BEST_VARIANTS} of {len(variants):,} variants, by their means"
        table = replace(table, title=title, where={"variant": [variants[key].label for key in best]})
    parts: list[Part] = [table]
    for axis, axis_levels in levels.items() if len(levels) <= 2 else ():
        other_axes = [other_axis for other_axis in levels if other_axis != axis]
        if (
            2 < len(axis_levels) <= FIGURE_POINTS
            and all(map(_is_number, axis_levels))
            and all(len(levels[other_axis]) <= FEW_VARIANTS for other_axis in other_axes)
        ):
            parts.append(Curve(f"by_{axis}", x=axis, y=score, by=next(iter(other_axes), None)))
    if has_differences:
        parts.append(Differences(metric=score, base=next(iter(variants.values())).label, targets=targets))
    return parts


def _depends(axis: str, other_axes: Sequence[str], settings: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the levels of other axes decide the level of this one."""
    levels = {canonical([[run.get(name) for name in other_axes], run.get(axis)]) for run in settings}
    return len(levels) == len({canonical([run.get(name) for name in other_axes]) for run in settings})


def _levels(settings: Sequence[Mapping[str, Any]]) -> dict[str, dict[Any, int]]:
    """Return the levels of each setting with their order: numbers sorted, other values as they occur."""
    positions = {}
    for name in dict.fromkeys(name for values in settings for name in values):
        levels = list(dict.fromkeys(values.get(name) for values in settings))
        if all(map(_is_number, set(levels) - {None})):
            levels.sort(key=lambda level: (level is not None, level or 0))
        positions[name] = {level: position for position, level in enumerate(levels)}
    return positions


def _follows(axis: str, levels: Mapping[str, Iterable[Any]], settings: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a number follows from a name, such as a model's size. Labels then omit it."""
    names = [name for name, values in levels.items() if any(isinstance(value, str) for value in values)]
    return axis not in names and any(_depends(axis, [name], settings) for name in names)


def _is_number(level: Any) -> bool:
    return isinstance(level, int | float) and not isinstance(level, bool)
