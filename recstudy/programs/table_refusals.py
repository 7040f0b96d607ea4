"""Refuse tables whose columns count as settings or repetitions only by their form, and would mislead."""

from collections.abc import Sequence

from recstudy.base.errors import ConfigError, choices
from recstudy.programs.columns import (
    AVERAGES,
    BLOCKS,
    BOOKKEEPING,
    COUNTERS,
    GROUPS,
    ITEM,
    MEASURES,
    METRIC,
    OUTCOMES,
    RUN_IDS,
    RUN_NAMES,
    SEED,
    SETTING,
    TIMES,
    TOTALS,
    USUAL_SETTINGS,
    VALUES,
    Column,
    is_usual_metric,
    name_of,
)
from recstudy.programs.table import RunTable
from recstudy.programs.table_options import TableOptions


def refuse_long_format(table: RunTable) -> None:
    """Refuse a table with a line for each metric of a run: a mean over accuracy and loss has no meaning."""
    metrics = table.with_role(METRIC)
    values = [column for column in metrics if column.matches(VALUES)]
    for column in table.with_role(SETTING) if metrics else ():
        value = (values or metrics)[0].head
        if not column.matches(MEASURES) or column.kind or not column.is_varied:
            continue
        has_metrics = sum(map(is_usual_metric, map(name_of, {*column.texts}))) > 1
        # trees have the criteria mse and mae
        if values or (has_metrics and column.name.lower() != "criterion"):
            raise ConfigError(
                f"{table.file.name}: {column.head} ({choices(dict.fromkeys(column.cells), 4)}) names what"
                f" {value} is. Give each metric a column: in pandas, frame.pivot(index=[...],"
                f" columns={column.head!r}, values={value!r}); or, if it is a setting, state --settings"
            )


def refuse_averages(table: RunTable, options: TableOptions) -> None:
    """Refuse lines with an average over the levels of a block, which would count as a level."""
    blocks = [*map(name_of, options.blocks)]
    for column in table.with_role(SETTING):
        is_group = column.matches(BLOCKS, GROUPS) or column.name in blocks
        names = AVERAGES if is_group else TOTALS
        rows = [row for row in table.rows if names.fullmatch(column.cells[row])]
        if 0 < len(rows) < len(table.rows):
            lines = choices((str(table.lines[row]) for row in rows), 6)
            problem = f"{column.cells[rows[0]]!r} may be the average of other levels, and would count as one"
            table.refuse(rows[0], column, f"{problem}. Remove these lines: {lines}; or rename the level")


def refuse_logged(table: RunTable, options: TableOptions) -> None:
    """Refuse numbers that follow from the step within a run, such as a logged learning rate."""
    settings = [column for column in table.with_role(SETTING) if column.is_varied]
    runs = table.with_role(SEED) + table.with_role(ITEM)
    runs += table.unassigned(RUN_IDS)[:1] + table.unassigned(RUN_NAMES)
    for step in table.unassigned(COUNTERS) + [table.find(name) for name in [options.last] if name]:
        logged: list[Column] = []
        keys = settings
        # a logged number hides others until it is found
        while column := _logged_setting(table, step, keys, runs):
            logged.append(column)
            keys = [key for key in settings if key not in logged]
        if logged:
            raise ConfigError(
                f"{table.file.name}: {choices(column.head for column in logged)}: the numbers change with"
                f" {step.head} within a run, so they are logged and no setting: --settings {_names(keys)}"
                f" --last {step.head}; or name them there, too"
            )


def _logged_setting(
    table: RunTable, step: Column, settings: Sequence[Column], runs: Sequence[Column]
) -> Column | None:
    """Return a setting with fractions that follows from the step within each run.

    The seed, the item, and the name or id of a run (`runs`) distinguish runs, and so do settings. Other
    settings with fractions may be logged, too, or the setting may depend on them.
    """
    for column in settings:
        others = [key for key in settings if key is not column]
        integral = [key for key in others if key.is_integral]
        for keys in (integral, others) if not column.is_integral and column.kind != SETTING else ():
            if _follows_step(table, column, step, [*keys, *runs]):
                return column
    return None


def _follows_step(table: RunTable, column: Column, step: Column, runs: Sequence[Column]) -> bool:
    """Return whether a column varies within a run, the step decides it there, and runs share their steps."""
    if table.decides(runs, column) or not table.decides([*runs, step], column):
        return False
    step_count, run_count = table.count([step]), table.count(runs)
    has_one_course = step_count < len(table.rows) and table.decides([step], column)
    is_complete = table.count([*runs, step]) == run_count * step_count
    return run_count > 1 and (has_one_course or is_complete)


def refuse_outcomes(table: RunTable) -> None:
    """Refuse outcomes of runs as settings: texts with such a name, and those that differ between equal seeds.

    Otherwise survivors would be compared.
    """
    settings, seeds = table.with_role(SETTING), table.with_role(SEED)
    has_shared_seeds = 1 < table.count(seeds) < len(table.rows)
    for column in reversed(settings):
        if column.numbers or column.kind == SETTING or table.count([column]) == 1:
            continue
        keys = [key for key in settings if key is not column]
        is_result = (
            has_shared_seeds
            and table.count(keys) > 1
            and table.count(keys + seeds) == len(table.rows)
            and not table.decides(keys, column)
            and not column.matches(USUAL_SETTINGS, BLOCKS)
        )
        if column.matches(OUTCOMES) or is_result:
            levels = choices(dict.fromkeys(column.cells), 4)
            raise ConfigError(
                f"{table.file.name}: {column.head} ({levels}) may be a result of each run and no setting:"
                f" --settings {_names(keys)}; if it states which runs failed, rename it to state, with cells"
                " such as finished and failed; if it is a setting, name it there, too"
            )


def refuse_left_out(table: RunTable) -> None:
    """Refuse a left-out column whose levels cross the settings, so that they would count as repetitions."""
    settings = table.with_role(SETTING)
    runs = (*table.with_role(SEED), *table.with_role(ITEM), *table.unassigned(RUN_IDS))
    variants = table.count(settings)
    if runs or table.unassigned(RUN_NAMES) or variants == 1:
        return
    for column in (column for column in table.unassigned(BOOKKEEPING) if not column.matches(TIMES)):
        levels, cells = table.count([column]), table.count([*settings, column])
        if levels > 1 and cells == variants * levels and len(table.rows) % cells == 0:
            names = _names(settings)
            raise ConfigError(
                f"{table.file.name}: {column.head} would be left out, so its {levels} levels would count as"
                f" repetitions. --settings {names},{column.head} if it is a setting, else --settings {names}"
            )


def _names(columns: Sequence[Column]) -> str:
    """Return the value of --settings for these columns."""
    return ",".join(column.head for column in columns) or "A,B"
