"""Published numbers, read from `recstudy/papers/`: the targets that a study's results stand beside; and the
papers' names.

How a row is read, and the settings that its number was obtained with, stands in `settings.yaml`. Files, ids
and settings know a paper by its number; what a person reads has its name (`by_name`).
"""

import csv
import json
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any

from recstudy.errors import ConfigError, choices, nearest
from recstudy.explained import explained
from recstudy.papers.target import Target, by_name, papers
from recstudy.plugins import importing
from recstudy.programs.metric import using_metrics
from recstudy.programs.settings import RunSettings
from recstudy.records.study_schema import Deviation

__all__ = [
    "Target",
    "assumptions",
    "by_name",
    "how_read",
    "named",
    "of_program",
    "papers",
    "published",
    "rows",
    "settings",
]


@explained
def published(
    table: str | Path, margin: float = 0.0, why: str = "", only: Collection[str] = ()
) -> tuple[Target, ...]:
    """Return the numbers of one published table, of recstudy's or of your own.

    Args:
        table: file name in `recstudy/papers/` without its ending, such as `002_table1_cifar10`; or a CSV of
            yours, such as `my_paper.csv` beside the file that asks for it, with a column each for `metric`,
            `value` and more (own_tables.py).
        margin: for the verdict `reproduced`: how far off still counts as equal, in the table's unit, or in
            percentage points of a fraction. At most a third of the effect that the study draws from these
            numbers. Without one nothing is called reproduced but what is counted, such as parameters, which
            must round to the published digits.
        why: the margin's reason: which effect it is a third of.
        only: these of its metrics, by their published names; all by default.

    Values that are no number (a split of `8:1:1`, an activation `silu`) are settings and no targets; they are
    left out.

    Raises:
        ConfigError: no such table, no such metric, or one that is a setting; a margin without a reason, or a
            reason without one; file, line and column of what cannot be read in a table of yours.
    """
    if bool(margin) != bool(why):
        given = f"margin={margin:g} has no reason" if margin else f"why={why!r} has no margin"
        raise ConfigError(
            f"published({str(table)!r}): {given}. Write margin=0.3, why='a third of the 0.9 points between"
            " ...'"
        )
    if str(table).startswith("bundle:"):
        raise ConfigError(
            f"published({table!r}): bundles are no targets. Write their values to a CSV:"
            " published('theirs.csv')"
        )
    texts: dict[str, str] = {}
    if isinstance(table, Path) or table.endswith(".csv"):
        from recstudy.papers.own_tables import read_targets

        try:
            targets = [(target.metric, target) for target in read_targets(table, margin, why)]
        except ConfigError:
            if importing():  # by a worker or a reader, for what the study registers: the plan has the numbers
                return ()
            raise
    else:
        stated = [row for row in rows(table) if row["value"]]
        texts = {row["metric"]: row["value"] for row in stated}
        targets = [(row["metric"], _target(row, margin, why)) for row in stated if _is_number(row["value"])]
    metrics = dict.fromkeys(metric for metric, _ in targets)
    for name in only:
        if name not in metrics:
            setting = (
                f"{name!r} in {table} is a setting ({texts[name]})"
                if name in texts
                else f"no metric {name!r} in {table}"
            )
            raise ConfigError(f"{setting}: there are {choices(metrics)}.{nearest(name, metrics)}")
    return tuple(target for metric, target in targets if not only or metric in only)


def of_program(targets: Sequence[Target], configs: Sequence[RunSettings] = ()) -> tuple[Target, ...]:
    """Return targets with settings and metrics as the program of the runs calls them; only those of a user's
    own table change.

    Args:
        targets: Of a part of a report.
        configs: Settings of the runs; the recursive models need none.

    Raises:
        ConfigError: a column or metric of a table is none of the program. The message names file, line and
            column.
    """
    if not any(target.read_from for target in targets):
        return tuple(targets)
    from recstudy.papers.own_tables import setting_fields, with_settings

    fields = setting_fields(configs)
    with using_metrics(configs[0].metrics if configs else {}):
        return tuple(
            with_settings(target, configs, fields) if target.read_from else target for target in targets
        )


def rows(table: str) -> list[dict[str, str]]:
    """Return a published table as it stands in its file.

    Raises:
        ConfigError: there is none of this name.
    """
    folder = files("recstudy").joinpath("papers")
    files_of = (
        file.name
        for file in folder.iterdir()
        if file.name.endswith(".csv") and file.name != "replications.csv"
    )
    known = sorted(name.removesuffix(".csv") for name in files_of)
    if table not in known:
        raise ConfigError(f"no published table {table!r}: there are {choices(known)}.{nearest(table, known)}")
    return list(csv.DictReader(folder.joinpath(f"{table}.csv").read_text(encoding="utf-8").splitlines()))


def named(item: str) -> str:
    """Return `002 Figure 2` as `ViTRM, Figure 2`."""
    paper, _, place = item.partition(" ")
    return f"{papers()[paper]['name']}, {place}"


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def settings(target: Target) -> dict[str, Any]:
    """Return how a target's paper or its authors' code says that the number was obtained, by field, beside
    `target.where`.

    A value {"text": ..., "code": ...} is one where the two differ. Empty for a number of no published table.
    """
    told = target.reference or _of_row(target.row, "settings")
    return {path: value for path, value in told.items() if path not in target.where}


def assumptions(target: Target) -> tuple[Deviation, ...]:
    """Return settings that neither a target's paper nor its authors' code states, with the values that we
    assume.
    """
    unknown = {
        path: value for path, value in _of_row(target.row, "unknown").items() if path not in target.where
    }
    return tuple(
        Deviation(field=path, ours=value, why="its code does not state it either")
        for path, value in unknown.items()
    )


@cache
def _of_row(id: str, what: str) -> dict[str, Any]:
    """Return the `settings` or the `unknown` of a published row. The last rule with a field decides which of
    the two it is, and `defaults` are settings that no other rule has."""
    table = id.partition("#")[0]
    row = next((row for row in rows(table) if row["id"] == id), None) if table else None
    told: dict[str, tuple[str, Any]] = {}
    for rule in _rules(row) if row else ():
        for kind in ("settings", "unknown"):
            told |= {path: (kind, value) for path, value in rule.get(kind, {}).items()}
    defaults = _told(row, "defaults") if row else {}
    told |= {path: ("settings", value) for path, value in defaults.items() if path not in told}
    return {path: value for path, (kind, value) in told.items() if kind == what}


@cache
def how_read() -> dict[str, Any]:
    """Return what `settings.yaml` states."""
    import yaml

    return yaml.safe_load(files("recstudy").joinpath("papers/settings.yaml").read_text(encoding="utf-8"))


def _rules(row: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield those of `settings.yaml` that are of this row, in their order."""
    known = {**json.loads(row["config"] or "{}"), **row}
    for rule in how_read()["rules"].get(row["id"].partition("_")[0], ()):
        wanted = {
            column: one if isinstance(one, list) else [one] for column, one in rule.get("of", {}).items()
        }
        if all(
            any(fnmatchcase(str(known.get(column, "")), one) for one in some)
            for column, some in wanted.items()
        ):
            yield rule


def _told(row: dict[str, str], what: str) -> dict[str, Any]:
    return {name: value for rule in _rules(row) for name, value in rule.get(what, {}).items()}


def _target(row: dict[str, str], margin: float, why: str) -> Target:
    names = how_read()
    model = names["owners"].get(row["metric"], row["model"])
    row = {**row, "model": model}
    where = {
        "data.name": names["data"].get(row["dataset"], row["dataset"]),
        "model": model,
        **_told(row, "where"),
    }
    letters = names["letters"] | _told(row, "letters")
    for letter, value in json.loads(row["config"] or "{}").items():
        fields = letters.get(letter, letter)
        said = names["words"].get(value, value) if isinstance(value, str) else value
        where |= dict.fromkeys([fields] if isinstance(fields, str) else fields or (), said)
    if "model.family" in where:  # found by its settings, and not by its name
        del where["model"]
    return Target(
        source=f"{row['id'].partition('_')[0]} {row['item']} ({row['id']})",
        metric=names["metrics"].get(row["metric"], row["metric"]),
        value=float(row["value"]),
        unit=row["unit"],
        kind=row["kind"],
        note=row["note"],
        model=model,
        where=where,
        against=tuple(rule["against"] for rule in _rules(row) if "against" in rule),
        assumed=row.get("assumed", ""),
        approximate=row.get("approximate") == "yes",
        decimals=len(row["value"].partition(".")[2]),
        std=float(row["std"]) if row.get("std") else None,
        margin=margin / 100 if row["unit"] == "fraction" else margin,
        margin_reason=why,
        row=row["id"],
    )
