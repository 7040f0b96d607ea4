"""The findings of a study: two to five sentences made from the verdicts, intervals and counts of its report.

`METHOD` states how they are chosen and ordered, and the page prints it. The first sentence is also shown in
the index of studies. A smoke run, or a study without a finished run, has no findings.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from operator import itemgetter
from typing import NamedTuple

from recstudy.evidence import ALPHA, MAX_SEEDS, Kind, Reason, Verdict
from recstudy.records.runs import STATUSES, distinct
from recstudy.report.caveats import interim_words
from recstudy.report.cell_text import cell_text
from recstudy.report.cells import UNTESTED
from recstudy.report.claims import Claims
from recstudy.report.family import published_values, study_family
from recstudy.report.kinds import make_table
from recstudy.report.margins import DIFFERS
from recstudy.report.names import (
    DASH,
    at_alpha,
    formatted,
    inline,
    join_labels,
    join_texts,
    metric,
    number,
    plural,
)
from recstudy.report.parts import TablePart, parts_of
from recstudy.report.question_rows import QuestionRow
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import TableData
from recstudy.report.tables.question_table import adjusted_words, needed_words, verdict_words
from recstudy.report.tables.render import leaders
from recstudy.report.trials import Best, trial_words

MAX_SENTENCES = 5
METHOD = (
    f"Findings: at most {MAX_SENTENCES} sentences, generated from verdicts and intervals. Decided claims come"
    " first, then differences and effects with p below {:g} (Holm). A study without such questions names the"
    " best variant of its first table. The last sentences are on undecided questions with the seeds that they"
    " need, published values, and failed or missing runs."
)
NO_RESULT = "No result yet"
NO_DIFFERENCE, NO_VERDICT = "No significant difference", "No verdict"
SOURCES = ("in the search", "over fresh seeds")  # of a trial's score
AGAINST = (Verdict.CONTRADICTED, Verdict.SMALLER)  # verdicts that need the claimed margin to be understood
PUBLISHED = (  # the order in which verdicts on published values are counted
    Verdict.AGREES, Verdict.DIFFERS, Verdict.UNDECIDED, Verdict.INTERIM, Verdict.NOT_COMPARABLE,
    Verdict.NOT_RUN,
)  # fmt: skip
TIES = 3  # best variants that a sentence names, else it names the first
UNKNOWN_SPREAD = {Reason.NO_SPREAD: ", whose variance over seeds is unknown"}
WITHOUT_TEST = (
    Reason.RUNS_LOST, Reason.SPLIT, Reason.MAY_SPLIT, Reason.ONE_SEED, Reason.CEILING, Reason.EQUAL_SEEDS,
    Reason.ONE_AT_BOUND, Reason.TOO_LARGE,
)  # fmt: skip
UNKNOWN_SPREAD |= {reason: f": {reason}" for reason in WITHOUT_TEST}
SIGNIFICANT, TIED = "significant", "tied"


SIDES = ("better", "worse", "higher", "lower")
# of a sentence on all questions with the same outcome: outcome -> verdict and text
TEMPLATES = {
    Kind.DIFFERENCE: {
        **{side: (f"{side.capitalize()} than {{base}}", "{metric} of {sizes}") for side in SIDES},
        TIED: (f"{NO_DIFFERENCE} from {{base}}", "{metric} of {sizes}{needed}"),
    },
    Kind.EFFECT: {
        SIGNIFICANT: ("Significant effects", "on {metric}, {sizes} (n={n})"),
        TIED: ("No significant effect", "on {metric}, of {labels} (n={n})"),
    },
}


class Sentence(NamedTuple):
    """A finding: a verdict such as `Supported`, and the text that it applies to.

    Args:
        verdict: The verdict.
        text: The whole text.
        short: The text in one line, with the difference and its interval; empty if the whole text is short.
    """

    verdict: str
    text: str
    short: str = ""

    def __str__(self) -> str:
        return f"{self.verdict}: {self.text}{self.end_mark}"

    @property
    def end_mark(self) -> str:
        """A period, or nothing after a question."""
        return "" if self.text.endswith("?") else "."


def findings(records: StudyRecords) -> list[Sentence]:
    """Return the study's findings, the most important first, marked while runs are left."""
    sentences = records.compute_once("findings", lambda: _findings(records))
    if interim := interim_words(records):
        return [sentence._replace(verdict=f"{sentence.verdict} ({interim})") for sentence in sentences]
    return sentences


def _findings(records: StudyRecords) -> list[Sentence]:
    if records.plan.smoke:
        smoke = Sentence(NO_RESULT, "a smoke run only tests the code, and its numbers mean nothing")
        return [smoke, *_missing_runs(records)]
    if not any(run.done for run in records.rows):
        return [Sentence(NO_RESULT, "no run has finished"), *_missing_runs(records)]
    decided: list[Sentence] = []
    undecided: list[Sentence] = []
    waiting: list[str] = []
    # A part that cannot be asked is left out: its own section and the log state the problem.
    for questions in study_family(records).parts.values():
        rows = questions.rows
        if rows and rows[0].kind is Kind.CLAIM:
            decided += [_claim_sentence(row) for row in rows if row.verdict in (Verdict.SUPPORTED, *AGAINST)]
            undecided += _closest_claim(rows)
            if count := sum(row.verdict in (Verdict.NOT_RUN, Verdict.INTERIM) for row in rows):
                waiting.append(f"{count} of {plural(len(rows), 'claim')}")
        else:
            for is_tied, sentence in _grouped(rows):
                (undecided if is_tied else decided).append(sentence)
    # a table of finished runs without claims also asks which variant is the best
    is_ranked = records.plan.imported and not isinstance(parts_of(records)[0], Claims)
    if (is_ranked and not any(records.blocks)) or not (decided or undecided):
        has_answer = bool(decided or undecided)
        best = _best_variant(records)
        decided[1:1] = [
            sentence
            for sentence in best
            if sentence.verdict not in (NO_DIFFERENCE, NO_VERDICT) or not has_answer
        ]
    last = [*undecided[:1], *_published(records), *_missing_runs(records, waiting)]
    sentences = [*_select(decided, MAX_SENTENCES - len(last)), *last]
    several = len(records.variants) > 1
    text = "no difference between variants was tested" if several else "the study has one variant"
    return sentences or [Sentence(NO_VERDICT, text)]


def _select(sentences: Sequence[Sentence], count: int) -> list[Sentence]:
    """Select `count` sentences in their order: the first of each verdict, then the second of each."""
    verdicts = [sentence.verdict for sentence in sentences]
    order = sorted(range(len(verdicts)), key=lambda index: verdicts[:index].count(verdicts[index]))
    return [sentences[index] for index in sorted(order[:count])]


# --- questions


def _claim_sentence(row: QuestionRow) -> Sentence:
    marks = f" ({', '.join(row.marks)})" if row.marks else ""
    return Sentence(f"{row.verdict.capitalize()}{marks}", claim_text(row), _claim_line(row))


def _closest_claim(rows: Sequence[QuestionRow]) -> list[Sentence]:
    """Name the undecided claim that needs the fewest seeds, and count the others; nothing without one."""
    open_rows = [row for row in rows if row.verdict is Verdict.UNDECIDED]
    if not open_rows:
        return []
    row = min(open_rows, key=lambda row: row.answer.seeds_needed[1] if row.answer.seeds_needed else inf)
    count = f"{len(open_rows)} of {plural(len(rows), 'claim')}; the closest to a verdict: "
    seeds = needed_words(row)
    remedy = verdict_words(replace(row, marks=())).removeprefix("undecided: ")
    if seeds and not row.lost_runs:
        remedy = f"seeds needed: {seeds}"
    text = join_texts(claim_text(row), remedy)
    count *= len(open_rows) > 1
    return [Sentence("Undecided", count + text, count + _claim_line(row))]


def claim_text(row: QuestionRow) -> str:
    """Return a claim's own text with the values of both sides and their difference.

    An example is `One step is not enough: exact accuracy 99.9 % with 3 steps against 85.0 % with 1 step
    (difference 14.91 points, 95 % CI 11.60 to 18.30, n=3)`. If a side is a difference itself, the values are
    left out.
    """
    if row.estimate.value is None:
        return row.label
    size, interval = _size(row)
    interval = join_texts(interval, adjusted_words(row))
    size = join_texts(size, interval, row.estimate.sample, separator=", ")
    result = f"{inline(row.metric)} {size}" if row.is_mean else f"difference {size}"
    if row.sides:
        result = f"{' against '.join(_side_values(row))} ({result})"
    claimed = f"; claimed: {row.margin}" if row.verdict in AGAINST else ""
    return f"{row.label}: {result}{claimed}"


def _claim_line(row: QuestionRow) -> str:
    """Return `One step is not enough: 14.91 points, 95 % CI 11.60 to 18.30`."""
    if row.estimate.value is None:
        return row.label
    return f"{row.label}: {join_texts(*_size(row), separator=', ')}"


def _side_values(row: QuestionRow) -> list[str]:
    """Return `exact accuracy 99.9 % with 3 steps` and `85.0 % with 1 step`."""
    unit = f" {metric(row.metric).unit}".rstrip()
    values, previous = [], ""
    for name, settings, value in row.sides:
        title = "" if name == previous else f"{inline(name)} "
        start = "" if not settings or settings.startswith(("with ", "without ")) else "with "
        mean = number(row.metric, value, row.interval)
        values.append(f"{title}{mean}{unit} {start}{settings}".rstrip())
        previous = name
    return values


def _size(row: QuestionRow) -> tuple[str, str]:
    """Return `14.91 points` and `95 % CI 11.60 to 18.30`; a claim's difference has no sign."""
    form = row.form.removeprefix("+" * (row.kind is Kind.CLAIM))
    value = DASH if row.estimate.value is None else formatted(row.estimate.value, form)
    interval = " to ".join(formatted(end, form) for end in row.interval or ())
    return f"{value} {row.unit}".strip(), interval and f"95 % CI {interval}"


def _grouped(rows: Sequence[QuestionRow]) -> Iterator[tuple[bool, Sentence]]:
    """Yield a sentence for each base and outcome of differences or effects, and whether it is about a tie.

    The largest differences come first.
    """
    for base in dict.fromkeys(row.group for row in rows):
        for outcome, templates in TEMPLATES[rows[0].kind].items():
            chosen = [row for row in rows if row.group == base and _outcome(row) == outcome]
            if chosen:
                fields = _fields(chosen, outcome == TIED) | {"n": str(min(row.estimate.n for row in rows))}
                verdict, text = (words.format(**fields) for words in templates)
                short = templates[1].format(**fields | {"sizes": fields["short_sizes"], "needed": ""})
                alpha = chosen[0].answer.question.alpha
                verdict += f" ({at_alpha(alpha)})" * (alpha != ALPHA)
                yield outcome == TIED, Sentence(verdict, text, short)
    for reason, words in UNKNOWN_SPREAD.items():
        count = sum(reason in row.answer.reasons for row in rows if row.kind is Kind.DIFFERENCE)
        if count:
            yield True, Sentence("Undecided", f"{plural(count, 'difference')}{words}")
    for row in rows:
        is_tied_in_a_block = row.verdict is Verdict.NO_DIFFERENCE and _varies(row)
        if Reason.SIGNS_DIFFER in row.answer.reasons or is_tied_in_a_block:
            marks = [mark for mark in row.marks if mark.startswith(DIFFERS)]
            yield True, Sentence("Undecided", join_texts(f"{inline(row.metric)} of {row.label}", *marks))


def _outcome(row: QuestionRow) -> str:
    if row.verdict is Verdict.NO_DIFFERENCE:
        return "" if _varies(row) else TIED
    if row.kind is Kind.EFFECT and row.verdict in (Verdict.HIGHER, Verdict.LOWER):
        return SIGNIFICANT
    return row.outcome or row.verdict


def _varies(row: QuestionRow) -> bool:
    """Return whether the differences in the blocks differ, so that one block speaks for all."""
    return bool(row.in_blocks) and any(mark.startswith(DIFFERS) for mark in row.marks)


def _fields(rows: Sequence[QuestionRow], is_tied: bool) -> dict[str, str]:
    """Return the words on questions with the same base and outcome that templates use."""
    is_difference = rows[0].kind is Kind.DIFFERENCE
    sizes: list[str] = []
    short_sizes: list[str] = []
    if is_difference and not is_tied:
        rows = sorted(rows, key=lambda row: -abs(row.estimate.value or 0.0))
    for row in rows:
        size, interval = _size(row)
        varied = [mark for mark in row.marks if mark.startswith(DIFFERS)]
        details = [row.estimate.sample * is_difference, *varied]
        whole_interval = join_texts(interval, adjusted_words(row))
        for texts, words in ((sizes, whole_interval), (short_sizes, interval)):
            texts.append(f"{row.label} {size} ({join_texts(words, *details, separator=', ')})")
    return {
        "base": rows[0].group,
        "metric": inline(rows[0].metric),
        "sizes": join_labels(sizes, ", "),
        "short_sizes": join_labels(short_sizes, ", ", 1),
        "labels": join_labels([row.label for row in rows], ", "),
        "needed": _seeds_needed(rows),
    }


def _seeds_needed(rows: Sequence[QuestionRow]) -> str:
    """State how many more seeds would show differences of these sizes."""
    seeds = sorted(number for row in rows for number in row.answer.seeds_needed or ())
    if not seeds:
        return ""
    fewest = "" if seeds[0] == seeds[-1] else f"{seeds[0]:,} to "
    most = plural(seeds[-1], "more seed")
    if any(row.answer.seeds_needed is None for row in rows):
        most = f"{seeds[-1]:,} or over {MAX_SEEDS:,} more seeds"
    return f"; differences of this size need about {fewest}{most} per variant"


# --- tables


def _best_variant(records: StudyRecords) -> list[Sentence]:
    """Name the best variant of the first table that ranks variants, for a study without questions."""
    for part in parts_of(records):
        find = _best_trial if isinstance(part, Best) else _leaders
        with suppress(Exception):  # the part's own section and the log state the problem
            if isinstance(part, TablePart) and (sentence := find(make_table(records, part))):
                return [sentence]
    return []


def _leaders(table: TableData) -> Sentence | None:
    """Name the best variants by the table's first measured metric that ranks variants; None without one."""
    cells, is_single = leaders(table)
    if not cells:
        return None
    name = inline(cells[0][1].metric)
    best = [f"{label} {cell_text(cell)}" for label, cell in cells if cell.best]
    counts = sorted({cell.n for _, cell in cells})
    seeds = " to ".join(map(str, dict.fromkeys([counts[0], counts[-1]])))
    reason = f"n={seeds}" if counts[-1] > 1 else "one run of each, so the variance is unknown"
    first_estimate = cells[0][1].estimate
    if first_estimate.is_over_items:
        reason = first_estimate.sample
    if is_single and len(cells) > TIES:
        note = f"{len(best) - 1} others are not significantly worse"
        if not best:
            is_tested = any(cell.has_spread for _, cell in cells)
            note = f"no difference is significant ({reason})" if is_tested else reason
        label, first = cells[0]
        # a table of many variants shows its best ones alone
        count = len(first.records.variants if first.records.plan.imported else table.rows)
        text = f"{label} with {cell_text(first)}, of {count:,} variants; {note}"
        return Sentence("Best", f"by {name}, {text}", f"by {name}, {label} with {cell_text(first)}")
    if best:
        tie = (
            ", not all of which were tested"
            if UNTESTED in {cell.mark for _, cell in cells}
            else " tie without a significant difference"
        )
        tie *= is_single and len(best) > 1
        over = "test items" if first_estimate.is_over_items else "seeds"
        text = f"by {name}, {join_labels(best, ', ')}{tie}, 95 % CIs over {over}"
        return Sentence("Best", text, f"by {name}, {join_labels(best, ', ', 1)}{tie}")
    if not any(cell.has_spread for _, cell in cells):
        return Sentence(NO_VERDICT, f"variants are not compared by {name} ({reason})")
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
    return Sentence("Best trial", "; ".join(texts), *texts[:1])


# --- published and missing


def _published(records: StudyRecords) -> list[Sentence]:
    """Count the verdicts on published values. Parameters and FLOPs, which need no training, are separate."""
    values = published_values(records)
    differing = []
    for value in values:
        if value.answer.verdict is Verdict.DIFFERS:
            title = f"{value.label}, {inline(value.cell.metric)}"
            differing.append(f"{title}: {value.match.text} published, {cell_text(value.cell)} measured")
    reasons = [value.match.reasons for value in values if value.match.reasons]
    first_reason, *more_reasons = min(reasons, key=len, default=("",))
    if more_reasons:
        first_reason += f", and {plural(len(more_reasons), 'more reason')}"
    details = {
        str(Verdict.DIFFERS): join_labels(differing, ", "),
        str(Verdict.NOT_COMPARABLE): first_reason,
    }
    measured, computed = Counter[str](), Counter[str]()  # a computed number needs no training
    for value in values:
        counts = computed if metric(value.cell.metric).computed else measured
        counts[str(value.answer.verdict)] += 1
    of_computed = _count_words(computed, PUBLISHED, "value", {})
    text = _count_words(measured, PUBLISHED, "value", details)
    text = join_texts(text, of_computed and f"of parameters and FLOPs, {of_computed}")
    return [Sentence("Published", text, _count_words(measured, PUBLISHED, "value", {}))] if text else []


def _missing_runs(records: StudyRecords, waiting: Sequence[str] = ()) -> list[Sentence]:
    """Count the runs without a result. A search stops trials early on purpose, so these do not count."""
    runs = distinct(records.rows)
    counts = Counter(run.status for run in runs if run.status not in ("done", "stopped"))
    if not counts:
        return []
    details = {"failed": ", ".join(dict.fromkeys(run.error_class for run in runs if run.failed))}
    consequence = f"; that leaves {' and '.join(waiting)} open" if waiting else ""
    short = _count_words(counts, STATUSES, "run", {}, len(runs))
    text = _count_words(counts, STATUSES, "run", details, len(runs)) + consequence
    return [Sentence("Missing", text, short)]


def _count_words(
    counts: Counter[str],
    order: Sequence[str],
    noun: str,
    details: Mapping[str, str],
    total: int = 0,
) -> str:
    """Return `3 of 12 values agree, 9 not comparable (data digits, not cifar10)`."""
    total_words = f" of {plural(total or counts.total(), noun)}"
    phrases: list[str] = []
    for word in order:
        verb = word.removesuffix("s") if counts[word] > 1 else word  # agrees, differs
        detail = f" ({details[word]})" if details.get(word) else ""
        if counts[word]:
            phrases.append(f"{counts[word]:,}{'' if phrases else total_words} {verb}{detail}")
    return ", ".join(phrases)
