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


def count_keys(table: RunTable, columns: Sequence[Column]) -> int:
    """Count the different rows of these columns."""
    return len({table.key(row, columns) for row in table.rows})


def decides(table: RunTable, keys: Sequence[Column], column: Column) -> bool:
    """Return whether a column has one value for all rows with equal keys."""
    return count_keys(table, keys) == count_keys(table, [*keys, column])


def refuse_long_format(table: RunTable) -> None:
    """Refuse a table with a line for each metric of a run: a mean over accuracy and loss has no meaning."""
    metrics = table.with_role(METRIC)
    values = [column for column in metrics if column.matches(VALUES)]
    for column in table.with_role(SETTING) if metrics else ():
        value = (values or metrics)[0].head
        if not column.matches(MEASURES) or column.kind or len({*column.cells}) == 1:
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
    settings = [column for column in table.with_role(SETTING) if len({*column.cells}) > 1]
    numbers = [column for column in settings if column.kind != SETTING]
    numbers = [column for column in numbers if not all(number.is_integer() for number in column.numbers)]
    runs = table.with_role(SEED) + table.with_role(ITEM)
    runs += table.unassigned(RUN_IDS)[:1] + table.unassigned(RUN_NAMES)
    for step in table.unassigned(COUNTERS) + [table.find(name) for name in [options.last] if name]:
        keys = settings
        logged: list[Column] = []
        # a logged number hides others until it is found
        while found := [column for column in numbers if _is_logged(table, column, step, keys, runs)]:
            logged.append(found[0])
            keys = [key for key in keys if key is not found[0]]
            numbers = [column for column in numbers if column is not found[0]]
        if logged:
            heads = choices(column.head for column in logged)
            names = ",".join(key.head for key in keys) or "A,B"
            raise ConfigError(
                f"{table.file.name}: {heads}: the numbers change with {step.head} within a run, so they are"
                f" logged and no setting: --settings {names} --last {step.head}; or name them there, too"
            )


def _is_logged(
    table: RunTable, column: Column, step: Column, settings: Sequence[Column], runs: Sequence[Column]
) -> bool:
    """Return whether a column follows from the step within each run, and several runs share their steps.

    Other numbers may be logged, too, or they are settings on which the column depends.
    """
    settings = [key for key in settings if key is not column]
    texts = [key for key in settings if all(number.is_integer() for number in key.numbers)]
    for keys in ([*texts, *runs], [*settings, *runs]):
        if decides(table, keys, column) or not decides(table, [*keys, step], column):
            continue
        step_count, run_count, line_count = (
            count_keys(table, heads) for heads in ([step], keys, [*keys, step])
        )
        is_common = step_count < len(table.rows) and decides(table, [step], column)
        if run_count > 1 and (is_common or line_count == run_count * step_count):
            return True
    return False


def refuse_outcomes(table: RunTable) -> None:
    """Refuse outcomes of runs as settings: texts with such a name, and those that differ between equal seeds.

    Otherwise survivors would be compared.
    """
    settings, seeds = table.with_role(SETTING), table.with_role(SEED)
    has_shared_seeds = 1 < count_keys(table, seeds) < len(table.rows)
    for column in reversed(settings):
        if column.numbers or column.kind == SETTING or count_keys(table, [column]) == 1:
            continue
        keys = [key for key in settings if key is not column]
        is_result = (
            has_shared_seeds
            and count_keys(table, keys) > 1
            and count_keys(table, keys + seeds) == len(table.rows)
            and not decides(table, keys, column)
            and not column.matches(USUAL_SETTINGS, BLOCKS)
        )
        if column.matches(OUTCOMES) or is_result:
            names = ",".join(key.head for key in keys) or "A,B"
            levels = choices(dict.fromkeys(column.cells), 4)
            raise ConfigError(
                f"{table.file.name}: {column.head} ({levels}) may be a result of each run and no setting:"
                f" --settings {names}; if it states which runs failed, rename it to state, with cells such as"
                " finished and failed; if it is a setting, name it there, too"
            )


def refuse_left_out(table: RunTable) -> None:
    """Refuse a left-out column whose levels cross the settings, so that they would count as repetitions."""
    settings = table.with_role(SETTING)
    runs = (*table.with_role(SEED), *table.with_role(ITEM), *table.unassigned(RUN_IDS))
    variants = count_keys(table, settings)
    if runs or table.unassigned(RUN_NAMES) or variants == 1:
        return
    for column in (column for column in table.unassigned(BOOKKEEPING) if not column.matches(TIMES)):
        levels, cells = count_keys(table, [column]), count_keys(table, [*settings, column])
        if levels > 1 and cells == variants * levels and len(table.rows) % cells == 0:
            names = ",".join(key.head for key in settings)
            raise ConfigError(
                f"{table.file.name}: {column.head} would be left out, so its {levels} levels would count as"
                f" repetitions. --settings {names},{column.head} if it is a setting, else --settings {names}"
            )
