"""Compare a published number with the same number of local runs, for `recstudy reproduce`.

The verdict is bit-equal, within the run-to-run spread, different, or undecided.
"""

from collections import Counter
from collections.abc import Collection, Iterable

import pandas as pd
from rich.table import Table
from rich.text import Text

from recstudy.base.errors import ConfigError, choices
from recstudy.base.terminal import console, duration, say
from recstudy.evidence import Fit, at_level, contrast
from recstudy.evidence.seeds import ALPHA
from recstudy.programs.metric import METRICS
from recstudy.records.runs import Row, distinct
from recstudy.report import Claims
from recstudy.report.explain import find_number
from recstudy.report.family import family
from recstudy.report.names import metric, plural
from recstudy.report.parts import parts_of
from recstudy.report.study_records import StudyRecords

COLUMNS = ("label", "weight", "run", "value")


def read_number(records: StudyRecords, name: str) -> tuple[str, pd.DataFrame]:
    """Return the runs of a cell or a claim.

    Args:
        records: The records of the study.
        name: TABLE:ROW:COLUMN of a cell, or the beginning of a claim. If empty, all finished runs are
            returned
            with their main score.

    Returns:
        A title, and a row for each run: the `label` of its variant, the `weight` of the variant in the
        number,
            the id `run`, and the `value`.

    Raises:
        ConfigError: There is no such cell or claim, or it has no finished run.
    """
    claims = [
        row for part in parts_of(records) if isinstance(part, Claims) for row in family(records, part).rows
    ]
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
        labels = choices(repr(row.label) for row in claims) or "none"
        raise ConfigError(f"No claim begins with {name!r}. Claims: {labels}. Name a cell as TABLE:ROW:COLUMN")
    else:
        ranked = [score for score, definition in METRICS.items() if definition.ranks]
        for row in rows:
            scores = (row.value(score) for score in (*ranked, *row.measured))
            runs += [(row.label, 1.0, row.id, float(score)) for score in scores if score is not None][:1]
    if not runs:
        raise ConfigError(f"{name or 'this study'} has no finished run, so there is nothing to reproduce")
    return title, pd.DataFrame(runs, columns=COLUMNS)


def price(records: StudyRecords, runs: Collection[str]) -> str:
    """Return the wall time and the machines of published runs in words."""
    rows = [row for row in distinct(records.rows) if row.id in runs]
    seconds = sum(row.value("seconds") or 0.0 for row in rows)
    return f"{plural(len(rows), 'published run')} took {duration(seconds)} on {_machines(rows)}"


def _machines(rows: Iterable[Row]) -> str:
    machines: dict[str, None] = {}
    for provenance in (row.provenance for row in rows):
        threads = f" of {plural(provenance.threads, 'thread')}" if provenance.threads else ""
        machine = provenance.hardware.gpu or provenance.hardware.cpu or "an unknown machine"
        machines[f"{machine}, {plural(provenance.workers, 'worker')}{threads}"] = None
    return choices(machines)


def compare(theirs: StudyRecords, ours: StudyRecords, name: str) -> bool:
    """Print published and local values with a verdict for each number.

    Args:
        theirs: The published records.
        ours: The local records.
        name: The number, as in `read_number`.

    Returns:
        Whether any number differs significantly.
    """
    title, published = read_number(theirs, name)
    local_frame = read_number(ours, name)[1]
    labels = [label for label in published["label"].unique() if label in set(local_frame["label"])]
    sides = [frame.groupby("label") for frame in (published, local_frame)]
    table = Table("variant", "theirs", "here", box=None)
    for label in labels:
        table.add_row(
            Text(label),
            *(" ".join(f"{value:.6g}" for value in side.get_group(label)["value"]) for side in sides),
        )
    console().print(table)
    published_rows, local_rows = (
        {row.id: row for row in records.rows if row.result} for records in (theirs, ours)
    )
    common = published_rows.keys() & local_rows.keys()
    equal_count = sum(_untimed(published_rows[run]) == _untimed(local_rows[run]) for run in common)
    machines = f"theirs on {_machines(published_rows.values())}, here on {_machines(local_rows.values())}"
    # Equal runs need no statistics.
    if common and equal_count == len(common):
        say(
            f"Bit-equal: every metric of {plural(equal_count, 'run')} is the same to the last digit;"
            f" {machines}."
        )
        return False
    if common:
        say(
            f"Not bit-equal: {equal_count} of {plural(len(common), 'run')} have the same metrics to the last"
            f" digit; {machines}."
        )
        groups = [
            {(row.provenance.workers, row.provenance.threads) for row in rows.values()}
            for rows in (published_rows, local_rows)
        ]
        if groups[0] != groups[1]:
            say("Bit-equal runs need the same number of workers and threads. These numbers differ.")
    is_different = False
    # Without a name each variant is tested; the level is adjusted for their number (Bonferroni).
    numbers = [labels] if name else [[label] for label in labels]
    for number in numbers:
        terms = []
        for label in number:
            values = [side.get_group(label)["value"].tolist() for side in sides]
            fit, weight = Fit(dict(enumerate(values))), sides[0].get_group(label)["weight"].iloc[0]
            terms += [(weight, fit.weighted(1)), (-weight, fit.weighted(0))]
        estimate = at_level(contrast(terms), 1 - ALPHA / len(numbers))
        verdict, words = "Undecided", "; there are too few seeds for an interval. Add some with --fresh-seeds"
        if estimate.interval is not None:
            low, high = estimate.interval
            verdict = "Within run-to-run spread" if low <= 0 <= high else "Different"
            words = f" [{low:+.4g}, {high:+.4g}] at {100 * estimate.level:.4g} %"
        is_different |= verdict == "Different"
        say(f"{verdict}: {title or number[0]}: here minus theirs {estimate.value or 0.0:+.4g}{words}.")
    return is_different


def _untimed(row: Row) -> dict[str, object]:
    """Return the metrics of a run without those that measure time, which differ between machines."""
    return {name: value for name, value in row.result_or_empty.metrics.items() if not metric(name).timed}
