"""A number of a bundle beside the same number of runs that were made here: bit-equal, within the spread of runs, or different."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from recstudy.errors import ConfigError, choices
from recstudy.evidence import Fit, contrast
from recstudy.evidence.seeds import ALPHA
from recstudy.programs.metric import METRICS
from recstudy.report import Claims
from recstudy.report.explain import find
from recstudy.report.names import metric, plural
from recstudy.report.questions import family
from recstudy.report.rows import Row
from recstudy.report.study_records import StudyRecords
from recstudy.terminal import console, duration, say

Term = tuple[float, dict[str, float]]  # weight, the value of each run by its id
DIFFERENT = "Different"


@dataclass(frozen=True)
class Number:
    """A number as a weighted sum over variants, which their labels name."""

    title: str
    terms: Mapping[str, Term]

    @property
    def runs(self) -> list[str]:
        return list(dict.fromkeys(run for _, values in self.terms.values() for run in values))


def read_number(records: StudyRecords, name: str) -> Number:
    """Return a cell, a claim, or, without a name, the score of each variant's runs.

    Raises:
        ConfigError: There is no such cell or claim, or no finished run is behind it.
    """
    claims = [row for part in records.parts if isinstance(part, Claims) for row in family(records, part).rows]
    matches = [row for row in claims if name and row.label.lower().startswith(name.lower())]
    title, terms = "", dict[str, Term]()
    if len(matches) > 1:
        raise ConfigError(f"{len(matches)} claims begin with {name!r}: {choices(repr(row.label) for row in matches)}")
    if matches:
        title = matches[0].label
        for term in matches[0].terms:
            terms[term.label] = term.weight, {row.id: value for row, value in zip(term.runs, term.values, strict=True)}
    elif ":" in name:
        cell = find(records, name)
        title = f"{cell.table}, row {cell.row!r}, column {cell.column!r}"
        rows = {row.id: row for row in records.rows}
        values = {run: cell.value(rows[run]) for run in cell.run_ids}
        runs = {run: float(value) for run, value in values.items() if value is not None}
        labels = {run: rows[run].label for run in runs}
        for label, count in Counter(labels[run] for run in runs).items():
            terms[label] = count / len(runs), {run: value for run, value in runs.items() if labels[run] == label}
    elif name:
        known = choices(repr(row.label) for row in claims) if claims else "none"
        raise ConfigError(f"no claim begins with {name!r}: there are {known}. A cell is named TABLE:ROW:COLUMN")
    else:
        ranked = [score for score, definition in METRICS.items() if definition.ranks]
        for row in (row for row in records.rows if row.done):
            scores = [value for score in (*ranked, *row.measured) if (value := row.value(score)) is not None]
            if scores:
                terms.setdefault(row.label, (1.0, {}))[1][row.id] = scores[0]
    number = Number(title, terms)
    if not number.runs:
        raise ConfigError(f"no finished run is behind {name or 'this study'}: there is nothing to run again")
    return number


def price(records: StudyRecords, runs: Sequence[str]) -> str:
    """Return what the runs took where they were made."""
    rows = [row for row in records.rows if row.id in set(runs)]
    seconds = sum(row.value("seconds") or 0.0 for row in rows)
    return f"{plural(len(rows), 'published run')} took {duration(seconds)} on {_machines(rows)}"


def _machines(rows: Iterable[Row]) -> str:
    machines: dict[str, None] = {}
    for made in (row.provenance for row in rows):
        threads = f" of {plural(made.threads, 'thread')}" if made.threads else ""
        machine = made.hardware.gpu or made.hardware.cpu or "a machine unknown"
        machines[f"{machine}, {plural(made.workers, 'worker')}{threads}"] = None
    return choices(machines)


def compare(theirs: StudyRecords, here: StudyRecords, name: str) -> bool:
    """Print each run's value on both sides and what follows; return whether they differ."""
    published, made = read_number(theirs, name), read_number(here, name)
    labels = [label for label in published.terms if label in made.terms]
    table = Table("variant", "theirs", "here", box=None)
    for label in labels:
        sides = (number.terms[label][1].values() for number in (published, made))
        table.add_row(Text(label), *(" ".join(f"{value:.6g}" for value in values) for values in sides))
    console().print(table)
    before, after = ({row.id: row for row in records.rows if row.result} for records in (theirs, here))
    known = before.keys() & after.keys()
    same = sum(_untimed(before[run]) == _untimed(after[run]) for run in known)
    machines = f"there on {_machines(before.values())}, here on {_machines(after.values())}"
    if known and same == len(known):
        say(f"Bit-equal: every metric of {plural(same, 'run')} is the same to the last digit; {machines}.")
        return False
    if known:
        say(f"Not bit-equal: {same} of {plural(len(known), 'run')} gave every metric to the last digit; {machines}.")
        parts = [{(row.provenance.workers, row.provenance.threads) for row in rows.values()} for rows in (before, after)]
        if parts[0] != parts[1]:
            say("The last digits agree for equal workers and threads only, and these differ.")
    groups = [labels] if name else [[label] for label in labels]
    verdicts: list[str] = []
    for group in groups:
        means = []
        for label in group:
            (weight, values), (our_weight, our_values) = published.terms[label], made.terms[label]
            fit = Fit({0: list(values.values()), 1: list(our_values.values())})
            means += [(our_weight, fit.weighted(1)), (-weight, fit.weighted(0))]
        estimate = contrast(means, 1 - ALPHA / len(groups))
        verdict, words = "Undecided", "; no spread is known of so few seeds, which --fresh-seeds adds"
        if estimate.interval is not None:
            low, high = estimate.interval
            verdict = "Within run-to-run spread" if low <= 0 <= high else DIFFERENT
            words = f" [{low:+.4g}, {high:+.4g}] at {100 * estimate.level:.4g} %"
        verdicts.append(verdict)
        say(f"{verdict}: {published.title or group[0]}: here minus theirs {estimate.value or 0.0:+.4g}{words}.")
    return DIFFERENT in verdicts


def _untimed(row: Row) -> dict[str, object]:
    """Return what a run has measured, without times."""
    return {name: value for name, value in (row.result.metrics if row.result else {}).items() if not metric(name).timed}
