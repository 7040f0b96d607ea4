"""The findings of a study: two to five sentences made from the verdicts, intervals and counts of its report.

`METHOD` states how they are chosen and ordered, and the page prints it. The first sentence is also shown in
the index of studies. A smoke run, or a study without a finished run, has no findings.

`open_questions` lists the claims and published values that need more seeds, for `--until decided`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple

from recstudy.evidence import Answer, Reason, Verdict
from recstudy.evidence.questions import MIN_SEEDS_IF_SPLIT
from recstudy.records.runs import STATUSES, distinct
from recstudy.report.caveats import interim_words
from recstudy.report.cells import TableData
from recstudy.report.claims import Claims, Effects, QuestionPart
from recstudy.report.family import family, published_values
from recstudy.report.kinds import make_table
from recstudy.report.names import (
    DASH,
    difference_form,
    formatted,
    inline,
    join_labels,
    metric,
    number,
    plural,
    points,
    quantity,
)
from recstudy.report.parts import TablePart
from recstudy.report.question_rows import QuestionRow
from recstudy.report.study_records import StudyRecords
from recstudy.report.tables.question_table import adjusted_words, needed_words, verdict_words
from recstudy.report.tables.render import cell_text, leaders, outcome_words
from recstudy.report.trials import Best, trial_words

MAX_SENTENCES = 5
METHOD = (
    f"Findings: at most {MAX_SENTENCES} sentences, generated from verdicts and intervals. Decided claims come"
    " first, then differences and effects with p below 0.05 (Holm). A study without such questions names the"
    " best variant of its first table. The last sentences are on undecided questions with the seeds that they"
    " need, published values, and failed or missing runs."
)
NO_RESULT = "No result yet"
NO_DIFFERENCE = "No significant difference"
SOURCES = ("in the search", "over fresh seeds")  # of a trial's score
SIGNIFICANT = (Verdict.HIGHER, Verdict.LOWER)
SIDES = ("better", "worse", "higher", "lower")
AGAINST = (Verdict.CONTRADICTED, Verdict.SMALLER)  # verdicts that need the claimed margin to be understood
PUBLISHED = (  # the order in which verdicts on published values are counted
    Verdict.AGREES, Verdict.DIFFERS, Verdict.UNDECIDED, Verdict.INTERIM, Verdict.NOT_COMPARABLE,
    Verdict.NOT_RUN,
)  # fmt: skip
UNLIKELY = "unlikely to be decided"
# reasons that more seeds remove
NEED_SEEDS = (Reason.NO_SPREAD, Reason.TOO_FEW_SEEDS, Reason.MAY_SPLIT, Reason.ONE_AT_BOUND)
UNKNOWN_SPREAD = {Reason.NO_SPREAD: " between single runs, whose variance is unknown"}
UNKNOWN_SPREAD |= {key: f": {key}" for key in (Reason.EQUAL_SEEDS, Reason.ONE_AT_BOUND, Reason.TOO_LARGE)}


class Sentence(NamedTuple):
    """A finding: a verdict such as `Supported`, and the text that it applies to."""

    verdict: str
    text: str

    def __str__(self) -> str:
        return f"{self.verdict}: {self.text}."


class PartFindings(NamedTuple):
    """The findings of one part of the report.

    `waiting` counts its claims that have unfinished runs, such as `2 of 5 claims`.
    """

    decided: Sequence[Sentence] = ()
    undecided: Sequence[Sentence] = ()
    waiting: str = ""


def findings(records: StudyRecords) -> list[Sentence]:
    """Return the study's findings, the most important first, marked while runs are left."""
    sentences = records.compute_once("findings", lambda: _findings(records))
    if interim := interim_words(records):
        return [Sentence(f"{verdict} ({interim})", text) for verdict, text in sentences]
    return sentences


def _findings(records: StudyRecords) -> list[Sentence]:
    if records.plan.smoke:
        smoke = Sentence(NO_RESULT, "a smoke run only tests the code, and its numbers mean nothing")
        return [smoke, *_missing_runs(records)]
    if not any(run.done for run in records.rows):
        return [Sentence(NO_RESULT, "no run has finished"), *_missing_runs(records)]
    parts = [_part_findings(records, part) for part in records.parts if isinstance(part, QuestionPart)]
    if not any(part.decided or part.undecided for part in parts):
        parts.append(_best_variant(records))
    decided = [sentence for part in parts for sentence in part.decided]
    undecided = [sentence for part in parts for sentence in part.undecided]
    waiting = [part.waiting for part in parts if part.waiting]
    last = [*undecided[:1], *_published(records), *_missing_runs(records, waiting)]
    sentences = [*_select(decided, MAX_SENTENCES - len(last)), *last]
    return sentences or [Sentence(NO_DIFFERENCE, "no table of this report compares variants")]


def _select(sentences: Sequence[Sentence], count: int) -> list[Sentence]:
    """Select `count` sentences in their order: the first of each verdict, then the second of each."""
    verdicts = [sentence.verdict for sentence in sentences]
    order = sorted(range(len(verdicts)), key=lambda index: verdicts[:index].count(verdicts[index]))
    return [sentences[index] for index in sorted(order[:count])]


def _part_findings(records: StudyRecords, part: QuestionPart) -> PartFindings:
    try:
        rows = family(records, part).rows
    except Exception:  # the part's own section and the log state the problem
        return PartFindings()
    if isinstance(part, Claims):
        return _claims(rows)
    return _effects(rows, part.metric) if isinstance(part, Effects) else _differences(rows)


# --- questions


def _claims(rows: Sequence[QuestionRow]) -> PartFindings:
    decided = []
    for row in rows:
        if row.verdict in (Verdict.SUPPORTED, *AGAINST):
            marks = f" ({', '.join(row.marks)})" if row.marks else ""
            decided.append(Sentence(str(row.verdict).capitalize() + marks, claim_text(row)))
    claims = plural(len(rows), "claim")
    waiting = sum(row.verdict in (Verdict.NOT_RUN, Verdict.INTERIM) for row in rows)
    open_rows = [row for row in rows if row.verdict is Verdict.UNDECIDED]
    undecided = [_closest_claim(open_rows, claims)] if open_rows else []
    return PartFindings(decided, undecided, f"{waiting} of {claims}" if waiting else "")


def _closest_claim(rows: Sequence[QuestionRow], claims: str) -> Sentence:
    """Name the undecided claim that needs the fewest seeds, and count the others."""
    row = min(rows, key=lambda row: row.answer.seeds_needed[1] if row.answer.seeds_needed else inf)
    count = f"{len(rows)} of {claims}; the closest to a verdict: " if len(rows) > 1 else ""
    seeds = needed_words(row)
    reason = verdict_words(replace(row, marks=())).removeprefix("undecided: ")
    remedy = f"seeds needed: {seeds}" if seeds and not row.lost_runs else reason
    return Sentence("Undecided", count + "; ".join(filter(None, [claim_text(row), remedy])))


def claim_text(row: QuestionRow) -> str:
    """Return a claim's own text with the values of both sides and their difference.

    An example is `One step is not enough: exact accuracy 99.9 % with 3 steps against 85.0 % with 1 step
    (difference 14.91 points, 95 % CI 11.60 to 18.30, n=3)`. If a side is a difference itself, the values are
    left out.
    """
    if row.estimate.value is None:
        return row.label
    values = _side_values(row)
    count = f"n={row.estimate.n}"
    if len(row.terms) == 1 and len(row.terms[0].direction) == 1:  # the claim is about one value
        result = f"{inline(row.metric)} {_estimate(row, metric(row.metric).unit)}, {count}"
    else:
        difference = f"difference {_estimate(row, _difference_unit(row))}, {count}"
        result = f"{' against '.join(values)} ({difference})" if values else difference
    claimed = f"; claimed: {row.margin}" if row.verdict in AGAINST else ""
    return f"{row.label}: {result}{claimed}"


def _side_values(row: QuestionRow) -> list[str]:
    """Return `exact accuracy 99.9 % with 3 steps` and `85.0 % with 1 step`; empty without two values."""
    if row.sides is None or len(row.side_words) < 2:
        return []
    unit = f" {metric(row.metric).unit}".rstrip()
    values, previous = [], ""
    for value, (name, settings) in zip(row.sides, row.side_words, strict=True):
        title = "" if name == previous else f"{inline(name)} "
        start = "" if not settings or settings.startswith(("with ", "without ")) else "with "
        values.append(f"{title}{number(row.metric, value)}{unit} {start}{settings}".rstrip())
        previous = name
    return values


def _difference_unit(row: QuestionRow) -> str:
    return points(row.metric, "").strip()


def _estimate(row: QuestionRow, unit: str, is_signed: bool = False) -> str:
    """Return `14.91 points, 95 % CI 11.60 to 18.30`; with `is_signed` also positive numbers have a sign."""
    form = difference_form(row.metric)
    form = form if is_signed else form.removeprefix("+")
    value = DASH if row.estimate.value is None else formatted(row.estimate.value, form)
    size = f"{value} {unit}".strip()
    if not row.interval:
        return size
    low, high = (formatted(end, form) for end in row.interval)
    return "; ".join(filter(None, [f"{size}, 95 % CI {low} to {high}", adjusted_words(row)]))


def _differences(rows: Sequence[QuestionRow]) -> PartFindings:
    """Write a sentence for each base and verdict, the rows with the smallest p first."""
    decided, undecided = [], []
    for base in dict.fromkeys(row.group for row in rows):
        base_rows = [row for row in rows if row.group == base]
        for side in SIDES:
            directions = {None: "", True: "better", False: "worse"}
            significant = [row for row in base_rows if (directions[row.better] or row.verdict) == side]
            significant.sort(key=lambda row: row.answer.adjusted or 0.0)
            if significant:
                decided.append(Sentence(f"{side.capitalize()} than {base}", _sizes(significant)))
        if ties := [row for row in base_rows if row.verdict is Verdict.NO_DIFFERENCE]:
            undecided.append(Sentence(f"{NO_DIFFERENCE} from {base}", _sizes(ties) + _seeds_needed(ties)))
    for reason, words in UNKNOWN_SPREAD.items():
        if count := sum(reason in row.answer.reasons for row in rows):
            undecided.append(Sentence("Undecided", f"{plural(count, 'difference')}{words}"))
    return PartFindings(decided, undecided)


def _sizes(rows: Sequence[QuestionRow]) -> str:
    """Return `exact accuracy of HRM -78.60 points (95 % CI -91.81 to -65.39, n=3), ...`."""
    sizes = []
    for row in rows:
        size, _, interval = _estimate(row, _difference_unit(row), is_signed=True).partition(", ")
        details = ", ".join(filter(None, [interval, f"n={row.estimate.n}"]))
        sizes.append(f"{row.label} {size} ({details})")
    return f"{inline(rows[0].metric)} of {join_labels(sizes, ', ')}"


def _seeds_needed(rows: Sequence[QuestionRow]) -> str:
    """State how many more seeds would show differences of these sizes."""
    seeds = sorted(number for row in rows for number in row.answer.seeds_needed or ())
    if not seeds:
        return ""
    fewest = "" if seeds[0] == seeds[-1] else f"{seeds[0]:,} to "
    return f"; differences of this size need about {fewest}{plural(seeds[-1], 'more seed')} per variant"


def _effects(rows: Sequence[QuestionRow], name: str) -> PartFindings:
    count = f"n={min((row.estimate.n for row in rows), default=0)}"
    significant = []
    for row in rows:
        if row.verdict in SIGNIFICANT:
            size, _, interval = _estimate(row, _difference_unit(row), is_signed=True).partition(", ")
            significant.append(f"{row.label} {size} ({interval})")
    insignificant = [row.label for row in rows if row.verdict is Verdict.NO_DIFFERENCE]
    decided, undecided = [], []
    if significant:
        text = f"on {inline(name)}, {join_labels(significant, ', ')} ({count})"
        decided.append(Sentence("Significant effects", text))
    if insignificant:
        text = f"on {inline(name)}, of {join_labels(insignificant, ', ')} ({count})"
        undecided.append(Sentence("No significant effect", text))
    return PartFindings(decided, undecided)


# --- tables


def _best_variant(records: StudyRecords) -> PartFindings:
    """Name the best variant of the first table that ranks variants, for a study without questions."""
    for part in (part for part in records.parts if isinstance(part, TablePart)):
        find = _best_trial if isinstance(part, Best) else _leaders
        try:
            sentence = find(make_table(records, part))
        except Exception:  # the part's own section and the log state the problem
            continue
        if sentence is not None:
            return PartFindings([sentence])
    return PartFindings()


def _leaders(table: TableData) -> Sentence | None:
    """Name the best variants by the table's first measured metric that ranks variants; None without one."""
    cells, is_single = leaders(table)
    if not cells:
        return None
    name = inline(cells[0][1].metric)
    best = [f"{label} {cell_text(cell)}" for label, cell in cells if cell.best]
    if best:
        tie = " tie without a significant difference" * (is_single and len(best) > 1)
        return Sentence("Best", f"by {name}, {join_labels(best, ', ')}{tie}, 95 % CIs over seeds")
    counts = sorted({cell.n for _, cell in cells})
    seeds = " to ".join(map(str, dict.fromkeys([counts[0], counts[-1]])))
    reason = f"n={seeds}" if counts[-1] > 1 else "one run of each, so the variance is unknown"
    return Sentence(NO_DIFFERENCE, f"between variants by {name} ({reason})")


def _best_trial(table: TableData) -> Sentence | None:
    """Name the best trial by its score in the search, and the best one by its score over fresh seeds."""
    search = next((cell.records.plan.search for cell in table.cells), None)
    if search is None:
        return None
    objective, direction = next(iter(search.objectives.items()))
    names = (objective, objective.removeprefix("selection_"))
    columns = zip(*(row.cells for row in table.rows), strict=True)
    scores = [cells for cells in columns if cells[0].metric in names]  # the test score is in the last column
    texts = []
    for source, cells in zip(SOURCES, [scores[0], *scores[1:][-1:]], strict=False):
        pairs = zip(table.rows, cells, strict=True)
        trials = [(cell.value, row.label, cell_text(cell)) for row, cell in pairs if cell.value is not None]
        trials.sort(key=itemgetter(0), reverse=direction == "max")
        if trials:
            values, labels, (text, *_) = zip(*trials, strict=True)
            name = cells[0].metric
            words = trial_words(name, (label.partition(":")[0] for label in labels), values)
            settings = f" ({labels[0].partition(': ')[2]})"
            if words.endswith("tie"):
                settings, text = "", number(name, values[0])
            texts.append(f"{source} by {inline(name)}: {words}{settings} with {text}")
    return Sentence("Best trial", "; ".join(texts))


# --- published and missing


def _published(records: StudyRecords) -> list[Sentence]:
    """Count the verdicts on published values. Parameters and FLOPs, which need no training, are separate."""
    values = published_values(records)
    if not values:
        return []
    differing = []
    for value in values:
        if value.answer.verdict is Verdict.DIFFERS:
            title = f"{value.label}, {inline(value.cell.metric)}"
            differing.append(f"{title}: {value.match.text} published, {cell_text(value.cell)} measured")
    reasons = [value.match.reasons for value in values if value.match.reasons]
    fewest_reasons = min(reasons, key=len, default=())
    why_not_comparable = "".join(fewest_reasons[:1])
    if len(fewest_reasons) > 1:
        why_not_comparable += f", and {plural(len(fewest_reasons) - 1, 'more reason')}"
    details = {
        str(Verdict.DIFFERS): join_labels(differing, ", "),
        str(Verdict.NOT_COMPARABLE): why_not_comparable,
    }
    measured, computed = Counter[str](), Counter[str]()
    for value in values:
        counts = computed if metric(value.cell.metric).computed else measured
        counts[str(value.answer.verdict)] += 1
    texts = [_count_words(measured, PUBLISHED, "value", details)] if measured else []
    if computed:
        texts.append(f"of parameters and FLOPs, {_count_words(computed, PUBLISHED, 'value', {})}")
    return [Sentence("Published", "; ".join(texts))]


def _missing_runs(records: StudyRecords, waiting: Sequence[str] = ()) -> list[Sentence]:
    """Count the runs without a result. A search stops trials early on purpose, so these do not count."""
    runs = distinct(records.rows)
    counts = Counter(run.status for run in runs if run.status not in ("done", "stopped"))
    if not counts:
        return []
    details = {"failed": ", ".join(dict.fromkeys(run.error_class for run in runs if run.failed))}
    consequence = f"; that leaves {' and '.join(waiting)} open" if waiting else ""
    return [Sentence("Missing", _count_words(counts, STATUSES, "run", details, len(runs)) + consequence)]


def _count_words(
    counts: Counter[str], order: Sequence[str], noun: str, details: Mapping[str, str], total: int = 0
) -> str:
    """Return `3 of 12 values agree, 9 not comparable (data digits, not cifar10)`."""
    total_words = f" of {plural(total or counts.total(), noun)}"
    phrases: list[str] = []
    for word in (word for word in order if counts[word]):
        verb = word.removesuffix("s") if counts[word] > 1 else word  # agrees, differs
        detail = f" ({details[word]})" if details.get(word) else ""
        phrases.append(f"{counts[word]:,}{'' if phrases else total_words} {verb}{detail}")
    return ", ".join(phrases)


# --- open questions


@dataclass(frozen=True)
class OpenQuestion:
    """A claim or a published value with its verdict, for the decision to add seeds.

    Args:
        text: The claim, or the published value with its source.
        variants: The positions of the variants whose runs answer it.
        verdict: The verdict, as the page prints it.
        is_decided: Whether the verdict is final.
        waits: Whether planned runs are unfinished.
        more_seeds: About how many more seeds of each variant decide it; None if no number is known.
        chance: The chance of a decision at the maximum number of seeds if the true effect is the estimate
            plus one standard error; 1 if the variance is unknown.
        why: The reason why more seeds do not decide it.
    """

    text: str
    variants: tuple[int, ...]
    verdict: str
    is_decided: bool
    waits: bool = False
    more_seeds: int | None = None
    chance: float = 0.0
    why: str = ""


def open_questions(records: StudyRecords) -> list[OpenQuestion]:
    """Return every claim, then every comparable published value of the report, each once.

    Raises:
        ConfigError: A claim names a variant or metric that the study does not have, or compares incomparable
            variants.
    """
    questions = []
    for part in (part for part in records.parts if isinstance(part, Claims)):
        for row in family(records, part).rows:
            seeds = min((len(term.values) for term in row.terms), default=0)
            question = OpenQuestion(
                row.label, row.variants, verdict_words(row), row.verdict.is_decided, row.left > 0
            )
            questions.append(_with_remedy(question, row.answer, seeds, "; ".join(row.loss_reasons)))
    for value in published_values(records):
        target, cell = value.match.target, value.cell
        if value.match.reasons or metric(cell.metric).computed:
            continue
        published = f"{inline(target.metric)} {quantity(target.metric, value.match.value)}"
        question = OpenQuestion(
            f"{value.label}: {published}, {target.cited}",
            cell.variants,
            outcome_words(value.match, value.answer),
            value.answer.verdict.is_decided,
            cell.left > 0,
        )
        questions.append(_with_remedy(question, value.answer, cell.n))
    return list({(question.text, question.variants): question for question in questions}.values())


def _with_remedy(
    question: OpenQuestion, answer: Answer[Any], seeds: int, lost_runs: str = ""
) -> OpenQuestion:
    """Add the number of seeds that decides an open question, or the reason why seeds do not."""
    if question.is_decided or question.waits:
        return question
    if answer.p is not None:
        more_seeds = answer.seeds_needed[1] if answer.seeds_needed else None
        return replace(question, more_seeds=more_seeds, chance=answer.chance, why=lost_runs or UNLIKELY)
    # with fewer seeds no variance is known, or all may be of one kind
    may_need_seeds = seeds < MIN_SEEDS_IF_SPLIT and any(reason in NEED_SEEDS for reason in answer.reasons)
    if may_need_seeds and not lost_runs:
        return replace(question, chance=1.0)
    reasons = [str(reason) for reason in answer.reasons if reason is not Reason.WIDE]
    return replace(question, why=lost_runs or (reasons[0] if reasons else "no run has a value"))
