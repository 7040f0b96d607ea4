"""What a reviewer asks of a study's runs: what they cost, and which of them are behind the numbers."""

from collections.abc import Iterator, Sequence

from recstudy import terminal
from recstudy.analysis.audit.findings import Finding, command, counted, done, setting, tasks, where
from recstudy.analysis.averaging import averaged_steps, outlasts
from recstudy.analysis.caveats import LEAK, is_synthetic
from recstudy.analysis.cells import Cell, TableData
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.analysis.stats import mean_of
from recstudy.analysis.tables.table import table_data
from recstudy.errors import ConfigError
from recstudy.report import Table
from recstudy.report.names import metric, plural

UNEQUAL = 1.5  # times the least training FLOPs, from which on a reader should know of it
COSTS = ("train_pflop", "train_gflops", "gflops")


def flops(records: StudyRecords) -> Iterator[Finding]:
    """Rows that compare were paid differently; a note where the report shows what each was paid."""
    for group in tasks(records):
        paid = {index: cost for index in group if (cost := _mean(records, index, "train_pflop"))}
        if len(paid) < 2 or max(paid.values()) < UNEQUAL * min(paid.values()):
            continue
        least, most = min(paid, key=lambda index: paid[index]), max(paid, key=lambda index: paid[index])
        data = records.variants[least].data
        yield Finding(
            f"Unequal training FLOPs on {data}: {terminal.flops(paid[least])} to {terminal.flops(paid[most])} a run",
            "A row that cost more may owe its score to the compute and not to the idea.",
            "A variant with as many FLOPs as the others, as in studies/vitrm_fairness.py, or the score drawn against the FLOPs.",
            tuple(records.variants[index].label for index in (least, most)),
            severity="note" if _shows_cost(records) else "question",
            known=("002-11",),
        )


def averages(records: StudyRecords) -> Iterator[Finding]:
    """Runs whose moving average of the weights looks back to before the first step."""
    short = {run.variant for run in done(records) if outlasts(_decay(records, run), _steps(records, run))}
    if short:
        spans = dict.fromkeys(f"{averaged_steps(_decay(records, records.by_variant[index][0])):,.0f}" for index in sorted(short))
        yield Finding(
            f"The moving average of the weights spans {', '.join(spans)} steps, more than the run makes",
            "What is scored is then close to the random weights at the start.",
            "A smaller train.ema_decay, 0 for none, or more epochs.",
            where(records, short),
            setting(records, "train.ema_decay", "0"),
        )


def synthetic(records: StudyRecords) -> Iterator[Finding]:
    found = [index for index in range(len(records.variants)) if is_synthetic(records, [index])]
    if found:
        yield Finding(
            "Synthetic data: drawn by a program",
            "What a model learns of drawn images says nothing of the real task.",
            "A preset on real data.",
            where(records, found),
        )


def leaks(records: StudyRecords) -> Iterator[Finding]:
    found = [index for index in range(len(records.variants)) if records.leaks(index)]
    if found:
        yield Finding(
            f"A model {LEAK}",
            "Its numbers show a fault and no model's worth; no table compares them or calls them best.",
            "The same model without the leak (model.fuselip.mode=prefix_causal).",
            where(records, found),
            severity="note",
            known=("000-7",),
        )


def failed(records: StudyRecords) -> Iterator[Finding]:
    """Runs that ended without numbers, so that no mean holds them; of a search's trials, some may well diverge."""
    ends = ("failed",) if records.plan.search is not None else ("failed", "diverged")
    lost = [row for row in records.rows if row.status in ends]
    if lost:
        yield Finding(
            f"{plural(len(lost), 'run')} left out of every mean: {counted([row.error_class or 'diverged' for row in lost])}",
            "The seeds that are left may be the lucky ones: a variant that fails on some looks better than it is.",
            "Mend the cause (see what failed) and run them again; diverged runs are a result, which the text should state.",
            where(records, {row.variant for row in lost}),
            command(records),
        )


def unfinished(records: StudyRecords) -> Iterator[Finding]:
    """Runs that are still to do; a search stops some of its own accord."""
    ends = ("not run", "unfinished", *(() if records.plan.search is not None else ("stopped",)))
    left = [row for row in records.rows if row.status in ends]
    if left:
        yield Finding(
            f"{plural(len(left), 'run')} of {len(records.rows):,} not finished",
            "Rows with fewer seeds than others have wider intervals, and may change.",
            "The same command finishes them.",
            where(records, {row.variant for row in left}),
            command(records),
            severity="note",
        )


def verdicts(records: StudyRecords) -> Iterator[Finding]:
    """Published values beside one run, where more are planned: `seeds` asks where they are not."""
    tables = [table for part in records.parts if isinstance(part, Table) and part.targets for table in _tables(records, part)]
    alone = [row.label for table in tables for row in table.rows if any(_single(cell) for cell in row.cells)]
    if alone:
        yield Finding(
            "Published values stand beside a single run",
            "One run has no interval, so that nothing can be said about whether the value was reproduced.",
            "The runs that are still to do.",
            tuple(dict.fromkeys(alone)),
            command(records),
            severity="note",
        )


def _mean(records: StudyRecords, index: int, name: str) -> float | None:
    known = [float(value) for run in done(records, [index]) if (value := run.value(name)) is not None]
    return mean_of(known) if known else None


def _shows_cost(records: StudyRecords) -> bool:
    return any(name in COSTS for part in records.parts for name in part.shows)


def _decay(records: StudyRecords, run: Row) -> float:
    return float(records.configs[run.variant].get("train.ema_decay") or 0.0)


def _steps(records: StudyRecords, run: Row) -> float:
    """Optimiser steps of a finished run, from the images that it was shown; infinite where that is not known."""
    config = records.configs[run.variant]
    images = (run.value("images_per_second") or 0.0) * (run.value("seconds") or 0.0)
    one = not config.get("train.detach_carry", True) or config.get("train.halting") == "sample"
    used = 1.0 if one else float(run.value("supervision_steps_used") or 1.0)
    batch = config.get("train.batch_size")
    return images * used / float(batch) if images and batch else float("inf")


def _tables(records: StudyRecords, spec: Table) -> Sequence[TableData]:
    try:
        return [table_data(records, spec)]
    except ConfigError:
        return []  # said in its place in the report


def _single(cell: Cell) -> bool:
    comparable = any(not placed.reasons for placed in cell.placed)
    return comparable and cell.n == 1 < cell.expected and not metric(cell.metric).computed
