"""A run's log: what its records tell of it, line by line, from its first attempt to its last epoch and how it ended."""

from collections.abc import Iterator

from recstudy.analysis.page import Html, code, fold
from recstudy.analysis.rows import Row
from recstudy.records import EpochLine, read_log
from recstudy.records.run_folder import RunFolder
from recstudy.records.schema import Attempt
from recstudy.report.names import inline, metric, number, plural
from recstudy.terminal import duration

LAST, MOST = 12, 2000  # lines that are in sight, and those that unfold
OF_AN_EPOCH = ("epoch", "seconds", "images_per_second", "learning_rate")


def story(folder: RunFolder, row: Row, running: bool) -> Html:
    """Its last lines, and all of them to unfold."""
    lines = [*_attempts(folder), *_epochs(folder), *_end(row, running)]
    if not lines:
        return Html('<p class="note">It has not begun.</p>')
    whole = fold(f"All {len(lines):,} lines", code("\n".join(lines[-MOST:]))) if len(lines) > LAST else ""
    return Html(code("\n".join(lines[-LAST:])) + whole)


def _attempts(folder: RunFolder) -> Iterator[str]:
    count = 0
    for line in read_log(folder.attempts, Attempt):
        if line.started is not None:
            count += 1
            made = f", commit {line.commit}{' with changes' * line.dirty}" if line.commit else ""
            yield f"{line.started}  attempt {count} began{f' on {line.host}' if line.host else ''}{made}"
        elif line.ended is not None:
            yield f"{line.ended}  left {'a drained node' if line.drained else 'its node'}"


def _epochs(folder: RunFolder) -> Iterator[str]:
    for line in {line.epoch: line for line in read_log(folder.epochs, EpochLine)}.values():
        values = {name: value for name, value in line.values.items() if value is not None}
        told = [f"{inline(name)} {_value(name, value)}" for name, value in values.items() if name not in OF_AN_EPOCH]
        seconds, rate = values.get("seconds"), values.get("images_per_second")
        told += [duration(seconds)] if seconds is not None else []
        told += [f"{rate:,.0f} images/s"] if rate is not None else []
        yield f"epoch {line.epoch + 1}: {', '.join(told)}"


def _value(name: str, value: float) -> str:
    return f"{number(name, value)} {metric(name).unit}".strip()


def _end(row: Row, running: bool) -> list[str]:
    if running:
        return ["under way"]
    if row.failure is not None:
        after = f" after {plural(row.failure.attempts, 'attempt')}" if row.failure.attempts else ""
        return [f"failed{after} ({row.failure.error_class}): {row.failure.error}"]
    if row.stopped is not None:
        return [f"stopped early after epoch {row.stopped.epoch + 1}{f' by {row.stopped.by}' if row.stopped.by else ''}"]
    if row.result is not None:
        return [f"{row.status}{f', {row.found.error}' if row.found.error else ''}"]
    return []
