"""What is behind a difference from a base, an effect of a factorial and a claim: its runs, and its test."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean

from scipy.special import stdtrit

from recstudy.analysis.contrasts import Contrast
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.analysis.stats import ALPHA, LEVEL, POWER, Spread
from recstudy.analysis.tables.claims import Judged
from recstudy.analysis.tables.difference_table import items_text, p_text, signed
from recstudy.analysis.tables.differences import Difference, DifferencesData
from recstudy.analysis.tables.effects import Effect, EffectsData
from recstudy.analysis.tables.explain_cells import Behind, mean_line
from recstudy.report.names import axis_title, metric, number, plain, plural


def difference_behind(records: StudyRecords, row: Difference, data: DifferencesData) -> Behind:
    """The runs of both, how difference, interval and p follow from them, and what is published."""
    scores = {run.id: float(run.value(row.ours.metric) or 0.0) for run in records.rows}
    runs = [(run_id, scores[run_id]) for run_id in (*row.run_ids, *row.base_ids)]
    lines = [
        *_sides(row, scores),
        *_tested(row.label, row.found, [(one.label, one.found) for one in data.rows]),
        *([f"Test images as a sample, too: {items_text(row)}"] if items_text(row) else []),
        *_concluded(row),
        *(f"Not in it: {why}" for why in row.missing),
        *_published(row),
    ]
    name, middle = metric(row.ours.metric).heading, signed(row.ours.metric, row.found.value)
    return Behind(f"{name} {middle}, {row.label} minus {row.base}: {row.verdict}", tuple(runs), tuple(lines))


def effect_behind(_: StudyRecords, effect: Effect, data: EffectsData) -> Behind:
    """The runs of both halves, and how size, interval and p follow from them."""
    name, halves = data.metric, {sign: data.half(effect, sign) for sign in (1, -1)}
    runs = [(run.id, run.number(name)) for half in halves.values() for run in half]
    lines = [
        *(f"{words}: {_labels(halves[sign])}" for sign, words in ((1, "Counted up"), (-1, "Counted down")) if runs),
        *_halves(effect, data),
        *_errors(effect.test, data.spreads, data.pairing is not None and data.pairing.helps),
        *_tested(effect.title, effect.test, [(one.title, one.test) for one in data.effects]),
        *(f"Not in it: {why}" for why in data.missing),
        *([f"Cannot be told from: {effect.aliased}"] if effect.aliases else []),
    ]
    levels = ((axis, *data.levels[axis]) for axis in effect.axes)
    of = ", ".join(f"{axis_title(axis)} {plain(low)} to {plain(high)}" for axis, low, high in levels)
    return Behind(f"{metric(name).heading} {signed(name, effect.test.value)} ({of})", tuple(runs), tuple(lines))


def claim_behind(_: StudyRecords, one: Judged, judged: Sequence[Judged]) -> Behind:
    """What each variant adds, how interval and p follow from the spread, and Holm's step."""
    name, value = one.claim.metric, one.found.value if one.found else None
    runs = [pair for term in one.terms for pair in zip((run.id for run in term.runs), term.values, strict=True)]
    lines = [f"Claimed: {one.claim.contrast}", *_added(one), *_judged(one, judged), *(f"Not in it: {why}" for why in one.lost)]
    return Behind(f"{metric(name).heading} {signed(name, value)}: {one.verdict}", tuple(runs), tuple(lines))


def _added(one: Judged) -> Iterator[str]:
    for term in one.terms:
        if term.values:
            values = " + ".join(f"{value:.10g}" for value in term.values)
            yield f"{term.weight:+.4g} * {term.runs[0].label}: ({values}) / {len(term.values)} = {mean(term.values):.10g}"
    for spread in dict.fromkeys(term.spread for term in one.terms if term.spread):
        of = f"pooled over {plural(spread.variants, 'variant')}" if spread.variants > 1 else spread.why or "of one variant"
        unit = " in logits" if spread.scale.items else ""
        yield f"Standard deviation over seeds: {spread.sd:.4g}{unit}, {spread.df:g} degrees of freedom, {of}"


def _judged(one: Judged, judged: Sequence[Judged]) -> Iterator[str]:
    if one.found is None or one.edge is None or one.interval is None:
        yield "Neither interval nor p: no spread over seeds is known."
        return
    yield f"Sum: {one.found.value:.6g}, standard error {one.found.error:.4g}, {one.found.df:.4g} degrees of freedom"
    step = f"its Holm step over {plural(len(judged), 'claim')}"
    yield f"Interval at {1 - one.alpha:.2%}, {step}: {one.interval[0]:.6g} to {one.interval[1]:.6g}"
    if one.p is None:
        yield f"Not tested: {plural(one.left, 'run')} left to do, {len(one.lost)} without a value"
        return
    t = f"t = from there to the edge of the claim / standard error = {one.room:.6g} / {one.found.error:.4g}"
    yield f"p: {one.p:.4g}, two-sided, of {t}; {p_text(one.adjusted)} by Holm"


def _sides(row: Difference, scores: Mapping[str, float]) -> Iterator[str]:
    """Both means, or the differences of the pairs; and the spread that the difference goes by."""
    sides = [[scores[run_id] for run_id in own] for own in (row.run_ids, row.base_ids)]
    if row.paired:
        for seed, ours, theirs, value in zip(row.seeds, *sides, row.values, strict=True):
            yield f"Seed {seed}: {ours:.10g} - {theirs:.10g} = {value:.10g}"
        yield from [mean_line(row.values)] if row.values else []
    else:
        yield from (f"{label}: {mean_line(own)}" for label, own in zip((row.label, row.base), sides, strict=True) if own)
    yield from _errors(row.found, row.spreads, row.paired)


def _errors(found: Contrast, spreads: Sequence[Spread | None], paired: bool) -> Iterator[str]:
    """The spreads behind a contrast, and how its standard error follows."""
    if found.value is None:
        return
    if found.error is None:
        yield "Neither interval nor p: no spread is known."
        return
    for spread in dict.fromkeys(spread for spread in spreads if spread):
        logits = " on logits, turned into the metric's unit at each mean" if spread.scale.items else ""
        over = f"pooled over {plural(spread.variants, 'variant')}{', beside an effect of each seed' if paired else ''}"
        yield f"Standard deviation s over seeds, {over}, {plural(int(spread.df), 'degree')} of freedom: {spread.sd:.4g}{logits}"
    yield f"Standard error: the root of the sum of (weight * s)^2 / n over the variants: {found.error:.4g}"


def _halves(effect: Effect, data: EffectsData) -> Iterator[str]:
    """Each seed's effect: the mean of one half less the mean of the other."""
    for (seed, own), value in zip(data.runs.items(), effect.values, strict=True):
        plus, minus = (_mean([run for run, at in zip(own, effect.column, strict=True) if at == sign], data) for sign in (1, -1))
        yield f"Seed {seed}: {plus} - {minus} = {value:.10g}"


def _mean(runs: Sequence[Row], data: EffectsData) -> str:
    return f"({' + '.join(f'{run.value(data.metric):.10g}' for run in runs)}) / {len(runs)}"


def _tested(label: str, found: Contrast, known: Sequence[tuple[str, Contrast]]) -> Iterator[str]:
    """The interval, the t test against 0, and Holm's adjustment over all rows that are tested."""
    if found.value is None or found.error is None or found.df is None or found.p is None:
        return
    factor = float(stdtrit(found.df, 0.5 + LEVEL / 2))
    yield (
        f"95 % interval: {found.low:.6g} to {found.high:.6g}, {found.value:.6g} ± t(0.975; {found.df:.4g}) * standard error = "
        f"{factor:.4g} * {found.error:.4g}"
    )
    t = f"{found.value:.6g} / {found.error:.4g} = {found.value / found.error:.4g}"
    yield f"p: {found.p:.4g}, two-sided, of t = {t} with {found.df:.4g} degrees of freedom"
    tested = sorted(((one, other.p) for one, other in known if other.p is not None), key=lambda pair: pair[1])
    least = [one for one, _ in tested].index(label)
    steps = [f"{one!r} {other:.4g} * {len(tested) - at}" for at, (one, other) in enumerate(tested[: least + 1])]
    most = max(other * (len(tested) - at) for at, (_, other) in enumerate(tested[: least + 1]))
    order = f"Holm, over {plural(len(tested), 'test')} from the least p on"
    yield f"{order}: the largest of {'; '.join(steps)}, at most 1: {min(most, 1.0):.4g}"


def _concluded(row: Difference) -> Iterator[str]:
    if row.adjusted is not None:
        side = "below" if row.adjusted < ALPHA else "not below"
        yield f"Verdict: {row.verdict}: the adjusted p, {p_text(row.adjusted)}, is {side} {ALPHA:g}"
    else:
        yield f"Verdict: {row.verdict}"
    if row.detectable is not None:
        least, low, high = (signed(row.ours.metric, value).removeprefix("+") for value in row.detectable)
        found = f"a true difference of so much is shown in {POWER:.0%} of repetitions at the level of Holm's first step"
        yield f"Detectable: {least}, {low} to {high} by the uncertainty of s: {found}"


def _published(row: Difference) -> Iterator[str]:
    """Both published numbers, their difference, and what is said against it."""
    name = row.ours.metric
    for found in row.published:
        terms = f"{number(name, found.ours.value)} - {number(name, found.theirs.value)} = {found.value:+.6g}"
        yield f"Published: {terms} {metric(name).unit}, of two numbers without seeds: {found.sources}".replace(" ,", ",")
        yield from [f"    not comparable: {'; '.join(found.reasons)}"] if found.reasons else []
    yield from [] if row.published else ["Published: no difference belongs here."]


def _labels(runs: Sequence[Row]) -> str:
    return "; ".join(dict.fromkeys(run.label for run in runs))
