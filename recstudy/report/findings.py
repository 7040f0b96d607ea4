"""What a study found, in two to five sentences, made from the verdicts, intervals and counts that its report has.

`HOW` says which, in which order, on the page. What failed, is missing, is open or was published has a sentence each, or none, and
leaves the others of `MOST` places to what is shown. The first sentence is the study's line on the overview. Of a smoke run, and
before any run has finished, it says that nothing is known.

`--until decided` goes by which questions are open, and about how many more seeds would decide each (`wanted`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from recstudy.errors import ConfigError
from recstudy.evidence import MOST_SEEDS, Answer, Kind, Reason, Verdict
from recstudy.report.caveats import some
from recstudy.report.cells import TableData
from recstudy.report.claims import Claims, Effects, QuestionPart
from recstudy.report.kinds import cells
from recstudy.report.names import inline, metric, number, plural, points, quantity
from recstudy.report.parts import TablePart
from recstudy.report.published import published_values
from recstudy.report.questions import Family, QuestionRow, family
from recstudy.report.rows import STATUSES, distinct
from recstudy.report.study_records import StudyRecords
from recstudy.report.tables.best import Best
from recstudy.report.tables.question_table import interval_words, needed_words, signed, verdict_words
from recstudy.report.tables.render import cell_text, outcome_words

MOST = 5
HOW = (
    f"Findings: at most {MOST} sentences, made from verdicts and intervals. First decided claims, then differences and effects "
    "with p below 0.05 (Holm); a study that asks for none of these names the best variant of its first table. Then one sentence "
    "each for what is undecided and the seeds that it needs, for published values, and for failed or missing runs."
)
NOTHING = "Nothing is known yet"
UNTOLD = "No significant difference"
SIDES = ("better", "worse", "higher", "lower")
PUBLISHED = (
    Verdict.REPRODUCED, Verdict.WITHIN_MARGIN, Verdict.CONSISTENT, Verdict.DIFFERS, Verdict.UNDECIDED, Verdict.INTERIM,
    Verdict.NOT_COMPARABLE, Verdict.NOT_RUN,
)  # fmt: skip
UNENDING = f"would take over {MOST_SEEDS:,} more seeds"
SPREAD = (Reason.NO_SPREAD, Reason.TOO_FEW_SEEDS)  # what one more seed may mend
FEW = 3  # seeds that may agree by chance: only then does the next one tell how they spread


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
    """Return the study's findings, the most telling first."""
    return records.once("findings", lambda: _found_in(records))


def _found_in(records: StudyRecords) -> list[Sentence]:
    unknown = "a smoke run tries the code, and its numbers mean nothing" if records.plan.smoke else "no run has finished"
    if records.plan.smoke or not any(run.done for run in records.rows):
        return [Sentence(NOTHING, unknown), *_missing(records, [])]
    answers = [_of(records, part) for part in records.parts]
    answers = answers if any(one.shown or one.open for one in answers) else [*answers, _best(records)]
    left = [sentence for one in answers for sentence in one.open][:1]
    last = [*left, *_published(records), *_missing(records, [one.waiting for one in answers if one.waiting])]
    shown = [sentence for one in answers for sentence in one.shown]
    words = [sentence.word for sentence in shown]
    turns = sorted(range(len(shown)), key=lambda at: words[:at].count(words[at]))  # of each word the first, then the second
    told = [*(shown[at] for at in sorted(turns[: MOST - len(last)])), *last]
    return told or [Sentence(UNTOLD, "the report has no two values to compare")]


def _of(records: StudyRecords, part: object) -> Said:
    if not isinstance(part, QuestionPart):
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
    shown = []
    for row in found.rows:
        if row.verdict in (Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.SMALLER):
            word = "contradicted" if row.verdict is Verdict.SMALLER else str(row.verdict)
            word += f" ({', '.join(row.marks)})" if row.marks else ""
            shown.append(Sentence(word.capitalize(), f"{row.label}: {estimate_words(row)}"))
    left = [row for row in found.rows if row.verdict is Verdict.UNDECIDED]
    waiting = sum(row.verdict in (Verdict.NOT_RUN, Verdict.INTERIM) for row in found.rows)
    asked = plural(len(found.rows), "claim")
    undecided = []
    if left:  # the one that is nearest to a verdict is named, the others are counted
        nearest = min(left, key=lambda row: row.answer.seeds_needed or inf)
        of = f"{len(left)} of {asked}, the nearest to a verdict being: " if len(left) > 1 else ""
        why = next((str(reason) for reason in nearest.answer.reasons if reason is not Reason.WIDE), "")
        needed = needed_words(nearest)
        lacks = f"; seeds needed: {needed}" if needed else f"; {why}" if why else ""
        undecided.append(Sentence("Undecided", f"{of}{nearest.label}: {estimate_words(nearest)}{lacks}"))
    return Said(shown, undecided, f"{waiting} of {asked}" if waiting else "")


def estimate_words(row: QuestionRow) -> str:
    """Return `exact accuracy 92.1 % vs 1.0 %, +91.03 points (98.33 % interval [+90.00, +92.07], n=3)`."""
    unit = f" {metric(row.metric).unit}".rstrip()
    sides = " vs ".join(number(row.metric, side) + unit for side in row.sides or ())
    against = f"{inline(row.metric)} {sides}, " if row.sides else ""
    interval = f"{interval_words(row)}, " if row.estimate.interval else ""
    claimed = f", where {row.margin} is claimed" if row.verdict in (Verdict.CONTRADICTED, Verdict.SMALLER) else ""
    return f"{against}{_size(row)} ({interval}n={row.estimate.n}){claimed}"


def _size(row: QuestionRow) -> str:
    return points(row.metric, signed(row.metric, row.estimate.value))


def _differences(rows: Sequence[QuestionRow]) -> Said:
    """Make a sentence for each base and verdict, in which the surest rows stand first."""
    shown, open = [], []
    for base in dict.fromkeys(row.group for row in rows):
        own = [row for row in rows if row.group == base]
        told = [row for row in own if row.verdict in (Verdict.HIGHER, Verdict.LOWER)]
        told.sort(key=lambda row: row.answer.adjusted or 0.0)
        for word in SIDES:
            if found := [row for row in told if verdict_words(row) == word]:
                shown.append(Sentence(f"{word.capitalize()} than {base}", _each(found)))
        if ties := [row for row in own if row.verdict is Verdict.NO_DIFFERENCE]:
            open.append(Sentence(f"{UNTOLD} from {base}", _each(ties) + _seeds(ties)))
    if alone := sum(Reason.NO_SPREAD in row.answer.reasons for row in rows):
        open.append(Sentence("Undecided", f"{plural(alone, 'difference')} of single runs, whose spread is unknown"))
    return Said(shown, open)


def _each(rows: Sequence[QuestionRow]) -> str:
    """Return `by exact accuracy, HRM -78.60 points (95 % interval [-91.81, -65.39], n=3), ...`."""
    said = [f"{row.label} {_size(row)} ({interval_words(row)}, n={row.estimate.n})" for row in rows]
    return f"by {inline(rows[0].metric)}, {some(said, ', ')}"


def _seeds(rows: Sequence[QuestionRow]) -> str:
    """Say what it would take to show differences of these sizes."""
    seeds = sorted(row.answer.seeds_needed for row in rows if row.answer.seeds_needed)
    if not seeds:
        return ""
    few, many = plural(seeds[0], "more seed"), f"{seeds[0]:,} to {plural(seeds[-1], 'more seed')}"
    return f"; about {few if seeds[0] == seeds[-1] else many} of each would show such a difference"


def _effects(found: Family, measured: str) -> Said:
    name, n = inline(measured), f"n={min((row.estimate.n for row in found.rows), default=0)}"
    told = [row for row in found.rows if row.verdict in (Verdict.HIGHER, Verdict.LOWER)]
    untold = [row.label for row in found.rows if row.verdict is Verdict.NO_DIFFERENCE]
    shown = [f"{row.label} {_size(row)} ({interval_words(row)})" for row in told]
    return Said(
        [Sentence("Effects shown", f"on {name}, {some(shown, ', ')} ({n})")] if shown else [],
        [Sentence("No effect shown", f"on {name}, of {some(untold, ', ')} ({n})")] if untold else [],
    )


# --------------------------------------------------------------------------------------------------------------- tables


def _best(records: StudyRecords) -> Said:
    """Say of a study that asks for no comparison who leads its first table that tells."""
    for part in (part for part in records.parts if isinstance(part, TablePart)):
        try:
            found = (_search if isinstance(part, Best) else _leaders)(cells(records, part))
        except Exception:  # said in its own section and in the log
            continue
        if found is not None:
            return Said([found])
    return Said()


def _leaders(table: TableData) -> Sentence | None:
    """Name the best by the first measured metric that any two values have, or say that none can be told; None without two."""
    every = [(row.label, column, one) for row in table.rows for column, one in zip(table.columns, row.cells, strict=False)]
    known = [(label, column, one) for label, column, one in every if one.value is not None and (one.best or one.tied)]
    ranked = {one.metric for _, _, one in known if not metric(one.metric).computed}
    name = next((one.metric for _, _, one in every if one.metric in ranked), None)  # in the order of the table
    if name is None:
        return None
    named = [(label if column == metric(name).heading else f"{label}, {column}", one) for label, column, one in known]
    own = [(label, one) for label, one in named if one.metric == name]
    best = [f"{label} {cell_text(one)}" for label, one in own if one.best]
    if best:
        return Sentence("Best", f"by {inline(name)}, {some(best, ', ')}, 95 % intervals over seeds")
    least, most = (end(one.n for _, one in own) for end in (min, max))
    n = f"n={most}" if least == most else f"n={least} to {most}"
    why = "one run of each, and no spread is known" if most < 2 else n
    return Sentence(UNTOLD, f"between variants by {inline(name)} ({why})")


def _search(table: TableData) -> Sentence | None:
    """Name the first of a search's best trials, by its fresh seeds where there are any."""
    known = [one for row in table.rows[:1] for one in row.cells if one.value is not None and not metric(one.metric).computed]
    if not known:
        return None
    first = known[0].metric
    last = [one for one in known if one.metric in (first, first.removeprefix("selection_"))][-1]  # that of fresh seeds
    return Sentence("Best trial", f"{table.rows[0].label}: {inline(last.metric)} {cell_text(last)}")


# ------------------------------------------------------------------------------------------------- published and missing


def _published(records: StudyRecords) -> list[Sentence]:
    """Count the verdicts on published values; parameters and FLOPs, which no training decides, on their own."""
    values = published_values(records)
    if not values:
        return []
    differing = [
        f"{value.label}, {inline(value.cell.metric)}: {value.placed.text} published, {cell_text(value.cell)} here"
        for value in values
        if value.answer.verdict is Verdict.DIFFERS
    ]
    least = min((value.placed.reasons for value in values if value.placed.reasons), key=len, default=())
    lacks = "".join(least[:1]) + (f", and {plural(len(least) - 1, 'more reason')}" if len(least) > 1 else "")
    why = {str(Verdict.DIFFERS): some(differing, ", "), str(Verdict.NOT_COMPARABLE): lacks}
    counts = {is_computed: Counter[str]() for is_computed in (False, True)}
    for value in values:
        counts[metric(value.cell.metric).computed][str(value.answer.verdict)] += 1
    words = [_counted(counts[False], PUBLISHED, "value", why)] if counts[False] else []
    words += [f"of parameters and FLOPs, {_counted(counts[True], PUBLISHED, 'value', {})}"] if counts[True] else []
    return [Sentence("Published", "; ".join(words))]


def _missing(records: StudyRecords, waiting: Sequence[str]) -> list[Sentence]:
    """Count the runs that give no number; those that a search stopped early are no loss."""
    runs = distinct(records.rows)
    counts = Counter(run.status for run in runs if run.status not in ("done", "stopped"))
    if not counts:
        return []
    why = {"failed": ", ".join(dict.fromkeys(run.error_class for run in runs if run.failed))}
    wait = f"; that leaves {' and '.join(waiting)} open" if waiting else ""
    return [Sentence("Missing", _counted(counts, STATUSES, "run", why, len(runs)) + wait)]


def _counted(counts: Counter[str], order: Sequence[str], what: str, why: Mapping[str, str], whole: int = 0) -> str:
    """Return `3 of 12 values reproduced, 9 not comparable (data digits, not cifar10)`."""
    of = f" of {plural(whole or counts.total(), what)}"
    kinds = [word for word in order if counts[word]]
    each = [f"{counts[word]:,}{of * (word == kinds[0])} {word}{f' ({why[word]})' if why.get(word) else ''}" for word in kinds]
    return ", ".join(each)


# ------------------------------------------------------------------------------------------------------- open questions


@dataclass(frozen=True)
class Wanted:
    """A question, how it stands, and what would settle it.

    Args:
        text: the sentence that is claimed, or the published value with its place.
        variants: whose runs answer it, by their place in the plan.
        verdict: as the page says it.
        decided: no more seeds are wanted.
        more: about how many more seeds of each of its variants settle it; 0 where it is decided, or while runs that are planned
            have not ended; None where seeds do not settle it.
        why: then, the reason.
    """

    text: str
    variants: tuple[int, ...]
    verdict: str
    decided: bool
    more: int | None
    why: str = ""


def wanted(records: StudyRecords) -> list[Wanted]:
    """Return every claim, then every comparable published value that stands in a table of cells, each once.

    Raises:
        ConfigError: a claim names what the study has not, or what cannot be compared.
    """
    asked = []
    for row in (row for part in records.parts if isinstance(part, Claims) for row in family(records, part).rows):
        more, why = _further(row.answer, row.left, min((len(term.values) for term in row.terms), default=0))
        variants = tuple(term.variant for term in row.terms)
        asked.append(Wanted(row.label, variants, verdict_words(row), row.verdict.decided, more, "; ".join(row.lost) or why))
    of_run = {row.id: row.variant for row in reversed(records.rows)}  # of runs under two labels, the first
    for part in (part for part in records.parts if isinstance(part, TablePart)):
        with suppress(ConfigError):  # a table that no run has given anything for so far
            for label, one in ((line.label, one) for line in cells(records, part).rows for one in line.cells):
                variants = tuple(sorted({of_run[run] for run in one.planned}))
                label = records.variants[variants[0]].label if len(variants) == 1 else label  # as in any other table
                for placed, answer in () if metric(one.metric).computed else one.answers:
                    if not placed.reasons:
                        name, (more, why) = placed.target.metric, _further(answer, one.left, one.n)
                        text = f"{label}: {inline(name)} {quantity(name, placed.value)}, {placed.target.cited}"
                        verdict = outcome_words(placed, answer)
                        asked.append(Wanted(text, variants, verdict, answer.verdict.decided, more, why))
    return list({(one.text, one.variants): one for one in asked}.values())


def _further(answer: Answer[int] | Answer[str], left: int, seeds: int) -> tuple[int | None, str]:
    """Return how many more seeds of each variant, or why no number of them decides it."""
    if answer.verdict.decided or left:
        return 0, ""
    if answer.seeds_needed is not None:
        return answer.seeds_needed, ""
    lacks = next((reason for reason in answer.reasons if reason in SPREAD), None)
    if lacks and seeds < FEW:
        return 1, ""
    if answer.verdict is Verdict.NOT_RUN:
        return None, "no run has a value"
    return None, next((str(reason) for reason in answer.reasons if reason is not Reason.WIDE), UNENDING)
