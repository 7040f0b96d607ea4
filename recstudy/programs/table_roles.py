"""Assign a role to each column of a table of runs, and reduce its lines to runs.

Exports of W&B, MLflow, Optuna, Ray and pandas are read without changes. The role of a column follows from a
tracker's prefix or its name, and texts are settings (`Column.usual_role`). Other numbers that vary are
unclear, and `assign` refuses them. Levels, lines and states that allow two readings are refused too.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, product
from math import inf, isnan
from operator import itemgetter
from typing import Any

from recstudy.base.errors import ConfigError, choices
from recstudy.programs.columns import (
    AT_NUMBERS,
    BLOCKS,
    COMMITS,
    EMPTY,
    ERROR_OF,
    FILES,
    ITEM,
    ITEM_IDS,
    METRIC,
    NEITHER,
    OTHER_SEEDS,
    RUN_IDS,
    RUN_NAMES,
    SEED,
    SEEDS,
    SETTING,
    SPLITS,
    STATE,
    STATE_NAMES,
    STATUS,
    STEPS,
    UNCLEAR,
    VERSIONS,
    Column,
    name_of,
)
from recstudy.programs.table import RunTable
from recstudy.programs.table_metrics import score_of
from recstudy.programs.table_options import TableOptions
from recstudy.programs.table_refusals import (
    refuse_averages,
    refuse_left_out,
    refuse_logged,
    refuse_long_format,
    refuse_outcomes,
)


def assign(table: RunTable, options: TableOptions) -> None:
    """Assign a role to each column: the stated one, else the one of its name. Then reduce lines to runs.

    Columns with stated roles come first, in the stated order.

    Raises:
        ConfigError: A column is missing, its role is unclear, or cells or lines can be read in two ways. The
            message names the option that decides.
    """
    settings = options.settings
    metrics = list(options.metrics)
    if options.last and options.best:
        raise ConfigError("--last and --best choose different lines of a run. Give one of them")
    items = "" if options.items == "none" else options.items
    stated = {
        METRIC: metrics,
        SETTING: settings,
        SEED: [options.seed],
        ITEM: [items],
        NEITHER: [options.last],
    }
    column_roles: dict[Column, str] = {}
    for role, heads in stated.items():
        column_roles |= dict.fromkeys(map(table.find, filter(None, heads)), role)
    texts = [*map(table.find, options.texts)]
    for column in table.columns:
        column.is_text = column in texts or column.matches(VERSIONS)  # version 1.10 is not 1.1
    table.columns = list(dict.fromkeys([*column_roles, *table.columns]))
    stated_roles = {SETTING: settings, METRIC: metrics, UNCLEAR: settings}
    names = {column.name for column in table.columns}
    for column in table.columns:
        if column in column_roles:
            column.role = column_roles[column]
        elif column.matches(STATE_NAMES) and column.texts and column.kind != SETTING:
            column.role = STATE
        elif column.matches(SEEDS) and not (options.lines_are_runs or table.with_role(SEED)):
            column.role = SEED
        elif not (options.items or options.lines_are_runs or table.with_role(ITEM)) and column.has_items:
            column.role = ITEM
        elif options.items == "none" and column.matches(ITEM_IDS):
            column.role = NEITHER
        elif column.error_of in names:
            column.role = ERROR_OF
        elif column.is_spread(names) and column.kind != SETTING:
            column.role = NEITHER
        else:
            role = NEITHER if settings and metrics else column.usual_role(table.refuse_number)
            column.role = NEITHER if stated_roles.get(role) else role
    if not (options.seed or options.lines_are_runs):
        _find_seed(table)
    _read_states(table)
    _settle_roles(table)
    if not settings:
        _check_columns(table, options)
        _leave_out_results(table)
    refuse_averages(table, options)
    if not table.with_role(UNCLEAR):
        _check_levels(table)
        _check_empty(table)
        if not settings:
            refuse_logged(table.finished(), options)
        _reduce(table, options)
        if not settings:
            _leave_out(table)
        if seeds := table.with_role(SEED):
            _merge(table, table.with_role(SETTING) + seeds + table.with_role(ITEM))
    if not settings:
        refuse_long_format(table)
    if problem := _problem(table, bool(settings or metrics)):
        assigned = (
            f"settings: {table.heads(SETTING)}; seed: {table.heads(SEED)}; metrics: {table.heads(METRIC)}"
        )
        fix = "Name the columns: --settings A,B --metrics C,D --seed S"
        raise ConfigError(f"{table.file.name}: {assigned}; {problem}. {fix}")
    if not settings:
        refuse_outcomes(table.finished())
        refuse_left_out(table.finished())


def _find_seed(table: RunTable) -> None:
    """Take a column such as `data_seed` as the seed, if it is the only one.

    Raises:
        ConfigError: Several seeds vary, and do not vary together, so runs are not independent.
    """
    columns = table.with_role(SEED) + table.unassigned(OTHER_SEEDS) + table.unassigned(SEEDS)
    seeds = [column for column in columns if column.is_varied]
    if len({len(set(column.cells)) for column in seeds} | {table.count(seeds)}) > 1:
        raise ConfigError(
            f"{table.file.name}: {choices(column.head for column in seeds)} vary, and runs that share one of"
            f" them are not independent. Average over the others, and name one: --seed {seeds[0].head}; or,"
            " if each line is an independent run: --lines-are-runs"
        )
    if not table.with_role(SEED):
        for column in seeds[:1]:
            column.role = SEED


def _settle_roles(table: RunTable) -> None:
    """Take commits as the variants if no column is a setting. Refuse numbers of different notations."""
    if not table.with_role(SETTING) and (commits := table.unassigned(COMMITS)[:1]):
        commits[0].role, commits[0].is_text = SETTING, True
    metric_names = {column.name for column in table.with_role(METRIC)}
    for column in table.columns:
        if column.role == ERROR_OF and column.error_of not in metric_names:
            column.role = NEITHER
        if column.role in (SETTING, METRIC, ERROR_OF) and column.notation.problem and not column.is_text:
            table.refuse_number(column, column.notation.wrong)


def _read_states(table: RunTable) -> None:
    """Read which runs have failed, and leave out unfinished ones.

    A test item that failed counts with its value. Without one it is refused: the others may be easier items.
    """
    unfinished, has_items = {}, bool(table.with_role(ITEM))
    for column in table.with_role(STATE):
        for row, cell in enumerate(column.cells):
            # Ray leaves `done` empty for a trial without results
            word = re.sub(r"^\w+\.|[\W_]", "", cell.lower()) or "false" * (column.name == "done")
            if has_items:
                empty = [metric for metric in table.with_role(METRIC) if metric.cells[row].lower() in EMPTY]
                if empty and STATUS.get(word, "done") != "done":
                    fix = "Write the value that counts, such as 0"
                    table.refuse(row, empty[0], f"the cell is empty, and {column.head} is {cell!r}. {fix}")
                continue
            if word not in STATUS:
                fix = f"If it is a setting: --settings {column.head},... States are {choices(STATUS, 99)}"
                table.refuse(row, column, f"{cell!r} is no known state of a run. {fix}")
            if STATUS[word] == "failed":
                table.failures[row] = word
            elif STATUS[word] == "unfinished":
                unfinished[row] = f"not finished ({word})"
    table.rows = [row for row in table.rows if row not in unfinished or table.failures[row]]
    table.left_out.update(why for row, why in unfinished.items() if not table.failures[row])


def _check_columns(table: RunTable, options: TableOptions) -> None:
    """Refuse items that may only number the lines, and results of training beside those of a test."""
    settings, blocks = table.with_role(SETTING), [*map(name_of, options.blocks)]
    for item in table.with_role(ITEM):
        is_alone = len({*item.cells}) == len(item.cells) and not options.items
        if is_alone and any(column.is_varied for column in settings + table.with_role(SEED)):
            raise ConfigError(
                f"{table.file.name}: no two lines share their {item.head}. If it numbers the lines, state"
                f" --items none; if it names test items, state --items {item.head}"
            )
    for column in settings:
        levels = list(dict.fromkeys(column.texts))
        is_split = all(any(map(pattern.fullmatch, map(str.lower, levels))) for pattern in SPLITS)
        if is_split and column.name not in blocks:
            raise ConfigError(
                f"{table.file.name}: {column.head} is {choices(levels, 4)}, so a mean would be of training"
                " and test. Keep the lines of one, or give each a column with pandas.pivot; or, if it is no"
                f" such split: --blocks {column.head}"
            )


def _check_empty(table: RunTable) -> None:
    """Refuse levels that stand in the first line of a group only, as in a spreadsheet with merged cells."""
    columns = [column for column in table.with_role(SETTING) if column.is_varied]
    if not columns or table.with_role(SEED) or table.unassigned(RUN_IDS) or table.unassigned(RUN_NAMES):
        return
    rows = [row for row in table.rows if not table.failures[row]]
    is_empty = {row: not any(column.cells[row] for column in columns) for row in rows}
    starts = [row for previous, row in pairwise(rows) if is_empty[row] and not is_empty[previous]]
    if len(starts) > 1:
        problem = "the cell is empty. Write the level in each line, or none if the setting is not used"
        table.refuse(starts[0], columns[0], problem)


def _check_levels(table: RunTable) -> None:
    """Refuse texts that would become one level, such as 1.1 and 1.10, or none and an empty cell."""
    for column in table.with_role(SETTING):
        first_rows: dict[Any, int] = {}
        for row in table.rows:
            value = column.values[row]
            # 0.30000000000000004 is 0.3 in all names of variants
            level = float(f"{value:.12g}") if isinstance(value, float) else value
            first, cell = first_rows.setdefault(level, row), column.cells[row]
            if cell != column.cells[first] and table.failures[row] == table.failures[first]:
                table.refuse(
                    row,
                    column,
                    f"{cell!r} would be the same level as {column.cells[first]!r} in line"
                    f" {table.lines[first]}. Write them alike, or keep them apart: --texts {column.head}",
                )


def _reduce(table: RunTable, options: TableOptions) -> None:
    """Keep one line of each run, or of each test item of a run.

    A run has an id, or settings and a seed. Without both, lines of equal settings are several runs, unless
    they have one name, are identical, or count steps.
    """
    names = table.with_role(SEED) or table.unassigned(RUN_NAMES)
    keys = table.unassigned(RUN_IDS)[:1] or table.with_role(SETTING) + names
    keys += table.with_role(ITEM)
    if options.last or options.best:
        _choose_lines(table, options, keys)
    if not options.lines_are_runs:
        _merge(table, keys)


def _choose_lines(table: RunTable, options: TableOptions, keys: Sequence[Column]) -> None:
    """Keep the last or the best line of each run, and note what that is."""
    metrics = table.with_role(METRIC)
    count = len(table.rows)
    # lines without a metric are steps between two evaluations
    results = [row for row in table.rows if any(column.number(row) is not None for column in metrics)]
    table.rows = results or table.rows
    counter = table.find(options.last or options.best)
    sign = 1 if options.last else score_of(counter, options.metrics).sign
    if options.last:
        _merge(table, [*keys, counter])
    lines: dict[tuple[Any, ...], tuple[float, int]] = {}  # of each run: the largest number, and its row
    for row, key in zip(table.rows, table.keys(keys), strict=True):
        number = counter.number(row)
        if number is None or isnan(number):
            if options.last or counter.cells[row].lower() not in EMPTY:
                table.refuse_number(counter, counter.cells[row])
            continue
        lines[key] = max(lines.get(key, (-inf, row)), (sign * number, row), key=itemgetter(0))
    rule = f"line with the {'highest' if sign > 0 else 'lowest'} {counter.head}"
    option = f"--best {counter.head}"
    if options.last:
        rule, option = "last line", f"--last {counter.head}"
    without = f" ({count - len(table.rows):,} without a metric)" * (len(table.rows) < count)
    note = f"{option}: of {count:,} lines{without}, the {rule} of each run counts"
    numbers = sorted({sign * number for number, _ in lines.values()})
    if options.last and len(numbers) > 1:
        note += f", which is {counter.head} {numbers[0]:g} to {numbers[-1]:g}"
    elif options.best and counter.role == METRIC:
        note += f", so {counter.head} itself is the best of several lines"
    table.notes.append(note)
    rows_and_keys = zip(table.rows, table.keys(keys), strict=True)
    for (row, key), column in product(rows_and_keys, metrics):
        _, chosen_row = lines.get(key, (0, row))
        if not column.cells[chosen_row] and column.number(row) is not None:
            empty = [metric for metric in metrics if not metric.cells[chosen_row]]
            heads = [metric.head for metric in empty if metric.number(row) is not None]
            table.refuse(
                chosen_row,
                column,
                f"the cell is empty, but line {table.lines[row]} of this run has a value. Judge metrics that"
                f" share their lines: --metrics {','.join(heads)}, so that lines without them do not count",
            )
    table.rows = sorted(row for _, row in lines.values())


def _merge(table: RunTable, keys: Sequence[Column]) -> None:
    """Keep the first of identical lines, and refuse other lines with equal keys."""
    is_run = any(column.role != SETTING for column in keys)
    steps = table.unassigned(STEPS)
    compared = [column for column in table.columns if not column.head.lower().startswith("unnamed:")]
    groups: dict[Any, dict[Any, int]] = {}
    repeated: dict[int, str] = {}
    for row, key, cells in zip(table.rows, table.keys(keys), table.keys(compared), strict=True):
        failure = table.failures[row]
        group = groups.setdefault((failure, key), {})
        equal_row = group.setdefault(row if failure and not is_run else cells, row)
        known_row = next(iter(group.values())) if equal_row == row else equal_row
        if is_run and equal_row != row:
            repeated[equal_row] = f"{repeated.get(equal_row, table.lines[equal_row])}={table.lines[row]}"
        elif failure or known_row == row:
            continue
        elif (
            is_run
            or known_row == equal_row
            or any(step.cells[known_row] != step.cells[row] for step in steps)
        ):
            table.refuse_lines(known_row, row, keys)
    table.rows = sorted(row for group in groups.values() for row in group.values())
    if repeated:
        table.notes.append(f"equal lines of one run count once: lines {choices(repeated.values(), 6)}")


def _leave_out(table: RunTable) -> None:
    """Exclude files of single runs. Other texts that differ in each row may be settings or names."""
    count = len(table.rows)
    settings = table.with_role(SETTING)
    texts = [column for column in settings if not column.numbers and table.count([column]) == count]
    if 1 < table.count([column for column in settings if column not in texts]) < count:
        for column in texts:
            column.role = NEITHER if column.matches(FILES) else UNCLEAR


def _leave_out_results(table: RunTable) -> None:
    """Exclude columns that the item decides, such as its category, and those of answers.

    Item and settings decide an answer, which differs within a run.
    """
    items, roles = table.with_role(ITEM), (SETTING, UNCLEAR, SEED)
    columns = [column for column in table.columns if column.role in (SETTING, UNCLEAR) and items]
    columns = [column for column in columns if column.is_varied and not column.matches(BLOCKS)]
    columns.sort(key=lambda column: len({*column.cells}), reverse=True)
    if table.count(items) < len(table.rows):
        for column in columns:
            column.role = NEITHER if table.decides(items, column) else column.role
    for column in columns:
        keys = [key for key in table.columns if key.role in roles and key is not column]
        if table.decides([*keys, *items], column) and not table.decides(keys, column):
            column.role = NEITHER


def _numbered(columns: Sequence[Column]) -> list[str]:
    """Return columns of one name with at least three consecutive numbers, such as acc_0, acc_1 and acc_2."""
    numbers: dict[str, dict[int, str]] = {}
    for column in columns:
        match = re.fullmatch(r"(.*[^\W\d_]|)_?(\d{1,3})", column.name.lower())
        if match and "@" not in column.head and not AT_NUMBERS.fullmatch(match[1]):
            numbers.setdefault(match[1], {})[int(match[2])] = column.head
    for heads in numbers.values():
        for first in heads:
            if first + 1 in heads and first + 2 in heads:
                return [heads[first + offset] for offset in range(3)]
    return []


def _problem(table: RunTable, is_stated: bool) -> str:
    """Return why the roles of the columns are wrong or unclear; empty if they are plausible."""
    settings = table.with_role(SETTING)
    metrics = table.with_role(METRIC)
    unclear = table.with_role(UNCLEAR)
    seeds = table.with_role(SEED)
    has_seeds = table.count(seeds) > 1
    if sum(column.name.isdigit() for column in unclear) > 1:
        return "columns named by numbers look like seeds, but each run needs its own line. Use pandas.melt"
    if numbered := _numbered(unclear if is_stated else unclear + metrics):
        return f"{choices(numbered)} look like seeds, but each run needs its own line. Use pandas.melt"
    if unclear:
        return f"unclear: {choices(column.head for column in unclear)}"
    if not settings or not metrics:
        return f"no column is a {METRIC if settings else SETTING}"
    if has_seeds and not is_stated and table.count(settings) == len(table.rows):
        return "there are several seeds, but all runs have different settings"
    for column in settings if has_seeds and not is_stated else ():
        other_settings = [key for key in settings if key is not column]
        is_alone = 2 * table.count(settings) > len(table.rows) >= 2 * table.count(other_settings)
        if is_alone and column.numbers and table.decides(other_settings + seeds, column):
            return f"most seeds have their own {column.head}, as if it were a result"
    for name, count in Counter(column.name for column in (*settings, *metrics)).items():
        if count > 1:
            return f"{count} of these columns would be named {name!r}"
    return ""
