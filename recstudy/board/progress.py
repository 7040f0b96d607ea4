"""Compute the progress and the remaining time of runs and studies from their records."""

from recstudy.base.terminal import duration
from recstudy.board.folder import BoardStudy
from recstudy.programs.settings import PREFIX
from recstudy.records.runs import Row, distinct
from recstudy.report.names import plural
from recstudy.report.remaining import Job, remaining_seconds, wall_time

EPOCHS = ("train.epochs", f"{PREFIX}epochs", f"{PREFIX}steps")  # settings that state the number of epochs
# Statuses of runs that the study's command would run, and so count for the remaining time.
TO_DO = ("not run", "unfinished", "failed")


def planned_epochs(study: BoardStudy, row: Row) -> int:
    """Return the planned number of epochs, or of steps of a user's program; 0 if it is unknown."""
    config = study.records.configs[row.variant]
    return next((count for name in EPOCHS if isinstance(count := config.get(name), int)), 0)


def finished_epochs(study: BoardStudy, row: Row) -> int:
    """Return the number of finished epochs of a run in progress."""
    return max(study.logs[row.id], default=-1) + 1


def seconds_spent(study: BoardStudy, row: Row) -> float:
    """Return the wall time of the finished epochs in seconds."""
    # Epochs of recstudy's training have their own seconds; steps of a user's program have the total so far.
    seconds = [float(values.get("seconds") or 0.0) for values in study.logs[row.id].values()]
    return max(seconds, default=0.0) if study.records.is_own else sum(seconds)


def progress_words(study: BoardStudy, row: Row) -> str:
    """Return the progress of a run in progress: `epoch 3 of 12`, `step 3`, `starting` or `evaluating`."""
    done, total = finished_epochs(study, row), planned_epochs(study, row)
    if not done:
        return "starting"
    if study.records.is_own:
        return f"step {done - 1}" + f" of {total}" * (total > 0)
    return f"epoch {done} of {total}" if done < total else "evaluating"


def run_time_left(study: BoardStudy, row: Row) -> str:
    """Return the remaining time of a run in words.

    It is empty before the first epoch ends, and if the number of epochs is unknown.
    """
    done, total = finished_epochs(study, row), planned_epochs(study, row)
    return duration(seconds_spent(study, row) / done * (total - done)) if 0 < done < total else ""


def time_left(study: BoardStudy) -> str:
    """Return the remaining time of a study in words; empty if no runs remain."""
    records = study.records
    rows = distinct(records.rows)
    todo = sorted((row for row in rows if row.status in TO_DO), key=lambda row: row.id not in study.logs)
    if not todo or records.plan.imported:
        return ""
    finished = [_job(study, row) for row in rows if row.done and row.wall_seconds]
    seconds = remaining_seconds(finished, [_job(study, row) for row in todo])
    if seconds is None:
        return f"{plural(len(todo), 'run')} remaining; no estimate until a run finishes"
    if not study.logs:
        return f"{plural(len(todo), 'run')} remaining, about {duration(sum(seconds))}"
    # More workers than remaining runs do not make the study faster.
    workers = min(len(todo), study.workers)
    training = "" if finished else " of training"
    return f"about {duration(wall_time(seconds, workers))}{training}, {plural(workers, 'run')} at a time"


def _job(study: BoardStudy, row: Row) -> Job:
    if row.done and row.wall_seconds:
        training = float(row.value("seconds") or 0.0)
        return Job(row.variant, row.value("train_pflop"), training, row.wall_seconds - training)
    pflop = study.records.variants[row.variant].pflop
    if row.id not in study.logs:
        return Job(row.variant, pflop)
    done, total = finished_epochs(study, row), planned_epochs(study, row)
    share = min(1.0, done / total) if total else 0.0
    return Job(row.variant, pflop, seconds_spent(study, row), epochs=done, share=share)
