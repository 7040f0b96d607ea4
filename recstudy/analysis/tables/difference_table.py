"""Paired differences in words: a table with the base's own line above the variants that are compared with it."""

from collections.abc import Callable, Sequence

from recstudy.analysis.caveats import caption, text_notes, warnings
from recstudy.analysis.cells import Cell
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.spreads import pairing_note, spread_notes
from recstudy.analysis.tables.differences import Difference, DifferencesData, PublishedDifference
from recstudy.analysis.tables.markup import Entry, Printed, csv_lines
from recstudy.analysis.tables.render import cell_text, entry, number_text, seeds_text
from recstudy.analysis.targets import deviation_notes
from recstudy.report import Differences
from recstudy.report.names import DASH, metric, plural

CSV_HEADS = ["row", "base", "metric", "unit", "mean", "base_mean", "difference", "low", "high", "n", "base_n", "paired", "seeds"]
CSV_HEADS += ["missing", "p", "p_holm", "detectable", "detectable_low", "detectable_high", "more_seeds"]
CSV_HEADS += ["published_difference", "sources", "reasons", "verdict", "run_ids", "synthetic"]
CSV_HEADS += ["low_items", "high_items", "p_mcnemar"]
VERDICT = 5  # its column
OF_TWO = "A published difference is of two published numbers, whose seeds and spread are unknown"


def printed(records: StudyRecords, spec: Differences, data: DifferencesData, paper: bool = False) -> Printed:
    """One line a variant, under its base's; on paper, where a column says it, cells do not say how many seeds there are."""
    words = number_text if paper else cell_text
    reasons = list(dict.fromkeys("; ".join(found.reasons) for row in data.rows for found in row.published if found.reasons))
    heads, beside = columns(spec, data), any(row.published for row in data.rows)
    lines: list[list[Entry]] = []
    for base in dict.fromkeys(row.base for row in data.rows):
        rows = [row for row in data.rows if row.base == base]
        blank = [Entry(DASH)] * (len(heads) - VERDICT)
        lines.append([Entry(base), entry(rows[0].theirs, words), *[Entry(DASH)] * 3, Entry("base"), *blank])
        lines += [_line(row, reasons, beside, words) for row in rows]
    variants = records.chosen(spec.where)
    return Printed(
        name=spec.name,
        title=spec.heading,
        heads=["variant", *heads],
        lines=lines,
        caption=caption(records, variants),
        warnings=warnings(records),
        notes=[*_notes(records, spec, data, reasons, paper), *text_notes(records, variants, [spec.metric]), *_deviations(data)],
        prose=frozenset({VERDICT}),
    )


def columns(spec: Differences, data: DifferencesData) -> list[str]:
    """The heads of the columns behind the label."""
    heads = [metric(spec.metric).heading, "difference", "95 % interval", "p (Holm)", "verdict", "n", "detectable"]
    return [*heads, *(["published difference"] if any(row.published for row in data.rows) else [])]


def csv_text(data: DifferencesData) -> str:
    """One line a variant, in full precision."""
    rows = []
    for row in data.rows:
        named = [row.label, row.base, row.ours.metric, metric(row.ours.metric).unit, row.ours.value, row.theirs.value]
        behind = [*row.found[:3], *row.n, row.paired, " ".join(map(str, row.seeds)), "; ".join(row.missing)]
        tested = [row.found.p, row.adjusted, *(row.detectable or (None, None, None)), row.more or None]
        published = [" ".join(repr(found.value) for found in row.published), "; ".join(found.sources for found in row.published)]
        reasons = "; ".join(dict.fromkeys(reason for found in row.published for reason in found.reasons))
        items = [*(row.items[1:3] if row.items else (None, None)), row.mcnemar]
        run_ids = " ".join([*row.run_ids, *row.base_ids])
        rows.append([*named, *behind, *tested, *published, reasons, row.verdict, run_ids, row.ours.synthetic, *items])
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


def _line(row: Difference, reasons: Sequence[str], beside: bool, words: Callable[[Cell], str]) -> list[Entry]:
    name, found, least = row.ours.metric, row.found, row.detectable
    hope = f"about {plural(row.more, 'more seed')} of each would show a difference of this size" if row.more else ""
    behind, runs = _origin(row), (*row.run_ids, *row.base_ids)
    unsure = f"{signed(name, least.low)} to {signed(name, least.high)}".replace("+", "") if least else ""
    return [
        Entry(row.label),
        entry(row.ours, words),
        Entry(signed(name, found.value), hint=", ".join(signed(name, one) for one in row.values), origin=behind, runs=runs),
        Entry(signed_interval(name, found.low, found.high), hint=items_text(row), origin=behind, runs=runs),
        Entry(p_text(row.adjusted), hint=f"alone {p_text(found.p)}" if found.p is not None else "", origin=behind, runs=runs),
        Entry(row.verdict, hint=hope, runs=runs),
        Entry(plural(row.n[0], "pair") if row.paired else "{}, {}".format(*row.n), hint="; ".join(row.missing), runs=runs),
        Entry(f"{signed(name, least.value).removeprefix('+')} ({unsure})" if least else DASH, origin=behind, runs=runs),
        *([_published(row.published, name, reasons)] if beside else []),
    ]


def items_text(row: Difference) -> str:
    """The interval over seeds and test images, and the test over images alone; empty without answers."""
    if row.items is None:
        return ""
    wide = signed_interval(row.ours.metric, row.items.low, row.items.high)
    alone = f"over images alone p = {p_text(row.mcnemar)} (McNemar, not adjusted)"
    return f"over seeds and test images {wide}; {alone}"


def _origin(row: Difference) -> str:
    """The runs of both, their seeds, and the code that made them; empty where there is no difference."""
    if row.found.value is None:
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


def _notes(records: StudyRecords, spec: Differences, data: DifferencesData, reasons: Sequence[str], paper: bool) -> list[str]:
    """How to read the table, and every run that is missing."""
    how = "Difference: mean of the variant minus mean of its base, with its own 95 % interval; n: finished seeds of both"
    tests = f"p: two-sided t test by the spread of all variants, adjusted for {plural(data.tests, 'row')} (Holm)"
    shown = [index for index, variant in enumerate(records.variants) if variant.label in {row.label for row in data.rows}]
    lost = [
        f"{row.label}: {'no pair at' if row.paired else 'without'} {'; '.join(row.missing)}" for row in data.rows if row.missing
    ]
    lost += [f"{plural(data.homeless, 'published value')} with no matching variant"] if data.homeless else []
    against = [f"[{at}] not comparable: {reason}" for at, reason in enumerate(reasons, 1)]
    step = f"0.05 / {max(1, data.tests)}, Holm's first step"
    power = f"Detectable: the least true difference that such a test at {step}, shows in 4 of 5 repetitions"
    of_two = [OF_TWO] if any(row.published for row in data.rows) else []
    seen = "Over seeds and test images: in the CSV file and by each interval, with McNemar's test over the images alone"
    items = [seen] if any(row.items for row in data.rows) and not paper else []
    spread = [pairing_note(data.pairing), *spread_notes(records, shown, [spec.metric])]
    return [
        f"{how}. {tests}; the verdict is by it, at 0.05",
        f"{power}, and its range as far as the spread is known (95 %)",
        *spread, *items, *of_two, *lost, *against,
    ]  # fmt: skip


def _deviations(data: DifferencesData) -> tuple[str, ...]:
    """Of what is compared with the difference of two published numbers."""
    beside = [found for row in data.rows for found in row.published if not found.reasons]
    return deviation_notes(one for found in beside for one in (found.ours, found.theirs))
