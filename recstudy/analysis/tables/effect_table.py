"""Effects in words: a table with an interval and the aliases of each."""

from recstudy.analysis.caveats import caption, text_notes, warnings
from recstudy.analysis.cells import commit
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.spreads import pairing_note, spread_notes
from recstudy.analysis.tables.difference_table import p_text, signed, signed_interval
from recstudy.analysis.tables.effects import Effect, EffectsData
from recstudy.analysis.tables.markup import Entry, Printed, csv_lines
from recstudy.analysis.tables.render import seeds_text
from recstudy.report import Effects
from recstudy.report.names import DASH, axis_title, metric, plain, plural

CSV_HEADS = ["effect", "order", "metric", "unit", "size", "low", "high", "seeds", "p", "p_holm", "aliases", "values"]
CSV_HEADS += ["plus_run_ids", "minus_run_ids"]
HEADS = ("effect", "size", "95 % interval", "seeds", "p (Holm)", "cannot be told from")


def printed(records: StudyRecords, spec: Effects, data: EffectsData) -> Printed:
    """One line an effect; all of them rest on the same runs, each on other halves of them."""
    lines = [_line(data, effect, spec.metric) for effect in data.effects]
    variants = records.chosen(spec.where)
    return Printed(
        name=spec.name,
        title=spec.heading,
        heads=HEADS,
        lines=lines,
        caption=caption(records, variants),
        warnings=warnings(records),
        notes=[
            *_notes(spec, data),
            *spread_notes(records, variants, [spec.metric]),
            *text_notes(records, variants, [spec.metric]),
        ],
        prose=frozenset({len(HEADS) - 1}),
    )


def csv_text(data: EffectsData, name: str) -> str:
    """One line an effect, in full precision; `values` are those of the seeds: the mean of plus runs less that of minus runs."""
    rows = []
    for effect in data.effects:
        known = [effect.title, len(effect.axes), name, metric(name).unit, *effect.test[:3], len(effect.values)]
        halves = [" ".join(run.id for run in data.half(effect, sign)) for sign in (1, -1)]
        rows.append(
            [
                *known,
                effect.found.p if effect.found else None,
                effect.adjusted,
                effect.aliased,
                " ".join(map(repr, effect.values)),
                *halves,
            ]
        )
    return csv_lines(CSV_HEADS, rows)


def _line(data: EffectsData, effect: Effect, name: str) -> list[Entry]:
    found, behind = effect.test, _origin(data, effect)
    runs = tuple(run.id for sign in (1, -1) for run in data.half(effect, sign)) if data.seeds else ()
    return [
        Entry(effect.title),
        Entry(
            signed(name, found.value),
            hint=", ".join(signed(name, value) for value in effect.values),
            origin=behind,
            runs=runs,
        ),
        Entry(signed_interval(name, found.low, found.high), origin=behind, runs=runs),
        Entry(str(len(effect.values))),
        Entry(p_text(effect.adjusted), hint=f"alone {p_text(found.p)}" if found.p is not None else "", origin=behind, runs=runs),
        Entry(effect.aliased or DASH),
    ]


def _origin(data: EffectsData, effect: Effect) -> str:
    """The runs of both halves, their seeds, and the code that made them; empty where no seed is whole."""
    if not data.seeds:
        return ""
    plus, minus = (data.half(effect, sign) for sign in (1, -1))
    runs = f"mean of runs {' '.join(run.id for run in plus)} minus mean of {' '.join(run.id for run in minus)}"
    return "; ".join([runs, seeds_text(data.seeds), *dict.fromkeys(map(commit, [*plus, *minus]))])


def _notes(spec: Effects, data: EffectsData) -> list[str]:
    """What the numbers are, what the design leaves open, and every seed that is missing."""
    levels = "; ".join(f"{axis_title(axis)} {plain(low)} to {plain(high)}" for axis, (low, high) in data.levels.items())
    unit = f", in {metric(spec.metric).unit}" if metric(spec.metric).unit else ""
    size = f"Size: mean at the second level minus mean at the first{unit} ({levels})"
    between = "of an interaction, half of what one axis adds to the other's effect"
    tested = sum(effect.adjusted is not None for effect in data.effects)
    how = f"by the spread of all cells over {plural(len(data.seeds), 'seed')}"
    tests = f"p: two-sided t test {how}, adjusted for {plural(tested, 'row')} (Holm); {pairing_note(data.pairing)}"
    cells, whole = len(data.effects) + 1, 2 ** len(data.levels)
    aliased = any(effect.aliases for effect in data.effects)
    part = (
        f"1/{whole // cells} of the {whole} combinations was planned: a row's size is the sum of all that it cannot be told from"
    )
    return [f"{size}; {between}", tests, *([part] if aliased else []), *data.missing]
