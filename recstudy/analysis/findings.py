"""What a study found, in two to five sentences, made from the verdicts, intervals and counts that its report has.

    shown        claims that are decided, then differences and effects by Holm, in the report's order; where it asks for none,
                 the best of its first table that tells any. Where places are short, one of each word before a second of any
    open         what was asked and cannot be told, and the seeds that it would take
    published    how many published values were reproduced, and the shortest reason why others are not comparable
    missing      runs that failed, diverged or are still to do

The last three have a sentence each, or none, and leave the others of `MOST` places to what is shown. The first sentence is the
study's line on the overview. Of a smoke run, and before any run has finished, it says that nothing is known.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from recstudy.analysis.cells import Cell, TableData, cell
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import STATUSES, distinct
from recstudy.analysis.stats import ALPHA
from recstudy.analysis.tables.claim_table import would_take
from recstudy.analysis.tables.claims import Judged, claims_data, more
from recstudy.analysis.tables.difference_table import signed, signed_interval
from recstudy.analysis.tables.differences import Difference, differences_data
from recstudy.analysis.tables.effects import effects_data
from recstudy.analysis.tables.render import cell_text
from recstudy.analysis.targets import place
from recstudy.report import BesidePublished, Best, Claims, Differences, Effects, OfVariants, Part, TablePart
from recstudy.report.names import inline, metric, number, plural, points

MOST = 5
NAMED = 3  # rows that a sentence names
HOW = (
    f"At most {MOST} sentences, made from the verdicts and intervals below. First what is shown: decided claims, then "
    "differences and effects with p below 0.05 by Holm, in the order of the page and of each kind one before a second of any; "
    "where the study asks for none of these, the best of its first table. Then a sentence each, where there is something to say: "
    "what cannot be told yet and the seeds that it would take, how published values compare, and what failed or is missing"
)
NOTHING = "Nothing is known yet"
UNTOLD = "No significant difference"
SIDES = ("Better", "Worse", "Higher", "Lower")
PUBLISHED = ("reproduced", "consistent", "differs", "undecided", "not comparable", "not run")


class Sentence(NamedTuple):
    """A finding: its verdict in a word or two, and what it is of."""

    word: str
    said: str

    def __str__(self) -> str:
        return f"{self.word}: {self.said}."


class Answer(NamedTuple):
    """What one part of the report was asked: what it shows, what it leaves open, and how many of its claims wait for runs."""

    shown: Sequence[Sentence] = ()
    open: Sequence[Sentence] = ()
    waiting: str = ""


def findings(records: StudyRecords) -> list[Sentence]:
    """The study's findings, the most telling first."""
    return records.once("findings", lambda: _found_in(records))


def _found_in(records: StudyRecords) -> list[Sentence]:
    unknown = "a smoke run tries the code, and its numbers mean nothing" if records.plan.smoke else "no run has finished"
    if records.plan.smoke or not any(run.done for run in records.rows):
        return [Sentence(NOTHING, unknown), *_missing(records, [])]
    answers = [_of(records, part) for part in records.parts]
    answers = answers if any(one.shown or one.open for one in answers) else [*answers, _best(records)]
    left = [sentence for one in answers for sentence in one.open][:1]
    last = [*left, *_published(records), *_missing(records, [one.waiting for one in answers if one.waiting])]
    told = [*_in_turns([sentence for one in answers for sentence in one.shown], MOST - len(last)), *last]
    return told or [Sentence(NOTHING, "the report has no two values to compare")]


def _in_turns(found: Sequence[Sentence], most: int) -> list[Sentence]:
    """At most so many in their order: of each word the first, then of each the second, and so on."""
    words = [sentence.word for sentence in found]
    turns = sorted(range(len(found)), key=lambda at: words[:at].count(words[at]))
    return [found[at] for at in sorted(turns[:most])]


def _of(records: StudyRecords, part: Part) -> Answer:
    try:
        match part:
            case Claims():
                return _claims(claims_data(records, part))
            case Differences():
                return _differences(differences_data(records, part).rows)
            case Effects():
                return _effects(records, part)
    except Exception:  # said in its own section and in the log
        return Answer()
    return Answer()


# --------------------------------------------------------------------------------------------------------------- claims


def _claims(judged: Sequence[Judged]) -> Answer:
    decided = [one for one in judged if one.verdict in ("supported", "contradicted")]
    left = [one for one in judged if one.verdict == "undecided"]
    waiting = sum(one.verdict == "not run" for one in judged)
    return Answer(
        [Sentence(one.verdict.capitalize(), f"{one.claim.text}: {_found(one)}") for one in decided],
        [Sentence("Undecided", _undecided(left, judged))] if left else [],
        f"{waiting} of {plural(len(judged), 'claim')}" if waiting else "",
    )


def _found(one: Judged) -> str:
    """`exact accuracy 92.1 % vs 1.0 %, +91.03 points (98 % interval +90.00 to +92.07, n=3)`."""
    name, value = one.claim.metric, one.found.value if one.found else None
    against = " vs ".join(f"{number(name, mean)} {metric(name).unit}".strip() for mean in one.means)
    said = [f"{inline(name)} {against}"] * bool(one.means) + [points(name, signed(name, value))]
    level = f"{100 * (1 - one.alpha):.0f} % interval {signed_interval(name, *one.interval)}, " if one.interval else ""
    claimed = f", where {one.claim.margin} is claimed" if one.verdict == "contradicted" else ""
    return f"{', '.join(said)} ({level}n={one.seeds}){claimed}"


def _undecided(left: Sequence[Judged], judged: Sequence[Judged]) -> str:
    """The claim that is nearest to a verdict, and how many there are."""
    seeds = [more(one, len(judged)) for one in left]
    at = min(range(len(left)), key=lambda at: inf if seeds[at] is None else seeds[at] or 0)
    of = f"{len(left)} of {plural(len(judged), 'claim')}, the nearest to a verdict being: " if len(left) > 1 else ""
    return f"{of}{left[at].claim.text}: {_found(left[at])}; needs {would_take(left[at], len(judged))}"


# ---------------------------------------------------------------------------------------------------------- differences


def _differences(rows: Sequence[Difference]) -> Answer:
    """A sentence for each verdict and base."""
    bases = dict.fromkeys(row.base for row in rows)
    kinds = {f"{word} than {base}": _having(rows, base, word.lower()) for base in bases for word in SIDES}
    ties = {f"{UNTOLD} from {base}": _having(rows, base, "no difference shown") for base in bases}
    alone = [row for row in rows if row.verdict.startswith("undecided")]
    return Answer(
        [Sentence(word, _each(own)) for word, own in kinds.items() if own],
        [
            *(Sentence(word, f"{_each(own)}{_seeds(own)}") for word, own in ties.items() if own),
            *([Sentence(UNTOLD, f"{plural(len(alone), 'difference')} of single runs, whose spread is unknown")] if alone else []),
        ],
    )


def _having(rows: Sequence[Difference], base: str, verdict: str) -> list[Difference]:
    """The rows with this base and verdict, the surest first."""
    found = [row for row in rows if row.base == base and row.verdict == verdict]
    return sorted(found, key=lambda row: row.adjusted if row.adjusted is not None else 1.0)


def _each(rows: Sequence[Difference]) -> str:
    """`by exact accuracy, HRM -78.60 points (95 % interval -91.81 to -65.39, n=3), ...`."""
    name = rows[0].ours.metric
    said: list[str] = []
    for row in rows[:NAMED]:
        level = "95 % interval " * (not said)  # of the first: the others are of the same
        interval = signed_interval(name, row.found.low, row.found.high)
        said.append(f"{row.label} {points(name, signed(name, row.found.value))} ({level}{interval}, n={min(row.n)})")
    more = [f"{len(rows) - NAMED} more"] if len(rows) > NAMED else []
    return f"by {inline(name)}, {', '.join([*said, *more])}"


def _seeds(rows: Sequence[Difference]) -> str:
    """What it would take to show differences of these sizes."""
    seeds = sorted(row.more for row in rows if row.more)
    if not seeds:
        return ""
    few, many = plural(seeds[0], "more seed"), f"{seeds[0]:,} to {plural(seeds[-1], 'more seed')}"
    return f"; about {few if seeds[0] == seeds[-1] else many} of each would show such a difference"


def _effects(records: StudyRecords, part: Effects) -> Answer:
    data = effects_data(records, part)
    name = inline(part.metric)
    tested = [one for one in data.effects if one.adjusted is not None]
    told = [one for one in tested if (one.adjusted or 0.0) < ALPHA]
    shown = [
        f"{one.title} {points(part.metric, signed(part.metric, one.test.value))} "
        f"(95 % interval {signed_interval(part.metric, one.test.low, one.test.high)})"
        for one in told
    ]
    untold = [one.title for one in tested if one not in told]
    n = f"n={len(data.seeds)}"
    return Answer(
        [Sentence("Effects shown", f"on {name}, {_some(shown)} ({n})")] if shown else [],
        [Sentence("No effect shown", f"on {name}, of {_some(untold)} ({n})")] if untold else [],
    )


# --------------------------------------------------------------------------------------------------------------- tables


def _best(records: StudyRecords) -> Answer:
    """Of a study that asks for no comparison: who leads its first table that tells."""
    for part in (part for part in records.parts if isinstance(part, TablePart)):
        try:
            found = (_search if isinstance(part, Best) else leaders)(part.cells_once(records))
        except Exception:  # said in its own section and in the log
            continue
        if found is not None:
            return Answer([found])
    return Answer()


def leaders(table: TableData) -> Sentence | None:
    """Of the first measured metric that any two values have: the best, or that none can be told; None without two values."""
    cells = [(row.label, column, one) for row in table.rows for column, one in zip(table.columns, row.cells, strict=False)]
    known = [(label, column, one) for label, column, one in cells if one.value is not None and (one.best or one.tied)]
    name = next((one.metric for _, _, one in known if not metric(one.metric).computed), None)
    if name is None:
        return None
    own = [(label if column == metric(name).heading else f"{label}, {column}", one) for label, column, one in known]
    own = [(label, one) for label, one in own if one.metric == name]
    best = [f"{label} {cell_text(one)}" for label, one in own if one.best]
    if best:
        return Sentence("Best", f"by {inline(name)}, {_some(best)}, 95 % intervals over seeds")
    few = max(one.n for _, one in own) < 2
    why = "one run of each, and no spread is known" if few else f"n={max(one.n for _, one in own)}"
    return Sentence(UNTOLD, f"between variants by {inline(name)} ({why})")


def _search(table: TableData) -> Sentence | None:
    """The first of a search's best trials, by its fresh seeds where there are any."""
    cells = [one for row in table.rows[:1] for one in row.cells if one.value is not None and not metric(one.metric).computed]
    if not cells:
        return None
    return Sentence("Best trial", f"{table.rows[0].label}: {inline(cells[-1].metric)} {cell_text(cells[-1])}")


# ------------------------------------------------------------------------------------------------- published and missing


def _published(records: StudyRecords) -> list[Sentence]:
    """How the published values that the report shows compare, each once."""
    found: dict[tuple[str, str, float, str], tuple[str, Cell]] = {}
    for label, one in _beside_published(records):
        for target in one.placed:
            verdict = target.verdict(one.values, one.spread, one.lost)
            found.setdefault((target.target.source, one.metric, target.value, verdict), (label, one))
    measured, counted = (
        Counter(verdict for _, name, _, verdict in found if metric(name).computed is known) for known in (False, True)
    )
    differing = [_differs(label, one) for (*_, verdict), (label, one) in found.items() if verdict == "differs"]
    reasons = [target.reasons for _, one in found.values() for target in one.placed if target.reasons]
    why = {"differs": _some(differing), "not comparable": _shortest(reasons)}
    said = [_counted(measured, PUBLISHED, "value", why)] if measured else []
    said += [f"of parameters and FLOPs, {_counted(counted, PUBLISHED, 'value', {})}"] if counted else []  # no training decides
    return [Sentence("Published", "; ".join(said))] if said else []


def _beside_published(records: StudyRecords) -> Iterable[tuple[str, Cell]]:
    """Each variant's cells that have a published value, part by part."""
    for part in (part for part in records.parts if isinstance(part, BesidePublished) and part.targets):
        variants = records.chosen(part.where) if isinstance(part, OfVariants) else []
        placement = place(records, part.targets, variants, part.shows)
        for index, name in placement.placed:
            yield records.variants[index].label, cell(records, [index], name, placement)


def _differs(label: str, one: Cell) -> str:
    return f"{label}, {inline(one.metric)}: {one.published} published, {cell_text(one)} here"


def _shortest(reasons: Sequence[tuple[str, ...]]) -> str:
    """The fewest reasons of any, in a word."""
    if not reasons:
        return ""
    least = min(reasons, key=len)
    return least[0] + (f", and {plural(len(least) - 1, 'more reason')}" if len(least) > 1 else "")


def _missing(records: StudyRecords, waiting: Sequence[str]) -> list[Sentence]:
    """Runs that give no number; those that a search stopped early are no loss."""
    runs = distinct(records.rows)
    counts = Counter(run.status for run in runs if run.status not in ("done", "stopped"))
    if not counts:
        return []
    why = {"failed": ", ".join(dict.fromkeys(run.error_class for run in runs if run.failed))}
    wait = f"; that leaves {' and '.join(waiting)} open" if waiting else ""
    return [Sentence("Missing", _counted(counts, STATUSES, "run", why, len(runs)) + wait)]


def _counted(counts: Counter[str], order: Sequence[str], what: str, why: Mapping[str, str], whole: int = 0) -> str:
    """`3 of 12 values reproduced, 9 not comparable (data digits, not cifar10)`."""
    of = f" of {plural(whole or counts.total(), what)}"
    kinds = [word for word in order if counts[word]]
    each = [f"{counts[word]:,}{of * (word == kinds[0])} {word}{f' ({why[word]})' if why.get(word) else ''}" for word in kinds]
    return ", ".join(each)


def _some(words: Sequence[str]) -> str:
    return ", ".join([*words[:NAMED], *([f"{len(words) - NAMED} more"] if len(words) > NAMED else [])])
