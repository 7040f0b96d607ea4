"""Questions as a table: each with its contrast, estimate, interval, verdict and the seeds that it needs; and as CSV."""

from collections import Counter
from functools import partial
from itertools import groupby

import pandas as pd

from recstudy.evidence import MOST_SEEDS, Kind, Reason, Verdict
from recstudy.report.caveats import caption, text_notes, warnings
from recstudy.report.cells import commit
from recstudy.report.claims import Claims, Differences, Effects, QuestionPart
from recstudy.report.drawn import DrawnFigure
from recstudy.report.figures.forest import COLUMNS as FOREST
from recstudy.report.figures.forest import Forest
from recstudy.report.fits import spread_notes
from recstudy.report.names import DASH, axis_title, metric, plain, plural
from recstudy.report.questions import Family, QuestionRow, family
from recstudy.report.shown import Shown
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import Interval, Note, Number, Piece, PrintedTable, TableEntry
from recstudy.report.tables.render import entry, seeds_text
from recstudy.report.targets import deviation_notes
from recstudy.report.writers import csv_file

CORNERS = {Claims: "claim", Differences: "variant", Effects: "effect"}
CSV_HEADS = ["question", "kind", "base", "contrast", "metric", "unit", "region_low", "region_high", "estimate", "low", "high"]
CSV_HEADS += ["level", "n", "df", "p", "p_holm", "verdict", "reasons", "seeds_needed", "detectable", "low_items", "high_items"]
CSV_HEADS += ["p_mcnemar", "published_difference", "sources", "runs_left", "lost", "run_ids"]
TESTS = (
    "p: two-sided t test that the true difference is just {}, adjusted for {} (Holm); intervals are at the level of their step"
)
VERDICTS = "Supported and contradicted: the interval lies wholly inside, or wholly outside, of what is claimed"
SIZE = "Size: mean at the second level minus mean at the first ({}); of an interaction, half of what one axis adds to the other's"
ENDED = {"done": "without the metric", "stopped": "stopped early"}
OF_TWO = "A published difference is of two published numbers, whose seeds and spread are unknown"


def printed(records: StudyRecords, part: QuestionPart, family: Family) -> PrintedTable:
    """Return a line a question, those of one base under a line of its own; columns that no question fills are left out."""
    lines: list[list[TableEntry]] = []
    for base, rows in groupby(family.rows, key=lambda row: row.group):
        own = list(rows)
        if base and own[0].cell:
            lines.append([TableEntry(base), entry(own[0].cell[1]), *[TableEntry(DASH)] * 8, TableEntry("base")])
        lines += [_line(row) for row in own]
    score = metric(part.metric).heading if isinstance(part, Differences) else "score"
    size = "size" if isinstance(part, Effects) else "difference"
    heads = [CORNERS[type(part)], score, "contrast", size, "interval", "p (Holm)", "seeds needed"]
    heads += ["detectable", "published difference", "verdict"]
    kept = [at for at in range(len(heads)) if at < 1 or any(line[at].text.strip(DASH) for line in lines)]
    variants = sorted({term.variant for row in family.rows for term in row.terms}) or list(range(len(records.variants)))
    metrics = list(dict.fromkeys(row.metric for row in family.rows))
    return PrintedTable(
        name=part.name,
        title=part.heading,
        heads=[heads[at] for at in kept],
        lines=[[line[at] for at in kept] for line in lines],
        caption=caption(records, variants),
        warnings=warnings(records),
        notes=[
            *_notes(part, family),
            *_machine_notes(records, family),
            *spread_notes(records, variants, metrics),
            *text_notes(records, variants, metrics),
        ],
        prose=frozenset(place for place, at in enumerate(kept) if heads[at] in ("contrast", "verdict")),
    )


def _line(row: QuestionRow) -> list[TableEntry]:
    found, answer, runs = row.estimate, row.answer, row.run_ids
    numeric = partial(TableEntry, origin=origin(row), runs=runs)
    contrast = f"{metric(row.metric).heading}: {row.contrast}" if answer.question.kind is Kind.CLAIM else ""
    value: Piece = DASH if found.value is None else Number(found.value, form(row.metric))
    interval: Piece = Interval(*found.interval, form(row.metric)) if found.interval else DASH
    hint = f"at {100 * found.level:.4g} %"
    if row.items and row.items.interval:
        hint += f"; over seeds and test items {Interval(*row.items.interval, form(row.metric))}"
    if row.items:
        hint += f"; over items alone p = {p_words(row.over_items_alone)} (McNemar, not adjusted)"
    least: Piece = Number(row.detectable, form(row.metric)[1:]) if row.detectable else DASH
    published = (f"{one.value:+{metric(row.metric).form}}{' (not comparable)' if one.reasons else ''}" for one in row.published)
    return [
        TableEntry(row.label),
        entry(row.cell[0]) if row.cell else TableEntry(""),
        TableEntry(contrast),
        numeric(value),
        numeric(interval, hint=hint if found.interval else ""),
        numeric(p_words(answer.adjusted), hint="" if answer.p is None else f"alone {p_words(answer.p)}"),
        TableEntry(needed_words(row)),
        numeric(least if row.group else ""),
        TableEntry(", ".join(dict.fromkeys(published))),
        TableEntry(verdict_words(row), bold=row.verdict.decided and answer.adjusted is not None, runs=runs),
    ]


def origin(row: QuestionRow) -> str:
    """Name the runs with their weights, their seeds, and the code that made them."""
    parts = [f"{term.weight:+.4g} * mean of runs {' '.join(run.id for run in term.runs)}" for term in row.terms if term.runs]
    runs = [run for term in row.terms for run in term.runs]
    seeds = [seeds_text(sorted({run.seed for run in runs}))] if runs else []
    return "; ".join([*parts, *seeds, *dict.fromkeys(map(commit, runs))])


def _notes(part: QuestionPart, family: Family) -> list[str | Note]:
    """Say how to read the table, and which runs leave it undecided."""
    of = {Claims: "claim", Differences: "row", Effects: "effect"}[type(part)]
    edge = "the margin" if isinstance(part, Claims) else "0"
    notes: list[str | Note] = [TESTS.format(edge, plural(len(family.rows), of))] if family.tested else []
    counts = dict.fromkeys(row.estimate.n for row in family.rows if row.estimate.n)
    notes += [f"n={' or '.join(map(str, sorted(counts)))} seeds a variant"] if counts else []
    notes += [VERDICTS] if isinstance(part, Claims) else []
    if family.levels:
        levels = "; ".join(f"{axis_title(axis)} {plain(low)} to {plain(high)}" for axis, (low, high) in family.levels.items())
        notes.append(SIZE.format(levels))
    if any(row.group and row.detectable for row in family.rows):
        notes.append("Detectable: the least true difference that such a test shows in 4 of 5 repetitions")
    published = [one for row in family.rows for one in row.published]
    notes += [OF_TWO] if published else []
    reasons = dict.fromkeys(one.reasons for one in published if one.reasons)
    notes += [Note("published differences are not comparable", why) for why in reasons]
    notes += deviation_notes(side for one in published if not one.reasons for side in (one.ours, one.theirs))
    notes += [f"{plural(family.unmatched, 'published value')} with no matching variant"] if family.unmatched else []
    lost = "; ".join(dict.fromkeys(why for row in family.rows for why in row.lost))
    return [*notes, *([f"Undecided, because the runs that have a value may be the lucky ones: {lost}"] if lost else [])]


def _machine_notes(records: StudyRecords, family: Family) -> list[str]:
    """Say what rounding alone does to tests item by item between runs of several machines or precisions."""
    terms = [term for row in family.rows if row.items for term in row.terms]
    known = [(run, records.configs[term.variant].get("train.precision")) for term in terms for run in term.runs]
    ways = {(run.provenance.hardware.cpu, run.provenance.hardware.gpu, run.provenance.workers, how) for run, how in known}
    if len(ways) < 2:
        return []
    floors = [run.number("numerical_floor") for run, _ in known if run.value("numerical_floor") is not None]
    floor = f"{max(floors):.2f} % of the items" if floors else "not measured: recstudy evaluate FOLDER --metric numerical_floor"
    return [f"runs of several machines or precisions: what rounding alone flips between them, item by item, is {floor}"]


def csv_text(family: Family) -> str:
    """Write one line a question, in full precision."""
    lines = []
    for row in family.rows:
        answer, found = row.answer, row.estimate
        named = [row.label, answer.question.kind, row.group, row.contrast, row.metric, metric(row.metric).unit]
        numbers = [*answer.question.region, found.value, found.low, found.high, found.level, found.n, found.df, answer.p]
        reasons = "; ".join([*answer.reasons, *row.marks])
        said = [answer.adjusted, verdict_words(row), reasons, answer.seeds_needed, row.detectable]
        items = [row.items.low, row.items.high] if row.items else [None, None]
        sources = (f"{one.ours.target.cited} minus {one.theirs.target.cited}" for one in row.published)
        published = [" ".join(repr(one.value) for one in row.published), "; ".join(sources)]
        behind = [row.left, "; ".join(row.lost), " ".join(row.run_ids)]
        lines.append([*named, *numbers, *said, *items, row.over_items_alone, *published, *behind])
    return csv_file(CSV_HEADS, lines)


def verdict_words(row: QuestionRow) -> str:
    """Return the verdict as tables and sentences say it, with what a reader must know of the question."""
    word: str = row.verdict
    if row.refused:
        word = row.refused
    elif row.better is not None:
        word = "better" if row.better else "worse"
    elif row.verdict is Verdict.UNDECIDED and (why := [one for one in row.answer.reasons if one is not Reason.WIDE]):
        word = f"undecided: {why[0]}"
    return f"{word} ({', '.join(row.marks)})" if row.marks else word


def needed_words(row: QuestionRow) -> str:
    """Say what an open question needs; empty where there is a verdict."""
    if row.left:
        return plural(row.left, "run")
    if row.verdict not in (Verdict.UNDECIDED, Verdict.NO_DIFFERENCE) or row.refused:
        return ""
    if row.lost:
        return ", ".join(f"{plural(count, 'run')} {ENDED.get(status, status)}" for status, count in row.ended.items())
    if row.answer.p is None:
        return "a second seed" if {Reason.SPLIT, Reason.CEILING}.isdisjoint(row.answer.reasons) else ""
    more = row.answer.seeds_needed
    return f"over {MOST_SEEDS:,}" if more is None else f"about {more:,} more"


def form(name: str) -> str:
    """Return how differences of a metric are printed: with one digit more than its own numbers, for they are smaller."""
    own = metric(name).form
    return f"+{own[:-2]}{int(own[-2]) + 1}{own[-1]}"


def signed(name: str, value: float | None) -> str:
    """Print a difference: `+0.42`."""
    return DASH if value is None else format(value, form(name))


def interval_words(row: QuestionRow) -> str:
    """Print `98.3 % interval [+7.89, +23.20]`; empty where there is none."""
    found = row.estimate
    return f"{100 * found.level:.4g} % interval {Interval(*found.interval, form(row.metric))}" if found.interval else ""


def p_words(p: float | None) -> str:
    """Print a p value: `0.012`."""
    return DASH if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def asked(records: StudyRecords, part: QuestionPart) -> Shown:
    """Make a row a question of claims, differences or effects, under their forest plot; `2 supported, 1 undecided` is found."""
    found = family(records, part)
    short = {Verdict.NO_DIFFERENCE: "not significant", Verdict.NOT_COMPARABLE: ""}
    side = {None: "", True: "better", False: "worse"}
    counts = Counter(side[row.better] or short.get(row.verdict, str(row.verdict)) for row in found.rows)
    said = ", ".join(f"{count:,} {word}" for word, count in counts.items() if word)
    rows = _forest_rows(part, found)
    rows.attrs["verdicts"] = said
    drawn = DrawnFigure(Forest(part.name, title=part.heading), rows, warnings(records))

    page, plot = printed(records, part, found), None if drawn.data.empty else drawn
    return Shown(part.name, said, plot, page, csv_text(found))


def _forest_rows(part: QuestionPart, found: Family) -> pd.DataFrame:
    """Draw a row a question that has an estimate; its region is what is claimed, or the published difference with its margin.

    Claims of several metrics share an axis where these have one unit, but for those of a metric itself.
    """
    rows, several = [], len({row.metric for row in found.rows}) > 1
    for row in found.rows:
        if row.estimate.value is None:
            continue
        known, estimate = metric(row.metric), row.estimate
        unit = "points" if known.unit == "%" else known.unit or "no unit"
        group = f"{known.title}: difference{f' from {row.group}' if row.group else ''} ({unit})"
        if row.alone:
            group = f"{known.title} ({known.unit or unit})"
        elif several and isinstance(part, Claims):
            group = f"Difference ({unit})"
        region = row.answer.question.region if isinstance(part, Claims) else None
        about = f"{row.contrast or row.label}; {interval_words(row)}"
        for theirs in row.published:
            margin = max(theirs.ours.margin, theirs.theirs.margin)
            region = region or (theirs.value - margin, theirs.value + margin)
            about += f"; published {theirs.value:+.6g}"
        against = row.verdict in (Verdict.CONTRADICTED, Verdict.SMALLER)
        mark = "no" if against else "yes" if row.verdict.decided else "open"
        ends = estimate.low, estimate.high, *(region or (None, None))
        rows.append((row.label, group, estimate.value, *ends, verdict_words(row), estimate.n, about, mark))
    return pd.DataFrame(rows, columns=FOREST).astype({**dict.fromkeys(FOREST[2:7], float), "n": "Int64"})
