"""Questions as a table: each with its contrast, estimate, interval, verdict and the seeds that it needs; and
as CSV.
"""

from collections import Counter
from functools import partial
from itertools import groupby
from typing import Any

from recstudy.evidence import MAX_SEEDS, Reason, Verdict
from recstudy.lazy import pd
from recstudy.report.caveats import caption_facts, join_labels, text_notes, warnings
from recstudy.report.cells import cell
from recstudy.report.claims import Claims, Differences, Effects, QuestionPart
from recstudy.report.family import family
from recstudy.report.figures.forest import COLUMNS as FOREST
from recstudy.report.figures.forest import Forest
from recstudy.report.fits import spread_notes
from recstudy.report.names import DASH, axis_title, metric, plural, value_text
from recstudy.report.questions import Family, QuestionRow
from recstudy.report.shown import DrawnFigure, RenderedPart
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import Interval, Number, Piece, PrintedTable, TableEntry
from recstudy.report.tables.render import cell_entry, seeds_text
from recstudy.report.targets import deviation_notes

HEADS = [
    "label", "score", "metric", "contrast", "size", "95 % interval", "p (Holm)", "seeds needed", "detectable",
    "published difference", "verdict",
]  # fmt: skip
LABELS = {Claims: "claim", Differences: "variant", Effects: "effect"}  # what each line is
TESTS = (
    "p (Holm): two-sided t test, adjusted for all {} of this report; it decides the verdict. The 95 %"
    " interval is for one look"
)
SIZE = (
    "size: mean at the second level minus mean at the first ({}); of an interaction, half of what one axis"
    " adds to the other's"
)
DETECTABLE = "detectable: the least true difference that such a test shows in 4 of 5 repetitions"
OF_TWO = "a published difference is of two published numbers, whose seeds and spread are unknown"
LUCKY = "undecided, because the runs that have a value may be the lucky ones"
CLAIM_VERDICTS = (Verdict.SUPPORTED, Verdict.SMALLER, Verdict.CONTRADICTED, Verdict.UNDECIDED)
ENDED = {"done": "without the metric", "stopped": "stopped early"}


def printed(records: StudyRecords, part: QuestionPart, questions: Family) -> PrintedTable:
    """Return a line a question, those of one base below a line of its own. Columns that say nothing are left
    out.
    """
    lines: list[dict[str, TableEntry]] = []
    for base, rows in groupby(questions.rows, key=lambda row: row.group):
        group = list(rows)
        if base:
            _, index = group[0].answer.question.weights
            score = cell_entry(cell(records, [index], group[0].metric))
            lines.append({"label": TableEntry(base), "score": score, "verdict": TableEntry("base")})
        lines += [_line(records, row) for row in group]
    metrics = {row.metric: metric(row.metric).heading for row in questions.rows}
    titles = {"label": LABELS[type(part)], "size": "size" if isinstance(part, Effects) else "difference"}
    titles |= {"score": next(iter(metrics.values()), "")}
    columns = [
        head
        for head in HEADS
        if head == "label" or any(head in line and not line[head].is_empty for line in lines)
    ]
    columns = [head for head in columns if head != "metric" or len(metrics) > 1]
    variants = sorted({index for row in questions.rows for index in row.variants}) or list(
        range(len(records.variants))
    )
    counts = sorted({row.estimate.n for row in questions.rows if row.estimate.n})
    facts = caption_facts(records, variants)
    has_tests = any(row.answer.p is not None for row in questions.rows)
    tests = TESTS.format(plural(questions.adjusted_for, "question"))
    caption = [*metrics.values()] if isinstance(part, Claims) and len(metrics) == 1 else []
    caption += [facts["caption"], f"n={' or '.join(map(str, counts))}" * bool(counts)]
    return PrintedTable(
        name=part.name,
        title=part.heading,
        heads=[titles.get(head, head) for head in columns],
        lines=[[line.get(head, TableEntry(DASH)) for head in columns] for line in lines],
        caption="; ".join(filter(None, caption)),
        study_notes=(*facts["study_notes"], *([tests] if has_tests else [])),
        warnings=warnings(records),
        notes=[
            *_notes(questions),
            *spread_notes(records, variants, list(metrics)),
            *text_notes(records, variants, list(metrics)),
        ],
        prose=frozenset(
            position for position, head in enumerate(columns) if head in ("metric", "contrast", "verdict")
        ),
    )


def _line(records: StudyRecords, row: QuestionRow) -> dict[str, TableEntry]:
    answer, value, form = row.answer, row.estimate.value, difference_form(row.metric)
    runs = [run for term in row.terms for run in term.runs]
    sums = [
        f"{term.weight:+.4g} * mean of runs {' '.join(run.id for run in term.runs)}"
        for term in row.terms
        if term.runs
    ]
    numeric = partial(
        TableEntry, origin="; ".join([*sums, *([seeds_text(runs)] if runs else [])]), runs=row.run_ids
    )
    size: Piece = DASH if value is None else Number(value, form)
    interval: Piece = Interval(*row.interval, form) if row.interval else DASH
    least: Piece = Number(row.detectable, form[1:]) if row.detectable and row.group else DASH
    published = [
        f"{difference.value:+{metric(row.metric).form}}{' (not comparable)' * bool(difference.reasons)}"
        for difference in row.published
    ]
    return {
        "label": TableEntry(row.label),
        "score": (
            cell_entry(cell(records, [next(iter(answer.question.weights))], row.metric))
            if row.group
            else TableEntry("")
        ),
        "metric": TableEntry(metric(row.metric).heading),
        "contrast": TableEntry(row.words),
        "size": numeric(size),
        "95 % interval": numeric(interval),
        "p (Holm)": numeric(
            p_words(answer.adjusted), hint="" if answer.p is None else f"alone {p_words(answer.p)}"
        ),
        "seeds needed": TableEntry(needed_words(row)),
        "detectable": numeric(least),
        "published difference": TableEntry(", ".join(dict.fromkeys(published))),
        "verdict": TableEntry(
            verdict_words(row), bold=row.verdict.is_decided and answer.adjusted is not None, runs=row.run_ids
        ),
    }


def _notes(questions: Family) -> list[str]:
    """Return how to read the table, and which runs leave it undecided."""
    rows, levels = questions.rows, questions.levels or {}
    words = "; ".join(
        f"{axis_title(axis)} {value_text(low)} to {value_text(high)}" for axis, (low, high) in levels.items()
    )
    notes = [SIZE.format(words)] if levels else []
    notes += [DETECTABLE] if any(row.group and row.detectable for row in rows) else []
    published = [difference for row in rows for difference in row.published]
    notes += [OF_TWO] if published else []
    reasons = dict.fromkeys(difference.reasons for difference in published if difference.reasons)
    notes += [f"published differences are not comparable: {'; '.join(why)}" for why in reasons]
    comparable = [difference for difference in published if not difference.reasons]
    notes += deviation_notes(
        value for difference in comparable for value in (difference.ours, difference.theirs)
    )
    notes += questions.unmatched
    lost = list(dict.fromkeys(why for row in rows for why in row.lost))
    return [*notes, *([f"{LUCKY}: {join_labels(lost, '; ', 6)}"] if lost else [])]


def csv_text(questions: Family) -> str:
    """Return one line a question, in full precision."""
    return pd.DataFrame([_fields(row) for row in questions.rows], dtype=object).to_csv(index=False)


def _fields(row: QuestionRow) -> dict[str, Any]:
    answer, estimate = row.answer, row.estimate
    sources = (
        f"{difference.ours.target.cited} minus {difference.theirs.target.cited}"
        for difference in row.published
    )
    low, high = row.interval or (None, None)
    adjusted = answer.adjusted_interval or (None, None)
    fewest, most = answer.seeds_needed or (None, None)
    return {
        "question": row.label,
        "kind": answer.question.kind,
        "base": row.group,
        "contrast": row.contrast,
        "metric": row.metric,
        "unit": metric(row.metric).unit,
        "region_low": answer.question.region[0],
        "region_high": answer.question.region[1],
        "estimate": estimate.value,
        "low": low,
        "high": high,
        "low_adjusted": adjusted[0],
        "high_adjusted": adjusted[1],
        "level_adjusted": 1 - answer.alpha,
        "n": estimate.n,
        "df": estimate.df,
        "p": answer.p,
        "p_holm": answer.adjusted,
        "verdict": verdict_words(row),
        "reasons": "; ".join([*answer.reasons, *row.marks]),
        "seeds_needed": most,
        "seeds_needed_for_the_estimate": fewest,
        "detectable": row.detectable,
        "low_items": row.items.low if row.items else None,
        "high_items": row.items.high if row.items else None,
        "p_mcnemar": row.over_items_alone,
        "published_difference": " ".join(repr(difference.value) for difference in row.published),
        "sources": "; ".join(sources),
        "runs_left": row.left,
        "lost": "; ".join(row.lost),
        "run_ids": " ".join(row.run_ids),
    }


def verdict_words(row: QuestionRow) -> str:
    """Return the verdict as tables and sentences say it, with what a reader must know of the question."""
    word: str = row.verdict
    if row.verdict is Verdict.NOT_COMPARABLE:
        word = row.answer.reasons[-1]
    elif row.better is not None:
        word = "better" if row.better else "worse"
    elif row.verdict is Verdict.UNDECIDED and (
        why := [reason for reason in row.answer.reasons if reason is not Reason.WIDE]
    ):
        word = f"undecided: {why[0]}"
    return f"{word} ({', '.join(row.marks)})" if row.marks else word


def needed_words(row: QuestionRow) -> str:
    """Return what an open question needs; empty if there is a verdict."""
    if row.left:
        return plural(row.left, "run")
    if row.verdict not in (Verdict.UNDECIDED, Verdict.NO_DIFFERENCE):
        return ""
    if row.lost_runs:
        ended = Counter(run.status for run in row.lost_runs)
        return ", ".join(
            f"{plural(count, 'run')} {ENDED.get(status, status)}" for status, count in ended.items()
        )
    if row.answer.p is None:
        return "a second seed" if {Reason.SPLIT, Reason.CEILING}.isdisjoint(row.answer.reasons) else ""
    if row.answer.seeds_needed is None:
        return f"over {MAX_SEEDS:,}"
    fewest, most = row.answer.seeds_needed
    words = f"{fewest:,} to {most:,} more" if fewest < most else f"{most:,} more"
    seeds = row.estimate.n + most
    maximum = row.answer.maximum
    return f"{words}: a maximum of {seeds:,} instead of {maximum:,}" if seeds > maximum else words


def difference_form(name: str) -> str:
    """Return how differences of a metric are printed: with one digit more than its own numbers, for they are
    smaller.
    """
    form = metric(name).form
    return f"+{form[:-2]}{int(form[-2]) + 1}{form[-1]}"


def interval_words(row: QuestionRow) -> str:
    """Return `95 % CI [+7.89, +23.20]`; empty if there is no interval."""
    return f"95 % CI {Interval(*row.interval, difference_form(row.metric))}" if row.interval else ""


def p_words(p: float | None) -> str:
    """Return a p value in words: `0.012`."""
    return DASH if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def questions_shown(records: StudyRecords, part: QuestionPart) -> RenderedPart:
    """Return the table below its forest plot; the finding counts the verdicts."""
    questions = family(records, part)
    short = {Verdict.NO_DIFFERENCE: "not significant", Verdict.NOT_COMPARABLE: ""}
    side = {None: "", True: "better", False: "worse"}
    counts = Counter(side[row.better] or short.get(row.verdict, str(row.verdict)) for row in questions.rows)
    is_judged = any(row.verdict in CLAIM_VERDICTS for row in questions.rows)
    # all four numbers, so that nobody has to add them up
    if isinstance(part, Claims) and len(questions.rows) > 1 and is_judged:
        counts = Counter(dict.fromkeys(map(str, CLAIM_VERDICTS), 0) | counts)
    finding = ", ".join(f"{count:,} {word}" for word, count in counts.items() if word)
    data = _forest_data(part, questions)
    data.attrs["verdicts"] = finding
    drawn = (
        None if data.empty else DrawnFigure(Forest(part.name, title=part.heading), data, warnings(records))
    )
    return RenderedPart(part.name, finding, drawn, printed(records, part, questions), csv_text(questions))


def _forest_data(part: QuestionPart, questions: Family) -> pd.DataFrame:
    """Return a row a question that has an estimate; its region is what is claimed, or the published
    difference with its margin.

    Claims of several metrics share an axis if these have one unit, except those of a metric itself.
    """
    rows, several = [], len({row.metric for row in questions.rows}) > 1
    for row in (row for row in questions.rows if row.estimate.value is not None):
        of, alone = metric(row.metric), len(row.terms) == 1 and len(row.terms[0].of) == 1
        unit = "points" if of.unit == "%" else of.unit or "no unit"
        group = f"{of.title}: difference{f' from {row.group}' if row.group else ''} ({unit})"
        if alone:
            group = f"{of.title} ({of.unit or unit})"
        elif several and isinstance(part, Claims):
            group = f"Difference ({unit})"
        region = row.answer.question.region if isinstance(part, Claims) else None
        about = f"{row.words or row.contrast or row.label}; {interval_words(row)}"
        for theirs in row.published:
            margin = max(theirs.ours.margin, theirs.theirs.margin)
            region = region or (theirs.value - margin, theirs.value + margin)
            about += f"; published {theirs.value:+.6g}"
        against = row.verdict in (Verdict.CONTRADICTED, Verdict.SMALLER)
        mark = "no" if against else "yes" if row.verdict.is_decided else "open"
        ends = (*(row.interval or (None, None)), *(region or (None, None)))
        rows.append(
            (row.label, group, row.estimate.value, *ends, verdict_words(row), row.estimate.n, about, mark)
        )
    return pd.DataFrame(rows, columns=FOREST).astype({**dict.fromkeys(FOREST[2:7], float), "n": "Int64"})
