"""The words of a cell: its number with the interval, or the reason why there is none.

Tables, findings, the section of published values and heat maps use them, so that a number reads the same
everywhere.
"""

from collections import Counter

from recstudy.evidence import Why
from recstudy.report.cells import Cell
from recstudy.report.names import DASH, metric, plural, resolving_form
from recstudy.report.reasons import IMPORTED, IMPORTED_RESULTS
from recstudy.report.table import Interval, Number, Piece

Content = tuple[Piece, ...]


def cell_text(cell: Cell) -> str:
    """Return a cell as text: `94.2 [93.4, 95.0] (n=3)`."""
    return "".join(map(str, cell_content(cell)))


def cell_content(cell: Cell, factor: float = 1.0) -> Content:
    """Return the number of a cell with the number of its seeds. `factor` is that of `number_content`."""
    seeds = [f" (n={seeds_counted(cell)})"] if is_measured(cell) else []
    return (*number_content(cell, factor), *seeds)


def number_content(cell: Cell, factor: float = 1.0) -> Content:
    """Return the number of a cell with its interval, or the reason why there is none.

    Examples are `94.2 [93.4, 95.0]`, and `2 of 3 learned (9 to 99 %): 93.5` with the mean of the runs that
    learned and the interval of their share.

    Args:
        cell: The cell.
        factor: What a value that follows from the config is multiplied with, for another unit.
    """
    form = metric(cell.metric).form
    why = "; ".join([*cell.unavailable, *_lost_runs(cell)])
    if cell.value is None and cell.unavailable:
        return (f"not available ({why})",)
    if cell.value is None:
        if not why and not any(run.done for run in cell.runs):
            why = "not run"
        return (f"{DASH} {why}".strip(),)
    # a count that follows from the config needs no interval; over several configs, its range
    if metric(cell.metric).computed:
        numbers = [Number(value * factor, form) for value in (min(cell.values), max(cell.values))]
        minimum, *maximum = {str(number): number for number in numbers}.values()
        return (minimum, DASH, *maximum) if maximum else (minimum,)
    mark = [" (imported)"] if imported_mark(cell) == IMPORTED else []
    return (*_measured_content(cell, cell.value, form), *mark)


def printed_value(cell: Cell) -> float | None:
    """Return the mean that a cell prints. If some seeds did not learn, it is that of the others."""
    split = cell.estimate.split
    return split.success_mean if split and cell.estimate.why is Why.SPLIT else cell.value


def _measured_content(cell: Cell, value: float, form: str) -> Content:
    estimate, split = cell.estimate, cell.estimate.split
    # at the ceiling or the floor of a metric all seeds score alike, so that they show no spread
    if estimate.why in (Why.CEILING, Why.FLOOR) and estimate.n > 1:
        seeds = f"{estimate.n} of {plural(estimate.n, 'seed')}"
        if split:
            bound = f"\N{GREATER-THAN OR EQUAL TO} {100 * split.low:.0f} %"
            if not split.learned:
                bound = f"\N{LESS-THAN OR EQUAL TO} {100 * split.high:.0f} %"
            seeds = f"{split.learned} of {split.total} learned, {bound}"
        return Number(value, form), f" ({seeds})"
    # some seeds learned and others did not: a mean of both would describe no run
    if split and estimate.why is Why.SPLIT:
        share = f"{100 * split.low:.0f} to {100 * split.high:.0f} %"
        return f"{split.learned} of {split.total} learned ({share}): ", Number(split.success_mean, form)
    if estimate.interval is None:
        return (Number(value, form),)
    form = resolving_form(form, estimate.interval)
    mark = [" (may split)"] if estimate.why is Why.MAY_SPLIT else []
    return Number(value, form), " ", Interval(*estimate.interval, form), *mark


def is_measured(cell: Cell) -> bool:
    return cell.value is not None and not metric(cell.metric).computed


def imported_mark(cell: Cell) -> str:
    """Return the mark of imported weights or results; empty if the runs were trained here."""
    if cell.records.imported.isdisjoint(cell.variants):
        return ""
    return IMPORTED_RESULTS if cell.records.is_own else IMPORTED


def seeds_counted(cell: Cell) -> str:
    """Return the number of seeds behind a cell: `3`, or `2 of 3; 1 failed: code`."""
    of = f" of {cell.expected}" if cell.n < cell.expected else ""
    unavailable = sum(run.done for run in cell.runs) - len(cell.counted)
    why = [f"{unavailable} not available: {'; '.join(cell.unavailable)}"] if cell.unavailable else []
    return "; ".join([f"{cell.n}{of}", *_lost_runs(cell), *why])


def _lost_runs(cell: Cell) -> list[str]:
    """Count the runs without a value by their state: `1 failed: code`, `2 diverged`."""
    counts = Counter(f"failed: {run.error_class}" for run in cell.all_runs if run.failed)
    counts["with damaged answers"] = len(cell.damages)
    counts["diverged"], counts["stopped early"] = map(cell.count, ("diverged", "stopped"))
    return [f"{count} {state}" for state, count in counts.items() if count]
