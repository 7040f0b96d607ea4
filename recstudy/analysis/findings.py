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
from recstudy.analysis.questions import Asked, Family, Part, family
from recstudy.analysis.rows import STATUSES, distinct
from recstudy.analysis.tables.question_table import interval_words, needed_words, signed, verdict_words
from recstudy.analysis.tables.render import cell_text
from recstudy.analysis.targets import place
from recstudy.evidence import Kind, Reason, Verdict
from recstudy.report import BesidePublished, Best, Effects, OfVariants, TablePart
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
SIDES = ("better", "worse", "higher", "lower")
PUBLISHED = (
    Verdict.REPRODUCED, Verdict.WITHIN_MARGIN, Verdict.CONSISTENT, Verdict.DIFFERS, Verdict.UNDECIDED, Verdict.INTERIM,
    Verdict.NOT_COMPARABLE, Verdict.NOT_RUN,
)  # fmt: skip


class Sentence(NamedTuple):
    """A finding: its verdict in a word or two, and what it is of."""

    word: str
    said: str

    def __str__(self) -> str:
        return f"{self.word}: {self.said}."


class Said(NamedTuple):
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
    return told or [Sentence(UNTOLD, "the report has no two values to compare")]


def _in_turns(found: Sequence[Sentence], most: int) -> list[Sentence]:
    """At most so many in their order: of each word the first, then of each the second, and so on."""
    words = [sentence.word for sentence in found]
    turns = sorted(range(len(found)), key=lambda at: words[:at].count(words[at]))
    return [found[at] for at in sorted(turns[:most])]


def _of(records: StudyRecords, part: object) -> Said:
    if not isinstance(part, Part):
        return Said()
    try:
        found = family(records, part)
    except Exception:  # said in its own section and in the log
        return Said()
    if isinstance(part, Effects):
        return _effects(found, part.metric)
    return _claims(found) if found.rows and found.rows[0].answer.question.kind is Kind.CLAIM else _differences(found.rows)


# ------------------------------------------------------------------------------------------------------------ questions


def _claims(found: Family) -> Said:
    decided = [row for row in found.rows if row.verdict in (Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.SMALLER)]
    left = [row for row in found.rows if row.verdict is Verdict.UNDECIDED]
    waiting = sum(row.verdict in (Verdict.NOT_RUN, Verdict.INTERIM) for row in found.rows)
    return Said(
        [Sentence(_headed(row), f"{row.label}: {estimate_words(row)}") for row in decided],
        [Sentence("Undecided", _undecided(left, len(found.rows)))] if left else [],
        f"{waiting} of {plural(len(found.rows), 'claim')}" if waiting else "",
    )


def _headed(row: Asked) -> str:
    word = "contradicted" if row.verdict is Verdict.SMALLER else str(row.verdict)
    return (f"{word} ({', '.join(row.marks)})" if row.marks else word).capitalize()


def estimate_words(row: Asked) -> str:
    """`exact accuracy 92.1 % vs 1.0 %, +91.03 points (98.33 % interval [+90.00, +92.07], n=3)`."""
    name, found = row.metric, row.estimate
    unit = f" {metric(name).unit}".rstrip()
    against = [f"{inline(name)} {' vs '.join(number(name, side) + unit for side in row.sides)}"] if row.sides else []
    said = [*against, points(name, signed(name, found.value))]
    interval = f"{interval_words(row)}, " if found.interval else ""
    claimed = f", where {row.margin} is claimed" if row.verdict in (Verdict.CONTRADICTED, Verdict.SMALLER) else ""
    return f"{', '.join(said)} ({interval}n={found.n}){claimed}"


def _undecided(left: Sequence[Asked], asked: int) -> str:
    """The claim that is nearest to a verdict, and how many there are."""
    at = min(range(len(left)), key=lambda at: left[at].answer.seeds_needed or inf)
    of = f"{len(left)} of {plural(asked, 'claim')}, the nearest to a verdict being: " if len(left) > 1 else ""
    needed = needed_words(left[at])
    why = next((str(reason) for reason in left[at].answer.reasons if reason is not Reason.WIDE), "")
    lacks = f"; seeds needed: {needed}" if needed else f"; {why}" if why else ""
    return f"{of}{left[at].label}: {estimate_words(left[at])}{lacks}"


def _differences(rows: Sequence[Asked]) -> Said:
    """A sentence for each verdict and base."""
    bases = dict.fromkeys(row.group for row in rows)
    kinds = {f"{word.capitalize()} than {base}": _having(rows, base, word) for base in bases for word in SIDES}
    ties = {
        f"{UNTOLD} from {base}": [row for row in rows if row.group == base and row.verdict is Verdict.NO_DIFFERENCE]
        for base in bases
    }
    alone = [row for row in rows if Reason.NO_SPREAD in row.answer.reasons]
    return Said(
        [Sentence(word, _each(own)) for word, own in kinds.items() if own],
        [
            *(Sentence(word, f"{_each(own)}{_seeds(own)}") for word, own in ties.items() if own),
            *(
                [Sentence("Undecided", f"{plural(len(alone), 'difference')} of single runs, whose spread is unknown")]
                if alone
                else []
            ),
        ],
    )


def _having(rows: Sequence[Asked], base: str, word: str) -> list[Asked]:
    """The rows with this base and verdict, the surest first."""
    found = [
        row for row in rows if row.group == base and row.verdict in (Verdict.HIGHER, Verdict.LOWER) and verdict_words(row) == word
    ]
    return sorted(found, key=lambda row: row.answer.adjusted or 0.0)


def _each(rows: Sequence[Asked]) -> str:
    """`by exact accuracy, HRM -78.60 points (95 % interval [-91.81, -65.39], n=3), ...`."""
    name = rows[0].metric
    said = [
        f"{row.label} {points(name, signed(name, row.estimate.value))} ({interval_words(row)}, n={row.estimate.n})"
        for row in rows[:NAMED]
    ]
    more = [f"{len(rows) - NAMED} more"] if len(rows) > NAMED else []
    return f"by {inline(name)}, {', '.join([*said, *more])}"


def _seeds(rows: Sequence[Asked]) -> str:
    """What it would take to show differences of these sizes."""
    seeds = sorted(row.answer.seeds_needed for row in rows if row.answer.seeds_needed)
    if not seeds:
        return ""
    few, many = plural(seeds[0], "more seed"), f"{seeds[0]:,} to {plural(seeds[-1], 'more seed')}"
    return f"; about {few if seeds[0] == seeds[-1] else many} of each would show such a difference"


def _effects(found: Family, measured: str) -> Said:
    name, n = inline(measured), f"n={min((row.estimate.n for row in found.rows), default=0)}"
    told = [row for row in found.rows if row.verdict in (Verdict.HIGHER, Verdict.LOWER)]
    untold = [row.label for row in found.rows if row.verdict is Verdict.NO_DIFFERENCE]
    shown = [f"{row.label} {points(measured, signed(measured, row.estimate.value))} ({interval_words(row)})" for row in told]
    return Said(
        [Sentence("Effects shown", f"on {name}, {_some(shown)} ({n})")] if shown else [],
        [Sentence("No effect shown", f"on {name}, of {_some(untold)} ({n})")] if untold else [],
    )


# --------------------------------------------------------------------------------------------------------------- tables


def _best(records: StudyRecords) -> Said:
    """Of a study that asks for no comparison: who leads its first table that tells."""
    for part in (part for part in records.parts if isinstance(part, TablePart)):
        try:
            found = (_search if isinstance(part, Best) else leaders)(part.cells_once(records))
        except Exception:  # said in its own section and in the log
            continue
        if found is not None:
            return Said([found])
    return Said()


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
    least, most = (ends(one.n for _, one in own) for ends in (min, max))
    few, n = most < 2, f"n={most}" if least == most else f"n={least} to {most}"
    why = "one run of each, and no spread is known" if few else n
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
    found: dict[tuple[str, str, float, Verdict], tuple[str, Cell]] = {}
    for label, one in _beside_published(records):
        for target, answer in one.answers:
            found.setdefault((target.target.source, one.metric, target.value, answer.verdict), (label, one))
    measured, counted = (
        Counter(str(verdict) for _, name, _, verdict in found if metric(name).computed is known) for known in (False, True)
    )
    differing = [_differs(label, one) for (*_, verdict), (label, one) in found.items() if verdict is Verdict.DIFFERS]
    reasons = [target.reasons for _, one in found.values() for target in one.placed if target.reasons]
    why = {str(Verdict.DIFFERS): _some(differing), str(Verdict.NOT_COMPARABLE): _shortest(reasons)}
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
    published = ", ".join(dict.fromkeys(placed.text for placed in one.placed))
    return f"{label}, {inline(one.metric)}: {published} published, {cell_text(one)} here"


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
