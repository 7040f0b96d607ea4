"""One number of a table, named TABLE:ROW:COLUMN, and everything behind it: its runs, and how it follows from theirs.

Each of the three is a label, the beginning of one alone, or, of rows and columns, a number from 1 on. A label as it stands goes
before a number, and a number before a beginning. Labels may have colons of their own. Columns of settings are counted last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from recstudy.analysis.cells import Cell, gap, with_items_of
from recstudy.analysis.fits import fits_of
from recstudy.analysis.frame import StudyRecords, load_studies
from recstudy.analysis.questions import Family, QuestionRow
from recstudy.analysis.shown import Explained, problem
from recstudy.analysis.tables.entries import Interval
from recstudy.analysis.tables.question_table import form, interval_words, p_words, signed, verdict_words
from recstudy.analysis.tables.render import cell_text, outcome_words, settings_text
from recstudy.analysis.targets import Placed, deviation_text
from recstudy.errors import ConfigError, choices, nearest
from recstudy.evidence import ALPHA, POWER, Answer, Verdict
from recstudy.plugins import reading
from recstudy.records import Results
from recstudy.report.names import improved, metric, number, plain, plural
from recstudy.terminal import shortest

HEADS = ("run", "seed", "variant", "value", "commit", "data checksum", "machine", "finished")
SHORT = 12  # characters of a checksum or commit that tell it apart


@dataclass(frozen=True)
class Behind:
    """A number as its table has it, the ids of its runs with the value of each, and how it follows from them."""

    number: str
    runs: tuple[tuple[str, float], ...]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class NamedNumber:
    """The labels of a place in a table, and what is behind the number that stands there."""

    table: str
    row: str
    column: str
    behind: Explained


def show_cell(studies: Sequence[tuple[Results, str, str]], name: str, out: Console) -> None:
    """Print what is behind a number; of several studies (results folder, name, preset), the one that has its table.

    Raises:
        ConfigError: no study or more than one has it.
        StorageError: none that can be read has it, and one is damaged.
    """
    readable, damaged = load_studies(studies)
    wanted = name.partition(":")[0]
    having = [records for records in readable.values() if wanted in tables_of(records)]
    if damaged and not having:
        raise damaged[0]
    if len(readable) != 1 and len(having) != 1:
        named = ((records.plan, ", ".join(tables_of(records))) for records in readable.values())
        known = choices(f"studies/{plan.study}/{plan.folder} ({tables})" for plan, tables in named)
        count = f"{len(having)} studies here have" if having else "no study here has"
        raise ConfigError(f"{count} a table {wanted!r}: give one study's folder. There are {known}.")
    (records,) = readable.values() if len(readable) == 1 else having
    with reading(records.plugins):
        found = find(records, name)
        told = found.behind(records)
    out.print(Text(f"{found.table}, row {found.row!r}, column {found.column!r}: {told.number}", style="bold"), soft_wrap=True)
    shown = RichTable(*HEADS, box=None)
    for row in runs_behind(records, told):
        shown.add_row(*map(Text, row))
    out.print(shown if told.runs else Text("No run is behind it."))
    for line in told.lines:
        out.print(Text(line), soft_wrap=True)
    out.print(Text(f"Records: {shortest(records.results.root / 'runs')}/RUN"), soft_wrap=True)


def runs_behind(records: StudyRecords, told: Behind) -> list[tuple[str, ...]]:
    """Return a row of words a run, under `HEADS`."""
    rows = {row.id: row for row in records.rows}
    shown: list[tuple[str, ...]] = []
    for run_id, value in told.runs:
        row, made = rows[run_id], rows[run_id].provenance
        commits = ", then ".join(part[:SHORT] for part in (made.made_by or "unknown").split(", then "))
        commits += " with uncommitted changes" * made.dirty
        machine = ", ".join(filter(None, (made.hardware.host, made.hardware.gpu or made.hardware.cpu)))
        own = row.id, str(row.seed), row.label, f"{value:.10g}"
        shown.append((*own, commits, made.data_checksum[:SHORT], machine, made.finished))
    return shown


def find(records: StudyRecords, name: str) -> NamedNumber:
    """Return what `name` (TABLE:ROW:COLUMN) names.

    Raises:
        ConfigError: no or more than one table, row or column is called so. The message names those there are.
    """
    wanted, _, place = name.partition(":")
    known = tables_of(records)
    if not known or not place.strip(":"):
        raise ConfigError(
            f"a cell is named TABLE:ROW:COLUMN, but got {name!r}. Tables of {records.plan.study}: {choices(known) or 'none'}."
        )
    table = [part for part in records.parts if part.explained][_one("table", wanted, known, numbered=False)]
    try:
        columns, rows = table.shown(records).places()
    except Exception as error:
        raise ConfigError(problem(table, error)) from None
    row, column = _split(place, [label for label, _ in rows], columns)
    return NamedNumber(table.name, rows[row][0], columns[column], rows[row][1][column])


def tables_of(records: StudyRecords) -> list[str]:
    """Return the names of the parts whose numbers can be explained."""
    return [part.name for part in records.parts if part.explained]


def _split(place: str, rows: Sequence[str], columns: Sequence[str]) -> tuple[int, int]:
    """Cut ROW:COLUMN, of which either may have colons of its own: the first way to cut it that names both."""
    words = place.split(":")
    cuts = [(":".join(words[:at]), ":".join(words[at:])) for at in range(1, len(words))] or [(place, "")]
    errors = []
    for row, column in cuts:
        try:
            return _one("row", row, rows), _one("column", column, columns)
        except ConfigError as error:
            errors.append(error)
    raise errors[0]


def _one(what: str, wanted: str, labels: Sequence[str], numbered: bool = True) -> int:
    """Return where the label that is meant stands."""
    wanted = wanted.strip()
    exact = [at for at, label in enumerate(labels) if wanted in (label, label.partition(" (")[0])]  # with or without its unit
    if not exact and numbered and wanted.isdecimal() and 1 <= int(wanted) <= len(labels):
        return int(wanted) - 1
    found = exact or [at for at, label in enumerate(labels) if wanted and label.lower().startswith(wanted.lower())]
    if len(found) == 1:
        return found[0]
    shown = choices(f"{at} {label!r}" if numbered else repr(label) for at, label in enumerate(labels, 1))
    if found:
        raise ConfigError(f"{wanted!r} matches {len(found)} {what}s; be more specific{', or give a number' * numbered}: {shown}")
    raise ConfigError(f"no {what} {wanted!r}: there are {shown}.{nearest(wanted, labels)}")


def cell_behind(records: StudyRecords, cell: Cell) -> Behind:
    """Return the mean of a cell, what is not in it, and what is published; of a ratio, the runs of both variants."""
    wide = with_items_of(records, cell).items
    ends = (
        f": {Interval(*wide.interval, '.6g')}, by the variance over seeds plus that over items" if wide and wide.interval else ""
    )
    lines = [
        *_arithmetic(records, cell),
        *([f"95 % interval over seeds and test items{ends}"] if ends else []),
        *_others(records, cell),
        *(f"Not available: {why}" for why in cell.unavailable),
        *(line for placed, answer in cell.answers for line in _published(placed, answer)),
        *([] if cell.placed else ["Published: no value belongs here."]),
    ]
    runs = (*zip(cell.run_ids, cell.values, strict=True), *_other_side(records, cell))
    return Behind(f"{metric(cell.metric).heading} {cell_text(cell)}", runs, tuple(lines))


def setting_behind(_: StudyRecords, setting: dict[str, str]) -> Behind:
    """Return a setting of a row, by field."""
    fields = [f"{path} = {word}" for path, word in setting.items()]
    return Behind(settings_text(tuple(setting.values())), (), ("A setting of the row, from its config:", *fields))


def mean_line(values: Sequence[float]) -> str:
    """Say how a mean follows from its values."""
    return f"Mean: ({' + '.join(f'{value:.10g}' for value in values)}) / {len(values)} = {mean(values):.10g}"


def spread_line(records: StudyRecords, variant: int, name: str) -> str:
    """Say how the spread of a variant's seeds is judged; empty where none is known."""
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


def _other_side(records: StudyRecords, cell: Cell) -> list[tuple[str, float]]:
    scores = {row.id: row.value(improved(cell.metric)) for row in records.rows if row.id in cell.against}
    return [(run_id, float(scores[run_id] or 0.0)) for run_id in cell.against]


def _arithmetic(records: StudyRecords, cell: Cell) -> Iterator[str]:
    """Say how a mean or a relative improvement, and its interval, follow from the runs."""
    found, name = cell.estimate, improved(cell.metric) or cell.metric
    if not cell.values:
        yield f"No number: {cell_text(cell)}"
        return
    yield mean_line(cell.values)
    if cell.against:
        theirs = [value for _, value in _other_side(records, cell)]
        row, ours = mean(cell.values), mean(theirs)
        more, less = (row, ours) if metric(name).better == "lower" else (ours, row)
        yield f"{next(run.label for run in records.rows if run.id in cell.against)}: {mean_line(theirs)}"
        yield f"100 * ({more:.10g} - {less:.10g}) / {row:.10g} = {cell.value:.10g}"
    elif metric(name).computed:
        yield "It follows from the config, so that seeds do not matter and it has no interval."
        return
    elif found.split:
        share = f"{100 * found.split.low:.0f} to {100 * found.split.high:.0f} %"
        yield f"{found.split.learned} of {found.split.of} seeds learned (exact interval {share}): no interval over both kinds"
        return
    if found.interval or cell.against:
        variants = dict.fromkeys(run.variant for run in records.rows if run.id in (*cell.run_ids, *cell.against))
        yield from filter(None, dict.fromkeys(spread_line(records, variant, name) for variant in variants))
    if found.interval is None:
        yield "95 % interval: none, no spread over seeds is known."
        return
    how = "mean \N{PLUS-MINUS SIGN} t s / sqrt(n) there and back"
    if cell.against:
        how = "of a ratio of two means (delta method)"
    elif found.why:
        how = "exact (Clopper-Pearson) over the distinct test items"
    yield f"95 % interval: {Interval(*found.interval, '.6g')}, {how}"


def _others(records: StudyRecords, cell: Cell) -> Iterator[str]:
    """Name the other runs of the same variants, and why they are not in the cell."""
    counted = {*cell.run_ids, *cell.against}
    variants = {row.variant for row in records.rows if row.id in counted}
    for row in (row for row in records.rows if row.variant in variants and row.id not in counted):
        why = gap(row, improved(cell.metric) or cell.metric) or "finished, and of another purpose than this cell"
        yield f"Not in it: run {row.id}, seed {row.seed}, {row.label}: {why}"


def _published(placed: Placed, answer: Answer[str]) -> Iterator[str]:
    """Return the published value, its source and settings, and how the verdict follows."""
    target, found = placed.target, answer.estimate
    note = f" Note: {target.note}." if target.note else ""
    yield f"Published: {number(target.metric, placed.value)} {metric(target.metric).unit} ({target.kind}), {target.cited}.{note}"
    yield f"    of {', '.join(f'{path} {plain(value)}' for path, value in target.where.items())}"
    yield f"Verdict: {outcome_words(placed, answer)}"
    if answer.verdict is Verdict.NOT_COMPARABLE:
        yield f"    {'; '.join(answer.reasons)}"
    elif answer.prediction and answer.prediction.interval and found.interval:
        margin = f"margin {answer.question.within:.4g} ({target.margin_reason or 'no reason stated'})"
        ends = Interval(*answer.prediction.interval, ".6g")
        yield f"    95 % interval {Interval(*found.interval, '.6g')}, {margin}; one more run would lie in {ends}"
    yield from (f"    although {deviation_text(one)}" for one in placed.deviations)


def question_behind(records: StudyRecords, row: QuestionRow, family: Family) -> Behind:
    """Say what each variant adds, how estimate, interval and p follow, Holm's step, and what is published."""
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
        ends, alone = Interval(*row.items.interval, form(row.metric)), p_words(row.over_items_alone)
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
