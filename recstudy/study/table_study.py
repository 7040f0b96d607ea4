"""Judge a table of finished runs: import its runs and record them as a study.

`recstudy judge FILE` and `recstudy.judge(frame)` call `import_table`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.opened import MB, size_limit
from recstudy.base.values import canonical
from recstudy.papers import published as published_values
from recstudy.programs.columns import (
    ERROR_OF,
    ITEM,
    METRIC,
    NEITHER,
    SEED,
    SETTING,
    SHARES,
    TRAINING,
    USUAL_COST,
    name_of,
)
from recstudy.programs.metric import Metric, metric_fields, scale_problem, using_metrics
from recstudy.programs.table import PROGRAM, RunTable, TableProgram, finished_runs
from recstudy.programs.table_files import frame_table, read_table
from recstudy.programs.table_metrics import (
    check_scale,
    described_metrics,
    score_of,
    table_metric,
)
from recstudy.programs.table_options import MetricFields, TableOptions
from recstudy.programs.table_roles import assign
from recstudy.records import Results, write_whole
from recstudy.records.plans import IMPORTED, read_imported
from recstudy.records.reading import adapter
from recstudy.records.study_schema import Imported, ImportedRun
from recstudy.report.claims import Claim
from recstudy.report.names import plural
from recstudy.study.claims_file import ClaimsFile, read_claims
from recstudy.study.imported import PRESET, finished_plan, import_changes, merge_imports
from recstudy.study.record import record_plan
from recstudy.study.repository import commit_date
from recstudy.study.study import NAME

if TYPE_CHECKING:
    import pandas as pd

    from recstudy.report.loaded import Loaded


def import_table(
    table: RunTable,
    name: str,
    results: Results,
    options: TableOptions,
    claims: ClaimsFile,
    claims_path: Path | None,
    published_path: Path | None,
) -> list[str]:
    """Import the runs of a table into a results folder, and record the plan of their study.

    Args:
        table: The table.
        name: The name of the study.
        results: The results folder.
        options: The stated roles and rules.
        claims: The claims and what is stated with them.
        claims_path: Their file, whose commit in git dates them.
        published_path: A CSV file of published values.

    Returns:
        Lines about the roles of the columns, and about runs and lines that were left out.

    Raises:
        ConfigError: A column, a line or a claim is invalid or has two readings.
    """
    if not NAME.fullmatch(name):
        example_name = "_".join(re.findall("[A-Za-z0-9]+", name)) or "runs"
        raise ConfigError(f"{name!r} cannot be the name of a study: give one, such as --name {example_name}")
    options = changed(options, metrics=options.metrics or claims.metrics)
    assign(table, options)
    items = len({cell for column in table.with_role(ITEM) for cell in column.texts})
    columns = table.with_role(METRIC)
    if not options.metrics:  # the first metric is the score, not a loss of training or a cost
        columns.sort(key=lambda column: column.matches(TRAINING, USUAL_COST))
    metrics = {column.name: table_metric(column, options.metrics, items) for column in columns}
    score_of(columns[0], options.metrics, items)
    for column in table.with_role(METRIC):
        if problem := scale_problem(column.head, metrics[column.name], column.numbers):
            fix = f"--metrics {column.head}:share for values from 0 to 1, or no unit for others"
            raise ConfigError(f"{table.file.name}: {problem}. State its scale: {fix}")
    if (options.paired or options.test_share) and not table.with_role(SEED):
        option = "--test-share" if options.test_share else "--paired"
        raise ConfigError(f"{option} needs the column of the folds or seeds, such as --seed fold")
    _check_margins(claims.claims, table, metrics)
    runs, notes = finished_runs(table, PROGRAM + name, columns[0].name)
    with results.holding(name, PRESET) as folder:
        earlier_imports = read_imported(folder)
        imported = merge_imports(Imported() if options.replace else earlier_imports, table.file, runs)
        for column in table.with_role(METRIC):
            values = [run.metrics.get(column.name) for run in imported.runs.values()]
            check_scale(column, options.metrics, [value for value in values if value is not None])
        with using_metrics(metrics):
            targets = published_values(published_path.absolute()) if published_path else ()
        program = TableProgram(name, metrics, claims.title, claims.data, imported.files)
        program.committed = commit_date(claims_path) if claims_path else ""
        plan, words = finished_plan(name, program, imported.runs, claims, targets, options)
        _check_items(imported.runs.values(), plan.study.blocks)
        if plan.study.paired:
            notes += _lone_seeds(imported.runs.values(), plan.study.blocks)
        lines = [_assignment(table, metrics, len(runs), words), *notes]
        lines += import_changes(earlier_imports, imported, runs)
        content = adapter(Imported).dump_json(imported, exclude_none=True)
        if len(content) > (limit := size_limit(IMPORTED)):
            raise ConfigError(
                f"{table.file.name}: its records would have {len(content) / MB:,.1f} MB, but a study has at"
                f" most {limit / MB:,.0f} MB. Split the file, or give one line per run with means over items"
            )
        with results.changing(folder / IMPORTED):
            write_whole(folder / IMPORTED, content)
        record_plan(plan, results)
    return lines


def _check_margins(claims: Iterable[Claim], table: RunTable, metrics: Mapping[str, Metric]) -> None:
    """Refuse points of a hundred about a score between 0 and 1, and a share about a score in percent."""
    shares, percentages = {}, {}  # metric -> largest value of scores without a unit, smallest in percent
    for column in table.with_role(METRIC):
        if metrics[column.name].unit == "%" and column.numbers:
            percentages[column.name] = min(column.numbers)
        if column.matches(SHARES) and column.numbers and 0 <= min(column.numbers) <= max(column.numbers) <= 1:
            shares[column.name] = max(column.numbers)
    for claim in claims:
        name = claim.metric or next(iter(metrics))
        sizes = (claim.margin, claim.within, claim.at_least, claim.at_most)
        size = max(size or 0.0 for size in sizes)
        if size >= 1 and name in shares and not (metrics[name].unit or metrics[name].bounds):
            raise ConfigError(
                f"the claim {claim.text!r} states {size:g}, but the values of {name} are at most"
                f" {shares[name]:g}. Write {size / 100:g} for {size:g} of 100"
            )
        bounds = [bound for bound in (claim.at_least, claim.at_most) if bound is not None]
        if percentages.get(name, 0.0) > 1 and any(0 < bound < 1 for bound in bounds):
            raise ConfigError(
                f"the claim {claim.text!r} states {max(bounds):g}, but the values of {name} are at least"
                f" {percentages[name]:g} %. Write {100 * max(bounds):g} for {max(bounds):g} of 1"
            )


def _check_items(runs: Iterable[ImportedRun], blocks: Sequence[str]) -> None:
    """Refuse runs that are compared on different test items.

    Seeds may have different items, such as folds, if each variant has the same items for each seed.
    """
    items: dict[tuple[str, str], dict[str, dict[int, frozenset[str]]]] = {}
    for run in runs:
        for name, scores in (run.item_scores or {}).items():
            by_variant = items.setdefault((_block(run, blocks), name), {})
            by_variant.setdefault(canonical(run.settings), {})[run.seed] = frozenset(scores)
    for (_, name), by_variant in items.items():
        variants = list(by_variant.values())
        sets = [seed_items for variant in variants for seed_items in variant.values()]
        every_item, shared_items = frozenset.union(*sets), frozenset.intersection(*sets)
        if every_item != shared_items and any(variant != variants[0] for variant in variants):
            missing_items = sorted(every_item - shared_items)
            raise ConfigError(
                f"{name}: some runs have no value for {choices(missing_items, 3)}, and others have, so means"
                " would be of different test items. Write a value, such as 0 for a missing answer, or remove"
                " these items from all runs"
            )


def _lone_seeds(runs: Iterable[ImportedRun], blocks: Sequence[str]) -> list[str]:
    """Return a line about seeds that have no pair in another variant of their block.

    Raises:
        ConfigError: No seed of a variant has a pair.
    """
    seeds: dict[str, dict[str, set[int]]] = {}
    for run in runs:
        variant = ", ".join(f"{name}={value}" for name, value in sorted(run.settings.items()))
        seeds.setdefault(_block(run, blocks), {}).setdefault(variant, set()).add(run.seed)
    words = []
    for by_variant in seeds.values():
        shared = set.intersection(*by_variant.values())
        for variant, own_seeds in by_variant.items():
            others = [other for name, other in by_variant.items() if name != variant]
            if others and not any(own_seeds & other for other in others):
                raise ConfigError(
                    f"--paired: no other variant has a seed of {variant}:"
                    f" {choices(map(str, sorted(own_seeds)), 6)}. Number seeds alike, or leave out --paired"
                )
            if lone := sorted(own_seeds - shared):
                words.append(f"{variant}: {choices(map(str, lone), 6)}")
    return [f"differences leave out seeds that other variants lack: {'; '.join(words[:6])}"] * bool(words)


def _block(run: ImportedRun, blocks: Sequence[str]) -> str:
    return canonical([run.settings.get(name) for name in blocks])


def judge(
    table: "pd.DataFrame | str | Path",
    claims: "Sequence[Claim] | Claim | str | Path" = (),
    *,
    name: str = "",
    results: str | Path = "results",
    metrics: str | Sequence[str] | Mapping[str, Metric] = "",
    alpha: float | None = None,
    published: str | Path | None = None,
    replace: bool = True,
    **options: Any,
) -> "Loaded":
    """Judge a table of finished runs, for a notebook. `recstudy judge` does the same and writes a page.

    Args:
        table: A pandas frame with a row per run, or the path of a table.
        claims: The claims, or the path of a claims file.
        name: The name of the study. By default the name of the file, or `table`.
        results: The results folder. It keeps the runs and which of them were looked at.
        metrics: Which columns are metrics, as on the command line, or with their descriptions.
        alpha: The level of all tests. By default 0.05, or as the claims file states.
        published: A CSV file of published values.
        replace: Whether the table replaces what was imported before under this name.
        **options: The other fields of `TableOptions`: `settings`, `seed`, `items`, `blocks`, `base`, `texts`,
            `last`, `best`, `lines_are_runs`, `paired` and `test_share`.

    Returns:
        The study, as `load` returns it: `.answers`, `.estimates`, `.runs`, tables and figures.

    Raises:
        ConfigError: An option is unknown, or the table or a claim is invalid or has two readings.

    Example:
        study = judge(frame, claims=[Claim("B is better", higher={"method": "B"}, lower={"method": "A"})])
        study.answers
    """
    from recstudy.report.loaded import load  # pandas and plotly

    known_options = [field.name for field in fields(TableOptions)]
    for option in options:
        if option not in known_options:
            raise ConfigError(f"judge has no option {option!r}.{nearest(option, known_options)}")
    described: Mapping[str, MetricFields]
    if isinstance(metrics, Mapping):
        described = {head: metric_fields(metric) for head, metric in metrics.items()}
    else:
        described = described_metrics(metrics if isinstance(metrics, str) else ",".join(metrics))
    stated_options = TableOptions(metrics=described, replace=replace, **options)
    if isinstance(table, str | Path):
        name = name or Path(table).stem
        run_table = read_table(Path(table))
    elif not hasattr(table, "columns"):
        raise ConfigError(f"judge takes a path or a pandas frame, but got a {type(table).__name__}")
    else:
        name = name or "table"
        run_table = frame_table(table, name)
    claims_path = None
    if isinstance(claims, str | Path):
        claims_path = Path(claims)
        claims_file = read_claims(claims_path, map(name_of, stated_options.texts))
    else:
        claims_file = ClaimsFile(claims=list(claims) if isinstance(claims, Sequence) else [claims])
    if alpha is not None:
        claims_file = claims_file.model_copy(update={"alpha": alpha})
    place = Results(results)
    published_path = Path(published) if published else None
    lines = import_table(run_table, name, place, stated_options, claims_file, claims_path, published_path)
    print(*lines, sep="\n")  # the roles of the columns, and what was left out
    return load(place.study(name, PRESET))


def _assignment(table: RunTable, metrics: Mapping[str, Metric], runs: int, blocks: str) -> str:
    """Return the line about the roles of the columns, the assumed directions, and how to change both."""
    parts = []
    for column in table.with_role(METRIC):
        metric = metrics[column.name]
        items = f"{metric.items:,} test items" if metric.items else ""
        direction = f"{metric.better} is better" if metric.better else "no direction"
        parts.append(f"{column.head} ({', '.join(filter(None, [metric.unit, direction, items]))})")
    seed = "none, so runs of the same settings are numbered in their order"
    if table.with_role(SEED):
        seed = table.heads(SEED)
    elif table.with_role(ITEM):
        seed = "none"
    roles = {"test items": ITEM, "errors over test items": ERROR_OF}
    other_roles = [f"{role}: {table.heads(key)}; " for role, key in roles.items() if table.with_role(key)]
    return (
        f"{table.file.name}: {plural(runs, 'run')}; settings: {table.heads(SETTING)}{blocks}; seed: {seed};"
        f" {''.join(other_roles)}metrics: {', '.join(parts)}; left out: {table.heads(NEITHER, limit=6)}."
        " Other columns or directions: --settings A,B --metrics C,D:lower --seed S"
    )
