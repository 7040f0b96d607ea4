"""Judge a table of finished runs: import its runs and record them as a study.

`recstudy judge FILE` and `recstudy.judge(frame)` call `import_table`.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from recstudy.papers import published
from recstudy.programs.columns import ITEM, METRIC, NEITHER, SEED, SETTING
from recstudy.programs.metric import Metric, using_metrics
from recstudy.programs.table import PROGRAM, RunTable, TableProgram, assign, finished_runs
from recstudy.programs.table_metrics import table_metric
from recstudy.programs.table_options import TableOptions
from recstudy.records import Results, write_whole
from recstudy.records.plans import IMPORTED, read_imported
from recstudy.records.reading import adapter
from recstudy.records.study_schema import Imported
from recstudy.report.names import plural
from recstudy.study.claims_file import ClaimsFile
from recstudy.study.imported import PRESET, finished_plan, import_changes, merge_imports
from recstudy.study.record import record_plan
from recstudy.study.repository import commit_date


def import_table(
    table: RunTable,
    name: str,
    results: Results,
    options: TableOptions,
    claims: ClaimsFile,
    claims_path: Path | None = None,
    published_path: Path | None = None,
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
    options = replace(options, metrics=options.metrics or claims.metrics)
    assign(table, options)
    items = len({cell for column in table.with_role(ITEM) for cell in column.texts})
    metrics = {
        column.name: table_metric(column, options.metrics, items) for column in table.with_role(METRIC)
    }
    runs, notes = finished_runs(table, PROGRAM + name)
    with results.holding(name, PRESET) as folder:
        earlier_imports = read_imported(folder)
        imported = merge_imports(Imported() if options.replace else earlier_imports, table.file, runs)
        with using_metrics(metrics):
            targets = published(published_path.absolute()) if published_path else ()
        program = TableProgram(name, metrics, claims.title, claims.data, imported.files)
        program.committed = commit_date(claims_path) if claims_path else ""
        plan, words = finished_plan(name, program, imported.runs, claims, targets, options.blocks)
        lines = [_assignment(table, metrics, len(runs), words), *notes]
        lines += import_changes(earlier_imports, imported, runs)
        with results.changing(folder / IMPORTED):
            write_whole(folder / IMPORTED, adapter(Imported).dump_json(imported, exclude_none=True))
        record_plan(plan, results)
    return lines


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
