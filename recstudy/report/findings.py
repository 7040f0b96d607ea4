"""The findings of a study: two to five sentences made from the verdicts, intervals and counts of its report.

`HOW` describes their choice and order, and the page prints it. The first sentence stands in the index of
studies. A smoke run, or a study without a finished run, has no finding.

`open_questions` tells `--until decided` which claims and published values need more seeds.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from recstudy.evidence import Answer, Reason, Verdict
from recstudy.evidence.questions import FEWEST_OF_KINDS
from recstudy.records.runs import STATUSES, distinct
from recstudy.report.caveats import join_labels
from recstudy.report.cells import TableData
from recstudy.report.claims import Claims, Effects, QuestionPart
from recstudy.report.family import family, published_values
from recstudy.report.kinds import make_table
from recstudy.report.names import inline, metric, number, plural, points, quantity
from recstudy.report.parts import TablePart
from recstudy.report.questions import QuestionRow
from recstudy.report.study_records import StudyRecords
from recstudy.report.tables.question_table import interval_words, needed_words, signed, verdict_words
from recstudy.report.tables.render import cell_text, outcome_words
from recstudy.report.trials import Best

MAX_SENTENCES = 5
METHOD = (
    f"Findings: at most {MAX_SENTENCES} sentences, made from verdicts and intervals. First decided claims, then"
    " differences and effects with p below 0.05 (Holm); a study that asks for none of these names the best"
    " variant of its first table. Then one sentence each for what is undecided and the seeds that it needs,"
    " for published values, and for failed or missing runs."
)
NO_RESULT = "Nothing is known yet"
NO_DIFFERENCE = "No significant difference"
SIGNIFICANT = (Verdict.HIGHER, Verdict.LOWER)
SIDES = ("better", "worse", "higher", "lower")
PUBLISHED = (
    Verdict.AGREES, Verdict.DIFFERS, Verdict.UNDECIDED, Verdict.INTERIM, Verdict.NOT_COMPARABLE, Verdict.NOT_RUN,
)  # fmt: skip
UNLIKELY = "unlikely to be decided"
SPREAD = (Reason.NO_SPREAD, Reason.TOO_FEW_SEEDS, Reason.MAY_SPLIT)  # reasons that further seeds remove


class Sentence(NamedTuple):
    """A finding: its verdict in a word or two, and what it is of."""

    word: str
    said: str

    def __str__(self) -> str:
        return f"{self.word}: {self.said}."


class PartFindings(NamedTuple):
    """The findings of one part: decided questions, undecided questions, and how many of its claims wait for
    runs.
    """

    decided: Sequence[Sentence] = ()
    undecided: Sequence[Sentence] = ()
    waiting: str = ""


def findings(records: StudyRecords) -> list[Sentence]:
    """Return the study's findings, the most important first."""
    return records.compute_once("findings", lambda: _findings(records))


def _findings(records: StudyRecords) -> list[Sentence]:
    if records.plan.smoke:
        return [
            Sentence(NO_RESULT, "a smoke run tries the code, and its numbers mean nothing"),
            *_missing_runs(records),
        ]
    if not any(run.done for run in records.rows):
        return [Sentence(NO_RESULT, "no run has finished"), *_missing_runs(records)]
    parts = [_part_findings(records, part) for part in records.parts if isinstance(part, QuestionPart)]
    if not any(part.decided or part.undecided for part in parts):
        parts.append(_best_variant(records))
    undecided = [sentence for part in parts for sentence in part.undecided][:1]
    waiting = [part.waiting for part in parts if part.waiting]
    last = [*undecided, *_published(records), *_missing_runs(records, waiting)]
    decided = [sentence for part in parts for sentence in part.decided]
    sentences = [*_first_of_each_word(decided, MAX_SENTENCES - len(last)), *last]
    return sentences or [Sentence(NO_DIFFERENCE, "the report has no two values to compare")]


def _first_of_each_word(sentences: Sequence[Sentence], count: int) -> list[Sentence]:
    """Choose sentences: the first with each word (supported, contradicted), then the second. Their order
    stays.
    """
    words = [sentence.word for sentence in sentences]
    order = sorted(range(len(words)), key=lambda position: words[:position].count(words[position]))
    return [sentences[position] for position in sorted(order[:count])]


def _part_findings(records: StudyRecords, part: QuestionPart) -> PartFindings:
    try:
        questions = family(records, part)
    except Exception:  # its section and the log state the problem
        return PartFindings()
    if isinstance(part, Claims):
        return _claims(questions.rows)
    return (
        _effects(questions.rows, part.metric) if isinstance(part, Effects) else _differences(questions.rows)
    )


# ------------------------------------------------------------------------------------------------------------
# questions


def _claims(rows: Sequence[QuestionRow]) -> PartFindings:
    decided = []
    for row in rows:
        if row.verdict in (Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.SMALLER):
            marks = f" ({', '.join(row.marks)})" if row.marks else ""
            decided.append(
                Sentence(str(row.verdict).capitalize() + marks, f"{row.label}: {estimate_words(row)}")
            )
    claims = plural(len(rows), "claim")
    waiting = sum(row.verdict in (Verdict.NOT_RUN, Verdict.INTERIM) for row in rows)
    open_rows = [row for row in rows if row.verdict is Verdict.UNDECIDED]
    undecided = [_nearest_to_verdict(open_rows, claims)] if open_rows else []
    return PartFindings(decided, undecided, f"{waiting} of {claims}" if waiting else "")


def _nearest_to_verdict(rows: Sequence[QuestionRow], claims: str) -> Sentence:
    """Name the undecided claim that needs the fewest seeds, and count the others."""
    row = min(rows, key=lambda row: row.answer.seeds_needed[1] if row.answer.seeds_needed else inf)
    count = f"{len(rows)} of {claims}, the nearest to a verdict being: " if len(rows) > 1 else ""
    reason = next((str(reason) for reason in row.answer.reasons if reason is not Reason.WIDE), "")
    seeds = needed_words(row)
    lacks = f"seeds needed: {seeds}" if seeds else reason
    return Sentence("Undecided", f"{count}{row.label}: {estimate_words(row)}{f'; {lacks}' if lacks else ''}")


def estimate_words(row: QuestionRow) -> str:
    """Return `exact accuracy 92.1 % vs 1.0 %, +91.03 points (95 % CI [+90.00, +92.07], n=3)`."""
    unit = f" {metric(row.metric).unit}".rstrip()
    sides = " vs ".join(number(row.metric, side) + unit for side in row.sides or ())
    sides = f"{inline(row.metric)} {sides}, " if sides else ""
    claimed = (
        f", where {row.margin} is claimed" if row.verdict in (Verdict.CONTRADICTED, Verdict.SMALLER) else ""
    )
    return f"{sides}{_size(row)}{claimed}"


def _size(row: QuestionRow, count: bool = True) -> str:
    """Return `+91.03 points (95 % CI [+90.00, +92.07], n=3)`."""
    words = [interval_words(row) if row.estimate.interval else "", f"n={row.estimate.n}" if count else ""]
    size = points(row.metric, signed(row.metric, row.estimate.value))
    return f"{size} ({', '.join(filter(None, words))})"


def _differences(rows: Sequence[QuestionRow]) -> PartFindings:
    """Write a sentence for each base and verdict, with the rows of the smallest p first."""
    decided, undecided = [], []
    for base in dict.fromkeys(row.group for row in rows):
        of_base = [row for row in rows if row.group == base]
        for word in SIDES:
            significant = [
                row for row in of_base if row.verdict in SIGNIFICANT and verdict_words(row) == word
            ]
            significant.sort(key=lambda row: row.answer.adjusted or 0.0)
            if significant:
                decided.append(Sentence(f"{word.capitalize()} than {base}", _sizes(significant)))
        if ties := [row for row in of_base if row.verdict is Verdict.NO_DIFFERENCE]:
            undecided.append(Sentence(f"{NO_DIFFERENCE} from {base}", _sizes(ties) + _seeds_needed(ties)))
    if single := sum(Reason.NO_SPREAD in row.answer.reasons for row in rows):
        undecided.append(
            Sentence("Undecided", f"{plural(single, 'difference')} of single runs, whose variance is unknown")
        )
    return PartFindings(decided, undecided)


def _sizes(rows: Sequence[QuestionRow]) -> str:
    """Return `by exact accuracy, HRM -78.60 points (95 % CI [-91.81, -65.39], n=3), ...`."""
    return f"by {inline(rows[0].metric)}, {join_labels([f'{row.label} {_size(row)}' for row in rows], ', ')}"


def _seeds_needed(rows: Sequence[QuestionRow]) -> str:
    """State how many more seeds would show differences of these sizes."""
    seeds = sorted(number for row in rows for number in row.answer.seeds_needed or ())
    if not seeds:
        return ""
    first_number = "" if seeds[0] == seeds[-1] else f"{seeds[0]:,} to "
    return f"; about {first_number}{plural(seeds[-1], 'more seed')} of each would show such a difference"


def _effects(rows: Sequence[QuestionRow], name: str) -> PartFindings:
    count = f"n={min((row.estimate.n for row in rows), default=0)}"
    significant = [f"{row.label} {_size(row, count=False)}" for row in rows if row.verdict in SIGNIFICANT]
    insignificant = [row.label for row in rows if row.verdict is Verdict.NO_DIFFERENCE]
    decided = (
        [Sentence("Effects shown", f"on {inline(name)}, {join_labels(significant, ', ')} ({count})")]
        if significant
        else []
    )
    not_shown = (
        [Sentence("No effect shown", f"on {inline(name)}, of {join_labels(insignificant, ', ')} ({count})")]
        if insignificant
        else []
    )
    return PartFindings(decided, not_shown)


# --------------------------------------------------------------------------------------------------------------- tables


def _best_variant(records: StudyRecords) -> PartFindings:
    """Name the best variant of the first table that ranks variants, for a study without questions."""
    for part in (part for part in records.parts if isinstance(part, TablePart)):
        try:
            sentence = (_best_trial if isinstance(part, Best) else _leaders)(make_table(records, part))
        except Exception:  # its section and the log state the problem
            continue
        if sentence is not None:
            return PartFindings([sentence])
    return PartFindings()


def _leaders(table: TableData) -> Sentence | None:
    """Name the best variants by the first measured metric by which variants are ranked; None if there is
    none.
    """
    entries = [
        (row.label, column, cell)
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=False)
    ]
    ranked = [
        (label, column, cell)
        for label, column, cell in entries
        if cell.value is not None and (cell.best or cell.tied)
    ]
    metrics = {cell.metric for _, _, cell in ranked if not metric(cell.metric).computed}
    # in the order of the table
    name = next((cell.metric for _, _, cell in entries if cell.metric in metrics), None)
    if name is None:
        return None
    of_metric = [
        (label if column == metric(name).heading else f"{label}, {column}", cell)
        for label, column, cell in ranked
        if cell.metric == name
    ]
    best = [f"{label} {cell_text(cell)}" for label, cell in of_metric if cell.best]
    if best:
        return Sentence("Best", f"by {inline(name)}, {join_labels(best, ', ')}, 95 % intervals over seeds")
    counts = sorted({cell.n for _, cell in of_metric})
    seeds = " to ".join(map(str, dict.fromkeys([counts[0], counts[-1]])))
    why = "one run of each, so their variance is unknown" if counts[-1] < 2 else f"n={seeds}"
    return Sentence(NO_DIFFERENCE, f"between variants by {inline(name)} ({why})")


def _best_trial(table: TableData) -> Sentence | None:
    """Name the first of a search's best trials, by its fresh seeds if it has any."""
    entries = table.rows[0].cells if table.rows else ()
    measured = [cell for cell in entries if cell.value is not None and not metric(cell.metric).computed]
    if not measured:
        return None
    objective = measured[0].metric
    confirmed = [
        cell for cell in measured if cell.metric in (objective, objective.removeprefix("selection_"))
    ][-1]
    return Sentence("Best trial", f"{table.rows[0].label}: {inline(confirmed.metric)} {cell_text(confirmed)}")


# ------------------------------------------------------------------------------------------------- published
# and missing


def _published(records: StudyRecords) -> list[Sentence]:
    """Count the verdicts on published values; parameters and FLOPs, which no training decides, on their
    own.
    """
    values = published_values(records)
    if not values:
        return []
    differing = [
        f"{value.label}, {inline(value.cell.metric)}: {value.placed.text} published, {cell_text(value.cell)}"
        " here"
        for value in values
        if value.answer.verdict is Verdict.DIFFERS
    ]
    fewest_reasons = min(
        (value.placed.reasons for value in values if value.placed.reasons), key=len, default=()
    )
    lacks = "".join(fewest_reasons[:1]) + (
        f", and {plural(len(fewest_reasons) - 1, 'more reason')}" if len(fewest_reasons) > 1 else ""
    )
    why = {str(Verdict.DIFFERS): join_labels(differing, ", "), str(Verdict.NOT_COMPARABLE): lacks}
    counts = {is_computed: Counter[str]() for is_computed in (False, True)}
    for value in values:
        counts[metric(value.cell.metric).computed][str(value.answer.verdict)] += 1
    words = [_counted(counts[False], PUBLISHED, "value", why)] if counts[False] else []
    words += (
        [f"of parameters and FLOPs, {_counted(counts[True], PUBLISHED, 'value', {})}"] if counts[True] else []
    )
    return [Sentence("Published", "; ".join(words))]


def _missing_runs(records: StudyRecords, waiting: Sequence[str] = ()) -> list[Sentence]:
    """Count the runs that give no number; those that a search stopped early are no loss."""
    runs = distinct(records.rows)
    counts = Counter(run.status for run in runs if run.status not in ("done", "stopped"))
    if not counts:
        return []
    why = {"failed": ", ".join(dict.fromkeys(run.error_class for run in runs if run.failed))}
    wait = f"; that leaves {' and '.join(waiting)} open" if waiting else ""
    return [Sentence("Missing", _counted(counts, STATUSES, "run", why, len(runs)) + wait)]


def _counted(
    counts: Counter[str], order: Sequence[str], noun: str, why: Mapping[str, str], total: int = 0
) -> str:
    """Return `3 of 12 values agree, 9 not comparable (data digits, not cifar10)`."""
    of = f" of {plural(total or counts.total(), noun)}"
    kinds = [word for word in order if counts[word]]
    phrases = []
    for word in kinds:
        verb = word.removesuffix("s") if counts[word] > 1 else word  # agrees, differs
        reason = f" ({why[word]})" if why.get(word) else ""
        phrases.append(f"{counts[word]:,}{of * (word == kinds[0])} {verb}{reason}")
    return ", ".join(phrases)


# ------------------------------------------------------------------------------------------------------- open
# questions


@dataclass(frozen=True)
class OpenQuestion:
    """A claim or a published value, its verdict, and what would decide it.

    Args:
        text: The claim, or the published value with its source.
        variants: The positions of the variants whose runs answer it.
        verdict: The verdict, as the page prints it.
        is_decided: Whether the verdict is final.
        waits: Whether planned runs have not ended.
        more: About how many more seeds of each variant decide it; None if no number is known.
        chance: The chance of a decision at the maximum if the true effect is the estimate plus one standard
            error; 1 if the variance is not known yet.
        why: The reason that seeds do not decide it.
    """

    text: str
    variants: tuple[int, ...]
    verdict: str
    is_decided: bool
    waits: bool = False
    more: int | None = None
    chance: float = 0.0
    why: str = ""


def open_questions(records: StudyRecords) -> list[OpenQuestion]:
    """Return every claim, then every comparable published value of the report, each once.

    Raises:
        ConfigError: A claim names a variant or metric that the study does not have, or compares incomparable
            variants.
    """
    questions = []
    for row in (
        row for part in records.parts if isinstance(part, Claims) for row in family(records, part).rows
    ):
        seeds = min((len(term.values) for term in row.terms), default=0)
        lost_runs = "; ".join(row.lost)
        questions.append(
            _open_question(
                row.label, row.variants, verdict_words(row), row.answer, row.left, seeds, lost_runs
            )
        )
    for value in published_values(records):
        if not value.placed.reasons and not metric(value.cell.metric).computed:
            name, cell = value.placed.target.metric, value.cell
            text = (
                f"{value.label}: {inline(name)} {quantity(name, value.placed.value)},"
                f" {value.placed.target.cited}"
            )
            verdict = outcome_words(value.placed, value.answer)
            questions.append(_open_question(text, cell.variants, verdict, value.answer, cell.left, cell.n))
    return list({(question.text, question.variants): question for question in questions}.values())


def _open_question(
    text: str,
    variants: tuple[int, ...],
    verdict: str,
    answer: Answer[Any],
    left: int,
    seeds: int,
    lost_runs: str = "",
) -> OpenQuestion:
    """Return a question with what would decide it: of runs that are left, their end."""
    question = OpenQuestion(text, variants, verdict, answer.verdict.is_decided, left > 0)
    if question.is_decided or question.waits:
        return question
    if answer.p is not None:
        seeds_needed = answer.seeds_needed and answer.seeds_needed[1]
        return replace(question, more=seeds_needed, chance=answer.chance, why=lost_runs or UNLIKELY)
    if seeds < FEWEST_OF_KINDS and any(reason in SPREAD for reason in answer.reasons) and not lost_runs:
        return replace(question, chance=1.0)
    reason = next(
        (str(reason) for reason in answer.reasons if reason is not Reason.WIDE), "no run has a value"
    )
    return replace(question, why=lost_runs or reason)
