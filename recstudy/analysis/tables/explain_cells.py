"""What is behind a mean over runs, or over the relative improvements of pairs of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean

from scipy.special import stdtrit

from recstudy.analysis.cells import Cell, gap
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.items import with_images_of
from recstudy.analysis.rows import Row
from recstudy.analysis.stats import LEVEL, Spread, interval, prediction_interval
from recstudy.analysis.tables.labels import settings_text
from recstudy.analysis.tables.render import cell_text
from recstudy.analysis.targets import Placed, deviation_text, why_open
from recstudy.report.names import improved, metric, number, plain


@dataclass(frozen=True)
class Behind:
    """A number as its table has it, the ids of its runs with the value of each, and how it follows from them."""

    number: str
    runs: tuple[tuple[str, float], ...]
    lines: tuple[str, ...]


def cell_behind(records: StudyRecords, cell: Cell) -> Behind:
    """The mean of a cell, what is not in it, and what is published."""
    lines = [
        *_pairs(records, cell),
        *_arithmetic(cell),
        *_images(with_images_of(records, cell)),
        *(f"Not in it: run {run.id}, seed {run.seed}, {run.label}: {why}" for run, why in _others(records, cell)),
        *(f"Not available: {why}" for why in cell.unavailable),
        *(line for placed in cell.placed for line in _published(placed, cell)),
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


def interval_lines(values: Sequence[float], spread: Spread | None) -> Iterator[str]:
    """How mean and 95 % interval follow from at least one value and the spread of its seeds."""
    yield mean_line(values)
    found = interval(values, spread)
    if spread is None or found.low is None:
        yield f"95 % interval: none, {'of one run' if len(values) == 1 else 'because all runs agree'}, and no spread is known."
        return
    n, logits = len(values), spread.scale.items > 0
    alone = f"of these values{f', because {spread.why}' if spread.why else ''}"
    whose = f"pooled over {spread.variants} variants" if spread.variants > 1 else alone
    unit = f" on the scale ln(share / (1 - share)), with half an answer of {spread.scale.items:,} added to both" if logits else ""
    yield f"Standard deviation s over seeds, {whose}, {spread.df:g} degrees of freedom: {spread.sd:.4g}{unit}"
    factor = float(stdtrit(spread.df, 0.5 + LEVEL / 2))
    half = f"{factor:.4g} * {spread.sd:.4g} / sqrt({n}) = {factor * spread.sd / n**0.5:.4g}{' on that scale' if logits else ''}"
    yield f"95 % interval: {found.low:.6g} to {found.high:.6g}, the mean ± t(0.975; {spread.df:g}) * s / sqrt(n) = {half}"


def _runs(records: StudyRecords, cell: Cell) -> tuple[tuple[str, float], ...]:
    """Of a relative improvement, both runs of each pair with what was measured in them."""
    if not cell.against:
        return tuple(zip(cell.run_ids, cell.values, strict=True))
    scores = {row.id: float(row.value(improved(cell.metric)) or 0.0) for row in records.rows}
    return tuple((run_id, scores[run_id]) for pair in zip(cell.run_ids, cell.against, strict=True) for run_id in pair)


def _pairs(records: StudyRecords, cell: Cell) -> Iterator[str]:
    """Each seed's improvement from the two runs that it is of."""
    if cell.against:
        scores = [value for _, value in _runs(records, cell)]
        lower = metric(improved(cell.metric)).better == "lower"
        for seed, row, ours, value in zip(cell.seeds, scores[::2], scores[1::2], cell.values, strict=True):
            gain = (row, ours) if lower else (ours, row)
            yield f"Seed {seed}: 100 * ({gain[0]:.10g} - {gain[1]:.10g}) / {row:.10g} = {value:.10g}"


def _arithmetic(cell: Cell) -> Iterator[str]:
    if not cell.values:
        yield f"No number: {cell_text(cell)}"
    elif metric(cell.metric).computed:
        yield mean_line(cell.values)
        yield "It follows from the config, so that seeds do not matter and it has no interval."
    else:
        yield from interval_lines(cell.values, cell.spread)


def _images(cell: Cell) -> Iterator[str]:
    if cell.items is not None:
        ends = f"{cell.items.low:.6g} to {cell.items.high:.6g}"
        yield f"95 % interval over seeds and test images: {ends}, by the variance over seeds plus that over images"


def _others(records: StudyRecords, cell: Cell) -> Iterator[tuple[Row, str]]:
    """The other runs of the same variants, and why they are not in the cell."""
    variants = {row.variant for row in records.rows if row.id in cell.run_ids}
    name = improved(cell.metric) or cell.metric
    for row in records.rows:
        if row.variant in variants and row.id not in cell.run_ids:
            spare = "finished, without a pair" if improved(cell.metric) else "finished, and of another purpose than this cell"
            yield row, gap(row, name) or spare


def _published(placed: Placed, cell: Cell) -> Iterator[str]:
    """The published value, its source and settings, and how the verdict follows."""
    target = placed.target
    note = f" Note: {target.note}." if target.note else ""
    yield f"Published: {number(target.metric, placed.value)} {metric(target.metric).unit} ({target.kind}), {target.cited}.{note}"
    yield f"    of {', '.join(f'{path} {plain(value)}' for path, value in target.where.items())}"
    verdict = placed.verdict(cell.values, cell.spread, cell.lost)
    yield f"Verdict: {verdict}{_why(verdict, placed, cell)}"
    yield from [f"    {placed.assumed}"] if placed.assumed else []
    yield from (f"    although {deviation_text(one)}" for one in placed.deviations)


def _why(verdict: str, placed: Placed, cell: Cell) -> str:
    margin = f"{placed.margin:.4g} {metric(cell.metric).unit}".strip()
    match verdict:
        case "not comparable":
            return f": {'; '.join(placed.reasons)}"
        case "not run":
            return ""
        case "reproduced" if metric(cell.metric).computed:
            return f": the count rounds to the published digits (within {margin})"
        case "differs" if metric(cell.metric).computed:
            return f": the count is more than {margin} off"
        case "reproduced":
            return f": both one-sided t tests at 0.05 place the mean within {margin} of it (equivalence)"
        case "undecided":
            return f": {why_open(cell.values, cell.lost)}{', so that the rest may be the lucky ones' if cell.lost else ''}"
        case _:
            _, low, high, _ = prediction_interval(cell.values, cell.spread)
            side = "within" if verdict == "consistent" else "outside"
            where = f"it lies {side} the 95 % prediction interval of one more run, {low:.6g} to {high:.6g}"
            return f": {where}, and the mean was not shown to be within the margin of {margin}"
