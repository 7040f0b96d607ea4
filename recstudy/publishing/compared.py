"""A number of a bundle beside the same number of runs that were made here: bit-equal, within the spread of runs, or different."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from recstudy.analysis.explain import find
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.questions import family
from recstudy.analysis.rows import Row
from recstudy.errors import ConfigError, choices
from recstudy.evidence import Estimate, Fit, Weighted, contrast
from recstudy.evidence.seeds import ALPHA
from recstudy.metrics import METRICS
from recstudy.records import Result
from recstudy.report import Claims
from recstudy.report.names import metric, plural
from recstudy.terminal import console, duration, say

Term = tuple[float, str, Mapping[str, float]]  # weight, variant, the value of each of its runs
DIFFERENT = "different"


@dataclass(frozen=True)
class Asked:
    """A number as a sum over variants: weight, label, and each run's value."""

    title: str
    terms: Sequence[Term]

    @property
    def ids(self) -> list[str]:
        return list(dict.fromkeys(run for _, _, values in self.terms for run in values))


def asked_of(records: StudyRecords, name: str) -> Asked:
    """Return what is asked for: a cell, a claim, or, without a name, what each variant's runs are selected by.

    Raises:
        ConfigError: there is no such cell or claim, or no finished run is behind it.
    """
    claims = [row for part in records.parts if isinstance(part, Claims) for row in family(records, part).rows]
    named = [row for row in claims if name and row.label.lower().startswith(name.lower())]
    if len(named) > 1:
        raise ConfigError(f"{len(named)} claims begin with {name!r}: {choices(repr(row.label) for row in named)}")
    terms: list[Term] = []
    if named:
        for term in named[0].terms:
            values = {row.id: value for row, value in zip(term.runs, term.values, strict=True)}
            terms.append((term.weight, term.label, values))
        found = Asked(named[0].label, terms)
    elif ":" in name:
        place = find(records, name)
        runs, labels = dict(place.behind(records).runs), {row.id: row.label for row in records.rows}
        own = {label: {run: value for run, value in runs.items() if labels[run] == label} for label in labels.values()}
        terms = [(len(values) / len(runs), label, values) for label, values in own.items() if values]
        found = Asked(f"{place.table}, row {place.row!r}, column {place.column!r}", terms)
    elif name:
        known = choices(repr(row.label) for row in claims) if claims else "none"
        raise ConfigError(f"no claim begins with {name!r}: there are {known}. A cell is named TABLE:ROW:COLUMN")
    else:
        for variant, rows in zip(records.variants, records.by_variant, strict=True):
            values = {row.id: score for row in rows if row.done and (score := row.value(_score(row))) is not None}
            terms.append((1.0, variant.label, values))
        found = Asked("", [term for term in terms if term[2]])
    if not found.ids:
        raise ConfigError(f"no finished run is behind {name or 'this study'}: there is nothing to run again")
    return found


def _score(row: Row) -> str:
    """Return the metric by which runs of this kind are ranked first."""
    ranked = [name for name, one in METRICS.items() if one.ranks]
    return next((name for name in ranked if row.value(name) is not None), next(iter(row.measured), ""))


def price(records: StudyRecords, ids: Sequence[str]) -> str:
    """Return what the runs took where they were made."""
    rows = [row for row in records.rows if row.id in set(ids)]
    seconds = sum(row.value("seconds") or 0.0 for row in rows)
    machines = dict.fromkeys(_machine(row) for row in rows)
    return f"{plural(len(rows), 'published run')} took {duration(seconds)} on {choices(machines)}"


def _machine(row: Row) -> str:
    made = row.provenance
    of = f" of {plural(made.threads, 'thread')}" if made.threads else ""
    return f"{made.hardware.gpu or made.hardware.cpu or 'a machine unknown'}, {plural(made.workers, 'worker')}{of}"


def _tell_parts(theirs: StudyRecords, here: StudyRecords) -> None:
    """Say so where the runs had other workers or threads, which take sums in other parts."""
    sides = [{(row.provenance.workers, row.provenance.threads) for row in side.rows if row.done} for side in (theirs, here)]
    if sides[0] != sides[1]:
        say("The last digits agree for equal workers and threads only, and these differ.")


Pair = tuple[Term, Term]  # theirs and ours


def said(theirs: StudyRecords, here: StudyRecords, name: str) -> bool:
    """Print each run's value on both sides and what follows; return whether they differ."""
    before, after = asked_of(theirs, name), asked_of(here, name)
    ours = {label: (weight, label, values) for weight, label, values in after.terms}
    pairs = [(one, ours[one[1]]) for one in before.terms if one[1] in ours]
    table = Table("variant", "theirs", "here", box=None)
    for (_, label, published), (_, _, made) in pairs:
        table.add_row(Text(label), _values(published), _values(made))
    console().print(table)
    same, known = _equal(theirs, here)
    machines = f"there on {_on(theirs)}, here on {_on(here)}"
    if known and same == known:
        say(f"Bit-equal: every metric of {plural(known, 'run')} is the same to the last digit; {machines}.")
        return False
    if known:
        say(f"Not bit-equal: {same} of {plural(known, 'run')} gave every metric to the last digit; {machines}.")
        _tell_parts(theirs, here)
    groups = [pairs] if name else [[pair] for pair in pairs]
    verdicts: list[str] = []
    for group in groups:
        label = before.title or group[0][0][1]
        found = contrast([*_side(group, 1), *((-weight, mean) for weight, mean in _side(group, 0))], 1 - ALPHA / len(groups))
        verdicts.append(verdict := _verdict(found))
        say(f"{verdict[0].upper()}{verdict[1:]}: {label}: {_words(found)}.")
    return DIFFERENT in verdicts


def _side(group: Sequence[Pair], side: int) -> list[tuple[float, Weighted | None]]:
    """Return the means of one side, each with its weight, by the spread of both."""
    found: list[tuple[float, Weighted | None]] = []
    for pair in group:
        fit = Fit({at: list(values.values()) for at, (_, _, values) in enumerate(pair)})
        found.append((pair[side][0], fit.weighted(side)))
    return found


def _verdict(found: Estimate) -> str:
    if found.interval is None:
        return "undecided"
    return "within run-to-run spread" if found.interval[0] <= 0 <= found.interval[1] else DIFFERENT


def _words(found: Estimate) -> str:
    value = f"here minus theirs {found.value or 0.0:+.4g}"
    if found.interval is None:
        return f"{value}; no spread is known of so few seeds, which --fresh-seeds adds"
    return f"{value} [{found.interval[0]:+.4g}, {found.interval[1]:+.4g}] at {100 * found.level:.4g} %"


def _values(values: Mapping[str, float]) -> str:
    return " ".join(f"{value:.6g}" for value in values.values())


def _equal(theirs: StudyRecords, here: StudyRecords) -> tuple[int, int]:
    """Return how many runs of the same settings and seed gave the same of every metric that is no time, and of how many."""
    known = {row.id: row for row in theirs.rows if row.result}
    pairs = [(known[row.id].result, row.result) for row in here.rows if row.result and row.id in known]
    return sum(_exact(one) == _exact(other) for one, other in pairs), len(pairs)


def _exact(result: Result | None) -> dict[str, object]:
    metrics = result.metrics if result else {}
    return {name: value for name, value in metrics.items() if not metric(name).timed}


def _on(records: StudyRecords) -> str:
    return choices(dict.fromkeys(_machine(row) for row in records.rows if row.result))
