"""Published values: their format, and reading them as targets of a study.

Study files call `published` and `deviations`; reports call `settings` and `assumptions`. The file
`settings.yaml` tells how to read each row and with which settings its number was obtained. Files, ids and
settings identify a paper by its number; `by_name` replaces the number with the paper's name in texts for
people.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.explained import explained
from recstudy.papers.own_tables import read_targets, setting_fields, with_settings
from recstudy.papers.target import (
    PUBLISHED,
    Target,
    by_name,
    number_of,
    papers,
    published_csv,
    published_yaml,
)
from recstudy.plugins import importing
from recstudy.programs.base import RunSettings
from recstudy.programs.metric import using_metrics
from recstudy.records.files import Json
from recstudy.records.study_schema import Deviation

__all__ = [
    "Target",
    "assumptions",
    "by_name",
    "cite_item",
    "deviations",
    "of_program",
    "papers",
    "passage",
    "published",
    "rows",
    "settings",
]


@explained
def published(
    table: str | Path, margin: float = 0.0, why: str = "", only: Collection[str] = ()
) -> tuple[Target, ...]:
    """Return the numbers of one published table: a table of recstudy or a CSV file of your own.

    Args:
        table: File name in `recstudy/recursive/papers/` without its ending, such as `002_table1_cifar10`. Or
        the path
            of your own CSV file relative to the study's file, such as `my_paper.csv`; the module `own_tables`
            describes its columns.
        margin: Largest difference that counts as equal for the verdict `reproduced`, in the table's unit, or
            in percentage points if the unit is a fraction. Use at most a third of the effect that the study
            concludes from these numbers. Without a margin, only counts such as parameters can be
            `reproduced`: they must round to the published digits.
        why: Reason for the margin: the effect that it is a third of.
        only: Published names of the metrics to return. By default all of them are returned.

    Returns:
        One target for each number. Values that are not numbers (a split of `8:1:1`, an activation `silu`) are
        settings, so they are left out.

    Raises:
        ConfigError: The table or the metric is unknown, or the metric is a setting. A margin has no reason,
            or a reason has no margin. A cell of your own table cannot be read; the message names file, line
            and column.
    """
    if bool(margin) != bool(why):
        problem = f"margin={margin:g} has no reason" if margin else f"why={why!r} has no margin"
        raise ConfigError(
            f"published({str(table)!r}): {problem}. Write margin=0.3, why='a third of the 0.9 points between"
            " ...'"
        )
    if str(table).startswith("bundle:"):
        raise ConfigError(
            f"published({table!r}): a bundle cannot be a target. Write its values to a CSV file and use"
            " published('theirs.csv')"
        )
    texts: dict[str, str] = {}
    if isinstance(table, Path) or table.endswith(".csv"):
        try:
            targets = [(target.metric, target) for target in read_targets(table, margin, why)]
        except ConfigError:
            # Workers and readers import the study only for what it registers. The plan has the numbers, and
            # the CSV file may be missing on their machine.
            if importing():
                return ()
            raise
    else:
        targets = []
        for row in rows(table):
            if row["value"]:
                texts[row["metric"]] = row["value"]
            if number_of(row["value"]) is not None:
                targets.append((row["metric"], _target(row, margin, why)))
    metrics = dict.fromkeys(metric for metric, _ in targets)
    for name in only:
        if name not in metrics:
            setting = (
                f"{name!r} in {table} is a setting ({texts[name]})"
                if name in texts
                else f"no metric {name!r} in {table}"
            )
            raise ConfigError(f"{setting}: the metrics are {choices(metrics)}.{nearest(name, metrics)}")
    return tuple(target for metric, target in targets if not only or metric in only)


def of_program(targets: Sequence[Target], configs: Sequence[RunSettings] = ()) -> tuple[Target, ...]:
    """Complete targets of a user's own table with the settings and metrics of the program that was run.

    Args:
        targets: Targets of a report part. Targets of recstudy's tables are returned unchanged.
        configs: Settings of the runs. They are not needed for the recursive models.

    Raises:
        ConfigError: The program has no such setting or metric. The message names file, line and column.
    """
    if not any(target.read_from for target in targets):
        return tuple(targets)
    fields = setting_fields(configs)
    with using_metrics(configs[0].metrics if configs else {}):
        return tuple(
            with_settings(target, configs, fields) if target.read_from else target for target in targets
        )


@explained
def deviations(name: str) -> tuple[Deviation, ...]:
    """Return the known differences of a paper's studies from its text or its code.

    Args:
        name: Name of a list in `recstudy/recursive/papers/deviations.yaml`, such as `003_code`.

    Raises:
        ConfigError: No list has this name.
    """
    lists = published_yaml("deviations")
    if name not in lists:
        raise ConfigError(
            f"no list of deviations {name!r}: the lists are {choices(lists)}.{nearest(name, lists)}"
        )
    return tuple(Deviation(**fields) for fields in lists[name])


def rows(table: str) -> list[dict[str, str]]:
    """Return the rows of a published table as its file has them.

    Raises:
        ConfigError: No table has this name.
    """
    csv_files = (file.name for file in PUBLISHED.iterdir() if file.name.endswith(".csv"))
    table_names = sorted(name.removesuffix(".csv") for name in csv_files if name != "replications.csv")
    if table not in table_names:
        hint = nearest(table, table_names)
        raise ConfigError(f"no published table {table!r}: the tables are {choices(table_names)}.{hint}")
    return published_csv(table)


def cite_item(item: str) -> str:
    """Return `002 Figure 2` as `ViTRM, Figure 2`."""
    paper, _, place = item.partition(" ")
    return f"{papers()[paper]['name']}, {place}"


def settings(target: Target) -> Json:
    """Return the settings of a published number that are not in `target.where`, by dotted field.

    They are from the paper or from its authors' code. If paper and code differ, the value is
    {"text": ..., "code": ...}. The result is empty for a number that is in no published table.
    """
    settings_by_field = target.reference or _fields_of_row(target.row, "settings")
    return {path: value for path, value in settings_by_field.items() if path not in target.where}


def assumptions(target: Target) -> tuple[Deviation, ...]:
    """Return the settings that neither a target's paper nor its authors' code states.

    Each is a deviation whose `ours` is the value that recstudy assumes.
    """
    why = "its code does not state it either"
    unknown = _fields_of_row(target.row, "unknown").items()
    return tuple(
        Deviation(field=path, ours=value, why=why) for path, value in unknown if path not in target.where
    )


def passage(target: Target) -> str:
    """Return where the source of a number prints it, with a few of its words.

    An example is `Table 1, ViT-Small, batch_size 64, top1_accuracy: "ViT-Small | 16.9M | 94.0"`. It is empty
    for a user's own table without these columns.
    """
    cell, quote, row = target.cell, target.quote, _row(target.row)
    if row:
        section = f"section {row['section']}" if re.match(r"\d|[IVX]+\b", row["section"]) else ""
        config = [f"{name} {value}" for name, value in json.loads(row["config"] or "{}").items()]
        words = (section, row["item"], row["model"], row["dataset"], *config, row["metric"])
        cell, quote = ", ".join(filter(None, dict.fromkeys(words))), row.get("quote", "")
    return ": ".join(filter(None, [cell, f'"{quote}"' if quote else ""]))


@cache
def _row(id: str) -> dict[str, str] | None:
    """Return a row of a published table, or None for another number."""
    table = id.partition("#")[0]
    return next((row for row in rows(table) if row["id"] == id), None) if table else None


@cache
def _fields_of_row(id: str, section: str) -> Json:
    """Return the fields of kind `settings` or `unknown` of a published row, with their values."""
    row = _row(id)
    statements: dict[str, tuple[str, Any]] = {}
    for rule in _rules(row) if row else ():
        for rule_kind in ("settings", "unknown"):
            # A later rule overrides an earlier one, also in whether the field is known.
            statements |= {path: (rule_kind, value) for path, value in rule.get(rule_kind, {}).items()}
    # Defaults are options as every published code has them. They count only where no rule has the field.
    defaults = _merge_rules(row, "defaults") if row else {}
    statements |= {path: ("settings", value) for path, value in defaults.items() if path not in statements}
    return {path: value for path, (kind, value) in statements.items() if kind == section}


def _rules(row: dict[str, str]) -> Iterator[Json]:
    """Yield the rules of `settings.yaml` that apply to this row, in their order."""
    cells = {**json.loads(row["config"] or "{}"), **row}
    for rule in published_yaml("settings")["rules"].get(row["id"].partition("_")[0], ()):
        if all(_matches(cells.get(column, ""), patterns) for column, patterns in rule.get("of", {}).items()):
            yield rule


def _matches(cell: object, patterns: str | list[str]) -> bool:
    alternatives = patterns if isinstance(patterns, list) else [patterns]
    return any(fnmatchcase(str(cell), pattern) for pattern in alternatives)


def _merge_rules(row: dict[str, str], key: str) -> Json:
    return {name: value for rule in _rules(row) for name, value in rule.get(key, {}).items()}


def _target(row: dict[str, str], margin: float, why: str) -> Target:
    names = published_yaml("settings")
    model = names["owners"].get(row["metric"], row["model"])
    row = {**row, "model": model}
    fields_of_row = {
        "data.name": names["data"].get(row["dataset"], row["dataset"]),
        "model": model,
        **_merge_rules(row, "where"),
    }
    symbols = names["letters"] | _merge_rules(row, "letters")
    # The column `config` uses the paper's own symbols, such as n; one symbol may set several fields.
    for symbol, value in json.loads(row["config"] or "{}").items():
        fields = symbols.get(symbol, symbol)
        setting = names["words"].get(value, value) if isinstance(value, str) else value
        fields_of_row |= dict.fromkeys([fields] if isinstance(fields, str) else fields or (), setting)
    if "model.family" in fields_of_row:  # the settings identify the variant, so its name need not match
        del fields_of_row["model"]
    return Target(
        source=f"{row['id'].partition('_')[0]} {row['item']} ({row['id']})",
        metric=(names["metrics"] | _merge_rules(row, "metrics")).get(row["metric"], row["metric"]),
        value=float(row["value"]),
        unit=row["unit"],
        kind=row["kind"],
        note=row["note"],
        model=model,
        where=fields_of_row,
        against=tuple(rule["against"] for rule in _rules(row) if "against" in rule),
        assumed=row.get("assumed", ""),
        approximate=row.get("approximate") == "yes",
        decimals=len(row["value"].partition(".")[2]),
        std=float(row["std"]) if row.get("std") else None,
        # A margin is given in percentage points, also for a fraction.
        margin=margin / 100 if row["unit"] == "fraction" else margin,
        margin_reason=why,
        row=row["id"],
    )
