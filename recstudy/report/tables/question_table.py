"""Render the questions of a report (claims, differences, effects) as a table, a forest plot and CSV.

The parts `Claims`, `Differences` and `Effects` call `questions_shown`. The findings and the page reuse
`verdict_words` and `needed_words`, so that a verdict reads the same everywhere.
"""

from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from recstudy.base.lazy import pd
from recstudy.evidence import MAX_SEEDS, Answer, Estimate, Reason, Verdict
from recstudy.evidence.questions import MIN_SEEDS_IF_SPLIT
from recstudy.report.blocks import other_blocks
from recstudy.report.caveats import caption_facts, text_notes, warnings
from recstudy.report.cell_text import cell_content
from recstudy.report.cells import weighted_cell
from recstudy.report.claims import Claims, Differences, Effects, QuestionPart
from recstudy.report.family import family
from recstudy.report.figures.forest import COLUMNS as FOREST
from recstudy.report.figures.forest import Forest
from recstudy.report.figures.lead import is_drawn
from recstudy.report.fits import spread_notes
from recstudy.report.names import (
    DASH,
    axis_title,
    difference_form,
    formatted,
    join_labels,
    join_texts,
    metric,
    plural,
    value_text,
)
from recstudy.report.parts import parts_of
from recstudy.report.question_rows import Family, QuestionRow
from recstudy.report.shown import RenderedPart
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import BLANK, Interval, Number, TableData, TableEntry, TableRow
from recstudy.report.tables.render import cell_entry, seeds_text
from recstudy.report.targets import deviation_notes

COLUMNS = [
    "score", "metric", "contrast", "size", "95 % interval", "p (Holm)", "seeds needed", "detectable",
    "published difference", "verdict",
]  # fmt: skip
EXPENDABLE = ("detectable", "published difference", "seeds needed", "contrast")
LABELS = {Claims: "claim", Differences: "variant", Effects: "level"}  # head of the label column
TESTS = (
    "p (Holm): two-sided t test, adjusted for {} of this report; it decides the verdict. The 95 %"
    " interval is for one look"
)
SIZE = (
    "size: mean at the second level minus mean at the first ({}); for an interaction, half of the change that"
    " one axis makes to the effect of the other"
)
# 4 of 5 is a power of 80 %
DETECTABLE = "detectable: the smallest true difference that such a test detects in 4 of 5 repetitions"
PUBLISHED_DIFFERENCE = (
    "a published difference is computed from two published numbers, whose seeds and variance are unknown"
)
COMMON_SEEDS = "scores are over all seeds of a variant, differences over the seeds that both variants have"
LUCKY = "runs without a value, so that the others may be the lucky ones"
CLAIM_VERDICTS = (Verdict.SUPPORTED, Verdict.SMALLER, Verdict.CONTRADICTED, Verdict.UNDECIDED)
STATUS_WORDS = {"done": "without the metric", "stopped": "stopped early"}


def table_of(records: StudyRecords, part: QuestionPart, questions: Family) -> TableData:
    """Return the table with a row per question.

    Questions that compare variants with the same base follow a row with the base's own score. Columns without
    content are left out.
    """
    metrics = {row.metric: metric(row.metric).heading for row in questions.rows}
    table_rows = []
    for base, rows in groupby(questions.rows, key=lambda row: row.group):
        group = list(rows)
        if base:
            blank = [TableEntry(DASH)] * (len(COLUMNS) - 2)
            # each row may be decided by another block, in which the base has another score
            score = BLANK if any(map(_is_of_one_block, group)) else _score(records, group[0], -1)
            entries = (score, *blank, TableEntry("base"))
            table_rows.append(TableRow(base, entries))
        table_rows += [_row(records, row, len(metrics) > 1) for row in group]
    is_factorial = isinstance(part, Effects) and questions.levels is not None
    size, head = "size" if is_factorial else "difference", next(iter(metrics.values()), "")
    variants = sorted({index for row in questions.rows for index in row.variants})
    variants = variants or list(records.indices)
    # below a base, the cells of the scores state their n
    counts = sorted({row.estimate.n for row in questions.rows if row.estimate.n and not row.group})
    sample = f"n={' or '.join(map(str, counts))}" * bool(counts)
    if over_items := {row.estimate.sample for row in questions.rows if row.estimate.is_over_items}:
        sample = f"single runs, {' and '.join(sorted(over_items))}; other seeds may differ by more"
    facts = caption_facts(records, variants)
    has_tests = any(row.answer.p is not None for row in questions.rows)
    count = questions.adjusted_for
    tests = TESTS.format("the one question" if count == 1 else f"all {plural(count, 'question')}")
    # a single metric is named in the caption or in the head of the scores
    caption = [*metrics.values()] if isinstance(part, Claims) and len(metrics) == 1 else []
    caption += [facts["caption"], sample]
    table = TableData(
        part.name,
        part.heading,
        (head, *COLUMNS[1:3], size, *COLUMNS[4:]),
        table_rows,
        corner="effect" if is_factorial else LABELS[type(part)],
        caption=join_texts(*caption),
        study_notes=(*facts["study_notes"], *([tests] if has_tests else [])),
        warnings=warnings(records),
        notes=(
            *_notes(questions),
            *spread_notes(records, variants, list(metrics)),
            *text_notes(records, variants, list(metrics)),
        ),
        kinds=dict.fromkeys(("metric", "contrast", "verdict"), "prose"),
        expendable=(*EXPENDABLE, head),
    )
    return table.drop_columns()


def _row(records: StudyRecords, row: QuestionRow, names_metric: bool) -> TableRow:
    """Return the row of a question, with an entry for each of `COLUMNS`."""
    answer, value, form = row.answer, row.estimate.value, row.form
    terms = [term for term in row.terms if term.runs]
    sources = [f"{term.weight:+.4g} * mean of runs {' '.join(run.id for run in term.runs)}" for term in terms]
    sources += [seeds_text([run for term in terms for run in term.runs])] if terms else []
    numeric = partial(TableEntry, origin="; ".join(sources), runs=row.run_ids)
    published_form = f"+{metric(row.metric).form}"
    published = [
        formatted(difference.value, published_form) + " (not comparable)" * bool(difference.reasons)
        for difference in row.published
    ]
    cells = (
        _score(records, row, 1) if row.group and not _is_of_one_block(row) else BLANK,
        TableEntry(metric(row.metric).heading if names_metric else ""),
        TableEntry(row.words),
        numeric(DASH if value is None else Number(value, form)),
        numeric(Interval(*row.interval, form) if row.interval else DASH),
        numeric(p_words(answer.adjusted), hint="" if answer.p is None else f"unadjusted {p_words(answer.p)}"),
        # nobody stated a maximum of seeds for imported runs
        TableEntry(needed_words(row).partition(":" if records.plan.imported else "\0")[0]),
        numeric(Number(row.detectable, form[1:]) if row.detectable and row.group else DASH),
        TableEntry(", ".join(dict.fromkeys(published))),
        TableEntry(
            verdict_words(row), row.verdict.is_decided and answer.adjusted is not None, runs=row.run_ids
        ),
    )
    return TableRow(row.label, cells)


def _is_of_one_block(row: QuestionRow) -> bool:
    """Return whether one block decides a question about several."""
    return bool(row.in_blocks) and len(row.terms) == 2


def _score(records: StudyRecords, row: QuestionRow, sign: int) -> TableEntry:
    """Return the score of the variants on one side of a difference, each with its weight."""
    weights = row.answer.question.weights.items()
    terms = {index: sign * weight for index, weight in weights if sign * weight > 0}
    score = weighted_cell(records, terms, row.metric)
    return cell_entry(score, cell_content(score))


def block_notes(row: QuestionRow) -> list[str]:
    """Return the difference in each block, and the statement on other blocks of this kind."""
    if not row.in_blocks:
        return []
    estimates = [answer.estimate for _, answer in row.in_blocks]
    sizes, has_p = [], False
    for words, answer in row.in_blocks:
        p = f", p {p_words(answer.adjusted)}" if answer.estimate.interval else ""
        sizes.append(f"{words} {size_words(answer.estimate, row.metric)}{p}")
        has_p |= bool(p)
    notes = [f"{row.label}: {'; '.join(sizes)}" + " (p by Holm over these blocks)" * has_p]
    over_blocks = other_blocks(estimates)
    if over_blocks.interval:
        size = size_words(over_blocks, row.metric)
        notes.append(f"{row.label}, other blocks of this kind (t over {len(sizes)} differences): {size}")
    return notes


def _notes(questions: Family) -> list[str]:
    """Return the notes that explain the columns, and the runs whose loss leaves a question undecided."""
    rows, levels = questions.rows, questions.levels or {}
    words = "; ".join(
        f"{axis_title(axis)} {value_text(low)} to {value_text(high)}" for axis, (low, high) in levels.items()
    )
    notes = [SIZE.format(words)] if levels else []
    if any(row.group and row.detectable for row in rows):
        notes.append(DETECTABLE)
    published = [difference for row in rows for difference in row.published]
    if published:
        notes.append(PUBLISHED_DIFFERENCE)
    reasons = dict.fromkeys(difference.reasons for difference in published if difference.reasons)
    notes += [f"published differences are not comparable: {'; '.join(why)}" for why in reasons]
    comparable = [difference for difference in published if not difference.reasons]
    notes += deviation_notes(
        value for difference in comparable for value in (difference.ours, difference.theirs)
    )
    if any(row.group and row.has_more_seeds for row in rows):
        notes.append(COMMON_SEEDS)
    notes += [note for row in rows for note in block_notes(row)]
    notes += questions.unmatched
    notes += [f"{row.label}: {words} (n={row.estimate.n})" for row in rows if (words := adjusted_words(row))]
    losses = list(dict.fromkeys(why for row in rows for why in row.loss_reasons))
    if losses:
        notes.append(f"{LUCKY}: {join_labels(losses, '; ', 6)}")
    return notes


def answer_fields(answer: Answer) -> dict[str, Any]:
    """Return the numbers of an answer, as the CSV file and the JSON document name them."""
    estimate = answer.estimate
    low_adjusted, high_adjusted = answer.adjusted_interval or (None, None)
    region_low, region_high = answer.question.region
    fewest_seeds, most_seeds = answer.seeds_needed or (None, None)
    return {
        "region_low": region_low,
        "region_high": region_high,
        "estimate": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "low_adjusted": low_adjusted,
        "high_adjusted": high_adjusted,
        "level_adjusted": 1 - answer.alpha,
        "n": estimate.n,
        "df": estimate.df,
        "p": answer.p,
        "p_holm": answer.adjusted,
        "verdict": answer.verdict,
        "reasons": answer.reasons,
        "seeds_needed": most_seeds,
        "seeds_needed_for_the_estimate": fewest_seeds,
    }


def question_reasons(row: QuestionRow) -> list[str]:
    """Return why a question is open or needs care."""
    return list(filter(None, [*map(str, row.answer.reasons), *row.marks, adjusted_words(row)]))


def _fields(row: QuestionRow) -> dict[str, Any]:
    answer = row.answer
    sources = (
        f"{difference.ours.target.cited} minus {difference.theirs.target.cited}"
        for difference in row.published
    )
    return {
        "question": row.label,
        "kind": answer.question.kind,
        "base": row.group,
        "contrast": row.contrast,
        "metric": row.metric,
        "unit": metric(row.metric).unit,
        **answer_fields(answer),
        "verdict": verdict_words(row),
        "reasons": "; ".join(question_reasons(row)),
        "detectable": row.detectable,
        "low_items": row.items.low,
        "high_items": row.items.high,
        "p_mcnemar": row.over_items_alone,
        "published_difference": " ".join(repr(difference.value) for difference in row.published),
        "sources": "; ".join(sources),
        "runs_left": row.runs_left,
        "lost": "; ".join(row.loss_reasons),
        "run_ids": " ".join(row.run_ids),
    }


def verdict_words(row: QuestionRow) -> str:
    """Return the verdict in the words of tables and sentences, with the question's marks in parentheses."""
    word: str = row.verdict
    if row.verdict is Verdict.NOT_COMPARABLE:
        word = row.answer.reasons[-1]
    elif row.outcome:
        word = row.outcome
    elif row.verdict is Verdict.UNDECIDED:
        # WIDE warns about the coverage of the interval; it is not why the question is open
        reasons = [reason for reason in row.answer.reasons if reason is not Reason.WIDE]
        if row.lost_runs:
            total = plural(len({*row.run_ids, *(run.id for run in row.lost_runs)}), "run")
            states = dict.fromkeys(STATUS_WORDS.get(run.status, run.status) for run in row.lost_runs)
            lucky = ", and the rest may be the lucky ones" * (row.estimate.value is not None)
            reasons = [f"{len(row.lost_runs):,} of {total} {' or '.join(states)}{lucky}"]
        word = ": ".join([word, *reasons[:1]])
    return f"{word} ({', '.join(row.marks)})" if row.marks else word


def needed_words(row: QuestionRow) -> str:
    """Return the runs or seeds that an open question needs; empty if there is a verdict.

    Examples are `3 runs`, `2 to 5 more` and `over 1,000`.
    """
    if row.runs_left:
        return plural(row.runs_left, "run")
    if row.verdict not in (Verdict.UNDECIDED, Verdict.NO_DIFFERENCE):
        return ""
    if row.lost_runs:
        return plural(len(row.lost_runs), "run")
    if Reason.OVER_BLOCKS in row.answer.reasons:
        return "more blocks"
    if row.answer.p is None:  # a second seed gives a variance
        if not {Reason.ONE_AT_BOUND, Reason.MAY_SPLIT}.isdisjoint(row.answer.reasons):
            return f"{MIN_SEEDS_IF_SPLIT - row.estimate.n} more"
        return "a second seed" if row.estimate.n == 1 else ""
    if row.estimate.is_over_items:
        return "more test items"
    if row.answer.seeds_needed is None:
        return f"over {MAX_SEEDS:,}"
    fewest_seeds, most_seeds = row.answer.seeds_needed
    words = f"{most_seeds:,} more"
    if fewest_seeds < most_seeds:
        words = f"{fewest_seeds:,} to {words}"
    seeds, maximum = row.estimate.n + most_seeds, row.answer.maximum
    return f"{words}: a maximum of {seeds:,} instead of {maximum:,}" if seeds > maximum else words


def adjusted_words(row: QuestionRow) -> str:
    """Return the adjusted interval of an open question that the 95 % interval alone would decide, else an
    empty text.
    """
    adjusted = row.answer.adjusted_interval
    if row.answer.p is None or row.verdict.is_decided or not row.interval or not adjusted:
        return ""
    low, high = row.interval
    if any(low <= edge <= high for edge in row.answer.question.region):
        return ""
    form = difference_form(row.metric, adjusted)[1:]
    words = " to ".join(formatted(bound, form) for bound in adjusted)
    return f"adjusted for all questions and looks, the interval is {words}"


def size_words(estimate: Estimate, name: str) -> str:
    """Return `+2.10 [+1.00, +3.20]`."""
    form = difference_form(name, estimate.interval)
    value = DASH if estimate.value is None else formatted(estimate.value, form)
    return f"{value} {Interval(*estimate.interval, form)}" if estimate.interval else value


def p_words(p: float | None) -> str:
    """Return a p value as text: `0.012`, or `<0.001`."""
    if p is None:
        return DASH
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def questions_shown(records: StudyRecords, part: QuestionPart) -> RenderedPart:
    """Return the rendered part: the forest plot, the table and the CSV. The finding counts the verdicts."""
    questions = family(records, part)
    late = f" ({Reason.POST_HOC})"
    counts = Counter(_outcome(row) + late * (Reason.POST_HOC in row.marks) for row in questions.rows)
    counts = Counter(dict.fromkeys(map(str, CLAIM_VERDICTS), 0) | counts)  # in this order
    finding = ", ".join(f"{count:,} {word}" for word, count in counts.items() if word and count)
    data, forest = _forest_data(part, questions), Forest(part.name, title=part.heading)
    data.attrs["verdicts"] = finding
    figure = (
        RenderedPart(part.name)
        if data.empty or is_drawn(part, parts_of(records))
        else forest.shown(data, warnings(records))
    )
    csv = pd.DataFrame([_fields(row) for row in questions.rows], dtype=object).to_csv(index=False)
    return replace(figure, finding=finding, table=table_of(records, part, questions), csv=csv)


def _outcome(row: QuestionRow) -> str:
    """Return the verdict in one or two words; empty if the variants are not comparable."""
    short_words = {Verdict.NO_DIFFERENCE: "not significant", Verdict.NOT_COMPARABLE: ""}
    return row.outcome or short_words.get(row.verdict, str(row.verdict))


def _forest_data(part: QuestionPart, questions: Family) -> pd.DataFrame:
    """Return the data of the forest plot: a row per question with an estimate.

    The region of a row is the claimed range, or else the published difference with its margin.
    """
    rows, several = [], len({row.metric for row in questions.rows}) > 1
    bases = {row.group for row in questions.rows}
    for row in questions.rows:
        if row.estimate.value is None:
            continue
        definition = metric(row.metric)
        if isinstance(part, Effects) and len(bases) > 1:  # all levels share an axis, so that effects compare
            row = replace(row, label=row.contrast, group="", marks=())
        unit = row.unit or "no unit"
        base = f" from {row.group}" if row.group else ""
        group = f"{definition.title}: difference{base} ({unit})"
        if row.is_mean:
            group = f"{definition.title} ({unit})"
        # claims of several metrics share an axis if the metrics have the same unit
        elif several and isinstance(part, Claims):
            group = f"Difference ({unit})"
        region = row.answer.question.region if isinstance(part, Claims) else None
        interval = str(Interval(*row.interval, row.form)) if row.interval else ""
        about = f"{row.words or row.contrast or row.label}; {f'95 % CI {interval}' * bool(interval)}"
        for theirs in row.published:
            margin = max(theirs.ours.margin, theirs.theirs.margin)
            region = region or (theirs.value - margin, theirs.value + margin)
            about += f"; published {theirs.value:+.6g}"
        mark = "yes" if row.verdict.is_decided else "open"
        if row.verdict in (Verdict.CONTRADICTED, Verdict.SMALLER):
            mark = "no"
        bounds = (*(row.interval or (None, None)), *(region or (None, None)))
        size = formatted(row.estimate.value or 0.0, row.form)
        words = (verdict_words(row), row.estimate.n, about, mark, size, interval, _outcome(row))
        rows.append((row.label, group, row.estimate.value, *bounds, *words))
    return pd.DataFrame(rows, columns=FOREST).astype({**dict.fromkeys(FOREST[2:7], float), "n": "Int64"})
