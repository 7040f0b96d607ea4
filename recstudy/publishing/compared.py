"""Compare a published number with the same number of local runs, for `recstudy reproduce`.

The verdict is bit-equal, within the run-to-run spread, different, or undecided.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

import pandas as pd
from rich.table import Table
from rich.text import Text

from recstudy.base.errors import ConfigError, choices
from recstudy.base.terminal import console, duration, say
from recstudy.evidence import Fit, at_level, contrast
from recstudy.evidence.seeds import ALPHA
from recstudy.programs.metric import METRICS
from recstudy.publishing.checks import CLOSE
from recstudy.records.runs import Row, distinct
from recstudy.report import Claims
from recstudy.report.documents import ComparedNumber, ReproduceDocument
from recstudy.report.explain import find_number
from recstudy.report.family import family
from recstudy.report.names import metric, plural
from recstudy.report.parts import parts_of
from recstudy.report.study_records import StudyRecords

COLUMNS = ("label", "weight", "run", "value")
WITHIN_SPREAD, DIFFERENT = "within run-to-run spread", "different"


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
        measured = [row for row in rows if row.id in cell.run_ids and row.value(cell.metric) is not None]
        counts = Counter(row.label for row in measured)
        for row in measured:
            share = counts[row.label] / len(measured)
            runs.append((row.label, share, row.id, row.number(cell.metric)))
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


def compare(theirs: StudyRecords, ours: StudyRecords, name: str) -> ReproduceDocument:
    """Return published and local values with a verdict for each number.

    Args:
        theirs: The published records.
        ours: The local records.
        name: The number, as in `read_number`.
    """
    title, published = read_number(theirs, name)
    _, local_frame = read_number(ours, name)
    weights = published.groupby("label", sort=False)["weight"].first()
    their_values, our_values = (
        frame.groupby("label")["value"].apply(list) for frame in (published, local_frame)
    )
    labels = [label for label in weights.index if label in our_values]
    published_rows, local_rows = (
        {row.id: row for row in records.rows if row.result} for records in (theirs, ours)
    )
    common = published_rows.keys() & local_rows.keys()
    equal_count = sum(_untimed(published_rows[run]) == _untimed(local_rows[run]) for run in common)
    is_bit_equal = 0 < equal_count == len(common)
    compared: list[ComparedNumber] = []
    # Without a name each variant is tested; the level is adjusted for their number (Bonferroni).
    # Equal runs need no statistics.
    numbers = [labels] if name else [[label] for label in labels]
    for number in () if is_bit_equal else numbers:
        terms = []
        for label in number:
            fit = Fit({0: their_values[label], 1: our_values[label]})
            terms += [(weights[label], fit.weighted(1)), (-weights[label], fit.weighted(0))]
        estimate = at_level(contrast(terms), 1 - ALPHA / len(numbers))
        verdict: Any = "undecided"
        if estimate.interval:
            low, high = estimate.interval
            verdict = WITHIN_SPREAD if low <= 0 <= high else DIFFERENT
        else:  # without any spread, such as of a program that ignores the seed, a difference is one
            sides = [values for label in number for values in (their_values[label], our_values[label])]
            if all(len(values) > 1 and len(set(values)) == 1 for values in sides):
                size = max(abs(values[0]) for values in sides)
                verdict = WITHIN_SPREAD if abs(estimate.value or 0.0) <= CLOSE * size else DIFFERENT
        compared.append(
            ComparedNumber(
                title=title or number[0],
                verdict=verdict,
                difference=estimate.value,
                low=estimate.low,
                high=estimate.high,
                level=estimate.level,
            )
        )
    return ReproduceDocument(
        study=theirs.plan.study,
        preset=theirs.plan.folder,
        is_bit_equal=is_bit_equal,
        equal_runs=equal_count,
        common_runs=len(common),
        theirs=their_values[labels].to_dict(),
        here=our_values[labels].to_dict(),
        their_machines=_machines(published_rows.values()),
        machines_here=_machines(local_rows.values()),
        numbers=compared,
    )


def show_compared(compared: ReproduceDocument) -> None:
    """Print published and local values with a verdict for each number."""
    table = Table("variant", "theirs", "here", box=None)
    for label in compared.theirs:
        sides = (compared.theirs[label], compared.here[label])
        table.add_row(Text(label), *(" ".join(f"{value:.6g}" for value in values) for values in sides))
    console().print(table)
    machines = f"theirs on {compared.their_machines}, here on {compared.machines_here}"
    if compared.is_bit_equal:
        runs = plural(compared.equal_runs, "run")
        say(f"Bit-equal: every metric of {runs} is the same to the last digit; {machines}.")
    elif compared.common_runs:
        say(
            f"Not bit-equal: {compared.equal_runs} of {plural(compared.common_runs, 'run')} have the same"
            f" metrics to the last digit; {machines}."
        )
        if compared.their_machines != compared.machines_here:
            say("Bit-equal runs need the same processor and the same number of workers and threads.")
    for number in compared.numbers:
        words = "; all runs of each side have the same value"
        if number.verdict == "undecided":
            words = "; there are too few seeds for an interval. Add some with --fresh-seeds"
        if number.low is not None:
            words = f" [{number.low:+.4g}, {number.high:+.4g}] at {100 * number.level:.4g} %"
        difference = f"here minus theirs {number.difference or 0.0:+.4g}"
        say(f"{number.verdict.capitalize()}: {number.title}: {difference}{words}.")


def _untimed(row: Row) -> dict[str, object]:
    """Return the metrics of a run without those that measure time, which differ between machines."""
    return {name: value for name, value in row.result_or_empty.metrics.items() if not metric(name).timed}
