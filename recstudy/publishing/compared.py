"""A number of a bundle beside the same number of runs that were made here: bit-equal, within the spread of
runs, or different.
"""

from collections import Counter
from collections.abc import Collection, Iterable

import pandas as pd
from rich.table import Table
from rich.text import Text

from recstudy.errors import ConfigError, choices
from recstudy.evidence import Fit, contrast
from recstudy.evidence.seeds import ALPHA
from recstudy.programs.metric import METRICS
from recstudy.records.runs import Row, distinct
from recstudy.report import Claims
from recstudy.report.explain import find_number
from recstudy.report.family import family
from recstudy.report.names import metric, plural
from recstudy.report.study_records import StudyRecords
from recstudy.terminal import console, duration, say

COLUMNS = ("label", "weight", "run", "value")


def read_number(records: StudyRecords, name: str) -> tuple[str, pd.DataFrame]:
    """Return the runs behind a cell or a claim, or, without a name, all finished runs with their scores.

    Returns:
        A title, and a row for each run: the `label` of its variant, the variant's `weight` in the number,
            `run`, `value`.

    Raises:
        ConfigError: There is no such cell or claim, or no finished run is behind it.
    """
    claims = [row for part in records.parts if isinstance(part, Claims) for row in family(records, part).rows]
    matches = [row for row in claims if name and row.label.lower().startswith(name.lower())]
    rows = [row for row in distinct(records.rows) if row.done]
    title, runs = "", list[tuple[str, float, str, float]]()
    if len(matches) > 1:
        raise ConfigError(
            f"{len(matches)} claims begin with {name!r}: {choices(repr(row.label) for row in matches)}"
        )
    if matches:
        title = matches[0].label
        for term in matches[0].terms:
            runs += [
                (term.label, term.weight, row.id, value)
                for row, value in zip(term.runs, term.values, strict=True)
            ]
    elif ":" in name:
        cell = find_number(records, name)
        title = f"{cell.table}, row {cell.row!r}, column {cell.column!r}"
        values = [
            (row, value) for row in rows if row.id in cell.run_ids and (value := cell.value(row)) is not None
        ]
        counts = Counter(row.label for row, _ in values)
        runs = [(row.label, counts[row.label] / len(values), row.id, float(value)) for row, value in values]
    elif name:
        known = choices(repr(row.label) for row in claims) or "none"
        raise ConfigError(
            f"no claim begins with {name!r}: there are {known}. A cell is named TABLE:ROW:COLUMN"
        )
    else:
        ranked = [score for score, definition in METRICS.items() if definition.ranks]
        for row in rows:
            scores = (row.value(score) for score in (*ranked, *row.measured))
            runs += [(row.label, 1.0, row.id, float(score)) for score in scores if score is not None][:1]
    if not runs:
        raise ConfigError(f"no finished run is behind {name or 'this study'}: there is nothing to run again")
    return title, pd.DataFrame(runs, columns=COLUMNS)


def price(records: StudyRecords, runs: Collection[str]) -> str:
    """Return what the runs took where they were made."""
    rows = [row for row in distinct(records.rows) if row.id in runs]
    seconds = sum(row.value("seconds") or 0.0 for row in rows)
    return f"{plural(len(rows), 'published run')} took {duration(seconds)} on {_machines(rows)}"


def _machines(rows: Iterable[Row]) -> str:
    machines: dict[str, None] = {}
    for made in (row.provenance for row in rows):
        threads = f" of {plural(made.threads, 'thread')}" if made.threads else ""
        machine = made.hardware.gpu or made.hardware.cpu or "an unknown machine"
        machines[f"{machine}, {plural(made.workers, 'worker')}{threads}"] = None
    return choices(machines)


def compare(theirs: StudyRecords, here: StudyRecords, name: str) -> bool:
    """Print the values of the runs on both sides and what follows; return whether they differ."""
    title, published = read_number(theirs, name)
    made = read_number(here, name)[1]
    labels = [label for label in published["label"].unique() if label in set(made["label"])]
    sides = [frame.groupby("label") for frame in (published, made)]
    table = Table("variant", "theirs", "here", box=None)
    for label in labels:
        table.add_row(
            Text(label),
            *(" ".join(f"{value:.6g}" for value in side.get_group(label)["value"]) for side in sides),
        )
    console().print(table)
    before, after = ({row.id: row for row in records.rows if row.result} for records in (theirs, here))
    common = before.keys() & after.keys()
    same = sum(_untimed(before[run]) == _untimed(after[run]) for run in common)
    machines = f"theirs on {_machines(before.values())}, here on {_machines(after.values())}"
    if common and same == len(common):
        say(f"Bit-equal: every metric of {plural(same, 'run')} is the same to the last digit; {machines}.")
        return False
    if common:
        say(
            f"Not bit-equal: {same} of {plural(len(common), 'run')} gave every metric to the last digit;"
            f" {machines}."
        )
        groups = [
            {(row.provenance.workers, row.provenance.threads) for row in rows.values()}
            for rows in (before, after)
        ]
        if groups[0] != groups[1]:
            say("The last digits agree for equal workers and threads only, and these differ.")
    is_different = False
    numbers = [labels] if name else [[label] for label in labels]
    for number in numbers:
        terms = []
        for label in number:
            values = [side.get_group(label)["value"].tolist() for side in sides]
            fit, weight = Fit(dict(enumerate(values))), sides[0].get_group(label)["weight"].iloc[0]
            terms += [(weight, fit.weighted(1)), (-weight, fit.weighted(0))]
        estimate = contrast(terms, 1 - ALPHA / len(numbers))
        verdict, words = "Undecided", "; so few seeds give no spread, --fresh-seeds adds some"
        if estimate.interval is not None:
            low, high = estimate.interval
            verdict = "Within run-to-run spread" if low <= 0 <= high else "Different"
            words = f" [{low:+.4g}, {high:+.4g}] at {100 * estimate.level:.4g} %"
        is_different |= verdict == "Different"
        say(f"{verdict}: {title or number[0]}: here minus theirs {estimate.value or 0.0:+.4g}{words}.")
    return is_different


def _untimed(row: Row) -> dict[str, object]:
    """Return the metrics of a run, without times."""
    return {name: value for name, value in row.result_or_empty.metrics.items() if not metric(name).timed}
