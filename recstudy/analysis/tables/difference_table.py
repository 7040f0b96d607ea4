"""Paired differences in words: a table with the base's own line above the variants that are compared with it."""

from collections.abc import Sequence

from recstudy.analysis.caveats import caption, text_notes, warnings
from recstudy.analysis.contrasts import contrast, seeds_to_show
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.stats import own
from recstudy.analysis.tables.differences import Difference, DifferencesData, PublishedDifference
from recstudy.analysis.tables.markup import Entry, Printed, csv_lines
from recstudy.analysis.tables.render import entry, seeds_text
from recstudy.report import Differences
from recstudy.report.names import DASH, metric, plural

CSV_HEADS = ["row", "base", "metric", "unit", "mean", "base_mean", "difference", "low", "high", "pairs", "expected", "seeds"]
CSV_HEADS += ["missing", "p", "p_holm", "detectable", "more_seeds", "published_difference", "sources", "reasons", "verdict"]
CSV_HEADS += ["run_ids", "synthetic"]
VERDICT = 5  # its column
DETECTABLE = "Detectable: the least true difference that so many pairs of this spread show in 4 of 5 repetitions"
OF_TWO = "A published difference is of two published numbers, whose seeds and spread are unknown"


def printed(records: StudyRecords, spec: Differences, data: DifferencesData) -> Printed:
    """One line a variant, under its base's."""
    reasons = list(dict.fromkeys("; ".join(found.reasons) for row in data.rows for found in row.published if found.reasons))
    heads, beside = columns(spec, data), any(row.published for row in data.rows)
    lines: list[list[Entry]] = []
    for base in dict.fromkeys(row.base for row in data.rows):
        rows = [row for row in data.rows if row.base == base]
        blank = [Entry(DASH)] * (len(heads) - VERDICT)
        lines.append([Entry(base), entry(rows[0].theirs), *[Entry(DASH)] * 3, Entry("base"), *blank])
        lines += [_line(row, reasons, beside) for row in rows]
    variants = records.chosen(spec.where)
    return Printed(
        name=spec.name,
        title=spec.heading,
        heads=["variant", *heads],
        lines=lines,
        caption=caption(records, variants),
        warnings=warnings(records),
        notes=[*_notes(data, reasons, beside), *text_notes(records, variants, [spec.metric])],
        prose=frozenset({VERDICT}),
    )


def columns(spec: Differences, data: DifferencesData) -> list[str]:
    """The heads of the columns behind the label."""
    heads = [metric(spec.metric).heading, "difference", "95 % interval", "p (Holm)", "verdict", "pairs", "detectable"]
    return [*heads, *(["published difference"] if any(row.published for row in data.rows) else [])]


def csv_text(data: DifferencesData) -> str:
    """One line a variant, in full precision."""
    rows = []
    for row in data.rows:
        named = [row.label, row.base, row.ours.metric, metric(row.ours.metric).unit, row.ours.value, row.theirs.value]
        pairs = [*row.interval[:3], len(row.seeds), row.expected, " ".join(map(str, row.seeds)), "; ".join(row.missing)]
        tested = [row.p, row.adjusted, row.detectable, _more(row)]
        published = [" ".join(repr(found.value) for found in row.published), "; ".join(found.sources for found in row.published)]
        reasons = "; ".join(dict.fromkeys(reason for found in row.published for reason in found.reasons))
        run_ids = " ".join([*row.run_ids, *row.base_ids])
        rows.append([*named, *pairs, *tested, *published, reasons, row.verdict, run_ids, row.ours.synthetic])
    return csv_lines(CSV_HEADS, rows)


def signed(name: str, value: float | None) -> str:
    """`+0.42`, with one digit more than the metric's own numbers have: differences are smaller than scores."""
    if value is None:
        return DASH
    form = metric(name).form
    return format(value, f"+{form[:-2]}{int(form[-2]) + 1}{form[-1]}")


def signed_interval(name: str, low: float | None, high: float | None) -> str:
    return DASH if low is None else f"{signed(name, low)} to {signed(name, high)}"


def p_text(p: float | None) -> str:
    return DASH if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def _line(row: Difference, reasons: Sequence[str], beside: bool) -> list[Entry]:
    name, interval, more = row.ours.metric, row.interval, _more(row)
    of = f" of {row.expected}" if len(row.seeds) < row.expected else ""
    hope = f"about {plural(more, 'more seed')} would settle a difference of this size" if more else ""
    behind = _origin(row)
    return [
        Entry(row.label),
        entry(row.ours),
        Entry(signed(name, interval.mean), hint=", ".join(signed(name, value) for value in row.values), origin=behind),
        Entry(signed_interval(name, interval.low, interval.high), origin=behind),
        Entry(p_text(row.adjusted), hint=f"alone {p_text(row.p)}" if row.p is not None else "", origin=behind),
        Entry(row.verdict, hint=hope),
        Entry(f"{len(row.seeds)}{of}", hint="; ".join(row.missing)),
        Entry(signed(name, row.detectable).removeprefix("+"), origin=behind),
        *([_published(row.published, name, reasons)] if beside else []),
    ]


def _origin(row: Difference) -> str:
    """The runs of the pairs, their seeds, and the code that made them; empty where there is no pair."""
    if not row.seeds:
        return ""
    commits = dict.fromkeys([*row.ours.commits, *row.theirs.commits])
    return "; ".join([f"runs {' '.join(row.run_ids)} minus {' '.join(row.base_ids)}", seeds_text(row.seeds), *commits])


def _published(found: Sequence[PublishedDifference], name: str, reasons: Sequence[str]) -> Entry:
    """`-0.4 (of two numbers) [1]`."""
    texts = [
        f"{format(difference.value, '+' + metric(name).form)} (of two numbers){_mark(difference, reasons)}"
        for difference in found
    ]
    return Entry(", ".join(dict.fromkeys(texts)) or DASH, hint="; ".join(difference.sources for difference in found))


def _mark(difference: PublishedDifference, reasons: Sequence[str]) -> str:
    return f" [{reasons.index('; '.join(difference.reasons)) + 1}]" if difference.reasons else ""


def _notes(data: DifferencesData, reasons: Sequence[str], beside: bool) -> list[str]:
    """How to read the table, and every pair that is missing."""
    how = "Difference: variant minus base, mean over the seeds that both have, with its own 95 % interval"
    tests = f"p: two-sided paired t test, adjusted for {plural(data.tests, 'row')} (Holm); the verdict is by it, at 0.05"
    lost = [f"{row.label}: no pair at {'; '.join(row.missing)}" for row in data.rows if row.missing]
    lost += [f"{plural(data.homeless, 'published value')} without a place among these variants"] if data.homeless else []
    against = [f"[{at}] not comparable: {reason}" for at, reason in enumerate(reasons, 1)]
    return [f"{how}. {tests}", DETECTABLE, *([OF_TWO] if beside else []), *lost, *against]


def _more(row: Difference) -> int | None:
    if row.verdict != "no difference shown":
        return None
    return seeds_to_show(contrast([row.values], [1.0], [own(row.values)]), len(row.values), 1)
