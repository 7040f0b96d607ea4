"""What is behind a number: a mean over runs, a relative improvement, or the answer to a question."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean

from recstudy.analysis.cells import Cell, gap
from recstudy.analysis.fits import fits_of
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.items import with_items_of
from recstudy.analysis.questions import Asked, Family
from recstudy.analysis.rows import Row
from recstudy.analysis.tables.entries import Range
from recstudy.analysis.tables.labels import settings_text
from recstudy.analysis.tables.question_table import form, interval_words, p_words, signed, verdict_words
from recstudy.analysis.tables.render import cell_text, outcome_words
from recstudy.analysis.targets import Placed, deviation_text
from recstudy.evidence import ALPHA, POWER, Answer, Verdict
from recstudy.report.names import improved, metric, number, plain, plural


@dataclass(frozen=True)
class Behind:
    """A number as its table has it, the ids of its runs with the value of each, and how it follows from them."""

    number: str
    runs: tuple[tuple[str, float], ...]
    lines: tuple[str, ...]


def cell_behind(records: StudyRecords, cell: Cell) -> Behind:
    """The mean of a cell, what is not in it, and what is published."""
    lines = [
        *_arithmetic(records, cell),
        *_items(with_items_of(records, cell)),
        *(f"Not in it: run {run.id}, seed {run.seed}, {run.label}: {why}" for run, why in _others(records, cell)),
        *(f"Not available: {why}" for why in cell.unavailable),
        *(line for placed, answer in cell.answers for line in _published(placed, answer)),
        *([] if cell.placed else ["Published: no value belongs here."]),
    ]
    return Behind(f"{metric(cell.metric).heading} {cell_text(cell)}", _runs(records, cell), tuple(lines))


def setting_behind(_: StudyRecords, setting: dict[str, str]) -> Behind:
    """A setting of a row, by field."""
    fields = [f"{path} = {word}" for path, word in setting.items()]
    return Behind(settings_text(tuple(setting.values())), (), ("A setting of the row, from its config:", *fields))


def mean_line(values: Sequence[float]) -> str:
    """How a mean follows from its values."""
    return f"Mean: ({' + '.join(f'{value:.10g}' for value in values)}) / {len(values)} = {mean(values):.10g}"


def spread_line(records: StudyRecords, variant: int, name: str) -> str:
    """How the spread of a variant's seeds is judged; empty where none is known."""
    fit, key = fits_of(records, name).get(variant, (None, variant))
    found = fit.variance(key) if fit else None
    if fit is None or found is None:
        return ""
    own, prior = fit.own.get(key), fit.prior
    units = {"share": " on the angular scale arcsin(sqrt(share))", "log": " of logarithms", "linear": ""}
    parts = [f"own {own.value**0.5:.4g} with {own.df:g} degrees of freedom"] if own else []
    parts += [f"{prior.value**0.5:.4g} from all variants with {found.df - (own.df if own else 0):.3g}"] if prior else []
    parts += [f"at least {fit.scale.floor**0.5:.4g}, of {fit.scale.items:,} items alone"] if fit.scale.floor else []
    return (
        f"Standard deviation s over seeds{units[fit.scale.kind]}: {found.value**0.5:.4g}, df {found.df:.3g} ({'; '.join(parts)})"
    )


def _runs(records: StudyRecords, cell: Cell) -> tuple[tuple[str, float], ...]:
    """Of a relative improvement, the runs of both variants with what was measured in them."""
    return (*zip(cell.run_ids, cell.values, strict=True), *_other_side(records, cell))


def _other_side(records: StudyRecords, cell: Cell) -> list[tuple[str, float]]:
    scores = {row.id: row.value(improved(cell.metric)) for row in records.rows if row.id in cell.against}
    return [(run_id, float(scores[run_id] or 0.0)) for run_id in cell.against]


def _arithmetic(records: StudyRecords, cell: Cell) -> Iterator[str]:
    found = cell.estimate
    if not cell.values:
        yield f"No number: {cell_text(cell)}"
        return
    yield mean_line(cell.values)
    if cell.against:
        yield from _ratio(records, cell)
        return
    if metric(cell.metric).computed:
        yield "It follows from the config, so that seeds do not matter and it has no interval."
    elif found.split:
        share = f"{100 * found.split.low:.0f} to {100 * found.split.high:.0f} %"
        yield f"{found.split.learned} of {found.split.of} seeds learned (exact interval {share}): no interval over both kinds"
    elif found.interval is None:
        yield "95 % interval: none, no spread over seeds is known."
    else:
        variants = dict.fromkeys(row.variant for row in records.rows if row.id in cell.run_ids)
        lines = [spread_line(records, variant, cell.metric) for variant in variants]
        yield from filter(None, dict.fromkeys(lines))
        exact = (
            ", exact (Clopper-Pearson) over the distinct test items"
            if found.why
            else ", mean \N{PLUS-MINUS SIGN} t s / sqrt(n) there and back"
        )
        yield f"95 % interval: {Range(*found.interval, '.6g')}{exact}"


def _ratio(records: StudyRecords, cell: Cell) -> Iterator[str]:
    """How a relative improvement follows from the means of both variants."""
    name, theirs = improved(cell.metric), [value for _, value in _other_side(records, cell)]
    row, ours = mean(cell.values), mean(theirs)
    more, less = (row, ours) if metric(name).better == "lower" else (ours, row)
    label = next(run.label for run in records.rows if run.id in cell.against)
    yield f"{label}: {mean_line(theirs)}"
    yield f"100 * ({more:.10g} - {less:.10g}) / {row:.10g} = {cell.value:.10g}"
    variants = dict.fromkeys(run.variant for run in records.rows if run.id in (*cell.run_ids, *cell.against))
    yield from filter(None, dict.fromkeys(spread_line(records, variant, name) for variant in variants))
    if cell.estimate.interval:
        yield f"95 % interval: {Range(*cell.estimate.interval, '.6g')}, of a ratio of two means (delta method)"
    else:
        yield "95 % interval: none, no spread over seeds is known."


def _items(cell: Cell) -> Iterator[str]:
    if cell.items is not None and cell.items.interval:
        ends = Range(*cell.items.interval, ".6g")
        yield f"95 % interval over seeds and test items: {ends}, by the variance over seeds plus that over items"


def _others(records: StudyRecords, cell: Cell) -> Iterator[tuple[Row, str]]:
    """The other runs of the same variants, and why they are not in the cell."""
    counted = {*cell.run_ids, *cell.against}
    variants = {row.variant for row in records.rows if row.id in counted}
    name = improved(cell.metric) or cell.metric
    for row in records.rows:
        if row.variant in variants and row.id not in counted:
            yield row, gap(row, name) or "finished, and of another purpose than this cell"


def _published(placed: Placed, answer: Answer[str]) -> Iterator[str]:
    """The published value, its source and settings, and how the verdict follows."""
    target, found = placed.target, answer.estimate
    note = f" Note: {target.note}." if target.note else ""
    yield f"Published: {number(target.metric, placed.value)} {metric(target.metric).unit} ({target.kind}), {target.cited}.{note}"
    yield f"    of {', '.join(f'{path} {plain(value)}' for path, value in target.where.items())}"
    yield f"Verdict: {outcome_words(placed, answer)}"
    if answer.verdict is Verdict.NOT_COMPARABLE:
        yield f"    {'; '.join(answer.reasons)}"
    elif answer.prediction and answer.prediction.interval and found.interval:
        margin = f"margin {answer.question.within:.4g} ({target.margin_reason or 'no reason stated'})"
        ends = Range(*answer.prediction.interval, ".6g")
        yield f"    95 % interval {Range(*found.interval, '.6g')}, {margin}; one more run would lie in {ends}"
    yield from (f"    although {deviation_text(one)}" for one in placed.deviations)


def question_behind(records: StudyRecords, row: Asked, family: Family) -> Behind:
    """What each variant adds, how estimate, interval and p follow, Holm's step, and what is published."""
    answer, found = row.answer, row.estimate
    runs = [pair for term in row.terms for pair in zip((run.id for run in term.runs), term.values, strict=True)]
    lines = [f"Asked: {row.contrast or row.label}"]
    for term in row.terms:
        if term.values:
            lines.append(f"{term.weight:+.4g} * {term.label}: {mean_line(term.values)}")
            lines += filter(None, [spread_line(records, term.variant, term.of[0][0])])
    if found.value is not None and found.error is not None and found.df is not None:
        terms = "the root of the sum of (weight * slope * s)^2 / n"
        lines.append(f"Estimate {found.value:.6g}, standard error {found.error:.4g} ({terms}), df {found.df:.4g} (Satterthwaite)")
        lines.append(
            f"{interval_words(row)}: its Holm step over {plural(len(family.rows), 'question')}, at this look of the seeds"
        )
    if answer.p is not None and answer.room is not None:
        step = f"{p_words(answer.adjusted)} by Holm, to be held against {ALPHA:g}"
        lines.append(
            f"p: {answer.p:.4g}, two-sided, of t = {answer.room:.6g} / {found.error:.4g}, from the edge of what is asked; {step}"
        )
    if row.items and row.items.interval:
        ends, alone = Range(*row.items.interval, form(row.metric)), p_words(row.over_items_alone)
        lines.append(f"Test items as a sample, too: over seeds and test items {ends}; over items alone p = {alone} (McNemar)")
    if row.detectable:
        lines.append(
            f"Detectable: {signed(row.metric, row.detectable)}, a true difference of so much in {POWER:.0%} of repetitions"
        )
    lines.append(f"Verdict: {verdict_words(row)}")
    lines += [f"    {reason}" for reason in answer.reasons]
    lines += [f"Not in it: {why}" for why in row.lost]
    lines += [f"Cannot be told from: {row.aliases}"] if row.aliases else []
    for one in row.published:
        two = f"{number(row.metric, one.ours.value)} - {number(row.metric, one.theirs.value)} = {one.value:+.6g}"
        lines.append(f"Published: {two}, of two numbers without seeds: {one.ours.target.cited} minus {one.theirs.target.cited}")
        lines += [f"    not comparable: {'; '.join(one.reasons)}"] if one.reasons else []
    heading = f"{metric(row.metric).heading} {signed(row.metric, found.value)}: {verdict_words(row)}"
    return Behind(heading, tuple(runs), tuple(lines))
