"""The class `RunFolder`: the paths, states and records of one run.

Workers write a run through it, and drivers and reports read runs through it.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic_core import from_json

from recstudy.base.errors import StorageError
from recstudy.records.files import persistently, whole_lines, write_whole
from recstudy.records.reading import append_record, read_log, read_record, suppress_damage, write_record
from recstudy.records.schema import Attempt, Failure, Measured, Result

MOVING = ".moving"  # suffix of an archive folder until all records are moved into it
ARCHIVE_PREFIX = "attempt"  # folders of earlier finished attempts are called attempt-1, attempt-2, ...


class _File:
    """A file of a run folder. Its path is made on access, because there are thousands of folders."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: "RunFolder", owner: object = None) -> Path:
        return folder.path / self.name


class RunFolder:
    """The records of one run.

    Args:
        path: The folder.
        send: Sends changed files to the object store. By default there is no store.

    Attributes:
        was_stopped: Whether a search had stopped the run before `begin`.
    """

    config = _File("config.json")
    files = _File("files.json")
    attempts = _File("attempts.jsonl")
    epochs = _File("epochs.jsonl")
    losses = _File("losses.jsonl")
    mistakes = _File("mistakes.npz")
    answers = _File("answers.npz")
    measured = _File("measured.json")
    result = _File("result.json")
    failure = _File("failure.json")
    stopped = _File("stopped.json")
    weights = _File("weights.safetensors")
    lock = _File("lock")
    program_folder = _File("files")  # of a function or command, such as for checkpoints

    def __init__(self, path: Path, send: Callable[[], None] = lambda: None) -> None:
        self.path, self.send, self.was_stopped = path, send, False

    @property
    def finished(self) -> bool:
        with suppress_damage():
            return read_record(self.result, Result) is not None
        return False

    @property
    def has_begun(self) -> bool:
        return self.attempts.exists() or self.finished

    def begin(self, attempt: Attempt) -> None:
        """Record that a worker starts the run. A failure is archived, and a stop by a search is dropped.

        Raises:
            StorageError: The log of attempts is damaged.
        """
        # Read the log now: a damaged log should fail the run before its training, not after it.
        read_log(self.attempts, Attempt)
        append_record(self.attempts, attempt)
        self.was_stopped = self.stopped.exists()
        self.stopped.unlink(missing_ok=True)
        if self.failure.exists():
            self.failure.rename(self.path / f"failure-{self.tries - 1:03}.json")

    def record_drain(self, end_time: str) -> None:
        """Record that the current attempt left a drained node. It and the next one count as one attempt."""
        append_record(self.attempts, Attempt(ended=end_time, drained=True))

    @property
    def tries(self) -> int:
        """The number of attempts, without those that left a drained node."""
        lines = read_log(self.attempts, Attempt)
        return sum(line.started is not None for line in lines) - sum(line.drained for line in lines)

    def recorded_versions(self, field: Literal["commit", "recstudy"]) -> list[str]:
        """Return the distinct commits, or recstudy versions, of the attempts, in their order."""
        versions = (getattr(line, field) for line in read_log(self.attempts, Attempt))
        return list(dict.fromkeys(filter(None, versions)))

    @property
    def reason(self) -> str:
        """Why the run has no metrics, or not all: one of `FAILURES`, `stopped` or `not run`.

        It is empty if the run has all metrics.
        """
        with suppress(StorageError):  # a damaged result counts as none
            if result := read_record(self.result, Result):
                since = (read_record(self.measured, Measured) or Measured()).metrics if result.raised else {}
                raised = any(name not in since or since[name].raised for name in result.raised)
                if result.status != "done":
                    return result.status
                return "code" if raised else ""
        if failure := self.last_failure:
            return failure.error_class
        return "stopped" if self.stopped.exists() else "not run"

    @property
    def last_failure(self) -> Failure | None:
        """The failure of the last attempt, or None if there is no readable record of one."""
        with suppress(StorageError):
            return read_record(self.failure, Failure)
        return None

    @property
    def earlier_failures(self) -> list[Path]:
        """The records of the failures that were retried, in their order."""
        return sorted(self.path.glob("failure-*.json"))

    @property
    def user_files(self) -> dict[str, str]:
        """The SHA-256 of the user files that compute the run, by path."""
        return read_record(self.files, dict[str, str]) or {}

    def finish(self, result: Result) -> None:
        """Write the result, which marks the run as finished, and remove the records of earlier failures."""
        write_record(self.result, result)
        for leftover in (self.failure, self.stopped, *self.earlier_failures, *self.path.glob("hang-*.log")):
            leftover.unlink(missing_ok=True)

    def fail(self, failure: Failure) -> None:
        """Record the failure of the last attempt."""
        write_record(self.failure, replace(failure, attempts=self.tries))

    def hang_log(self, rank: int) -> Path:
        """Return the file for the stack traces of a worker that hangs."""
        return self.path / f"hang-{rank}.log"

    def take_hang(self) -> str:
        """Return the stack traces of a hang in the previous attempt, and empty their logs."""
        # The logs are emptied and not removed, because the workers of this attempt may have them open.
        logs = sorted(self.path.glob("hang-*.log"))
        stacks = "".join(log.read_text(encoding="utf-8", errors="replace") for log in logs)
        for log in logs:
            log.write_bytes(b"")
        return stacks

    def wait_until_there(self) -> None:
        """Wait until the file system is mounted, so that nothing is written below its mount point.

        Raises:
            StorageError: It is still missing after ten seconds.
        """
        persistently(self.path.parent.stat, self.path)

    def archive(self) -> None:
        """Move every record and the program's folder into `attempt-N`, so that the run starts anew.

        The caller must hold the lock. If the process dies, the next `remove_leftovers` moves the other files.
        """
        number = 1
        while (archive := self.path / f"{ARCHIVE_PREFIX}-{number}").exists():
            number += 1
        moving = archive.with_suffix(MOVING)
        moving.mkdir(exist_ok=True)
        # The result is moved first: without it, the run counts as unfinished.
        for file in (self.result, *self.path.iterdir()):
            is_record = file.is_file() and file.name != "lock" and not file.name.startswith(".")
            if is_record or file == self.program_folder:
                file.rename(moving / file.name)
        moving.rename(archive)

    @property
    def archive_count(self) -> int:
        """How often the run was finished and then run again."""
        return sum(folder.suffix != MOVING for folder in self.path.glob(f"{ARCHIVE_PREFIX}-*"))

    def remove_leftovers(self) -> None:
        """Remove half-written files of a killed worker and, if the run is finished, its checkpoints."""
        if any(self.path.glob(f"{ARCHIVE_PREFIX}-*{MOVING}")):
            self.archive()
        for leftover in (
            *self.path.glob(".*.tmp"),
            *(self.path.glob("checkpoint-*.pt") if self.finished else ()),
        ):
            leftover.unlink()

    def keep_epochs(self, end_epoch: int) -> None:
        """Keep the log lines of the epochs before `end_epoch`; a resumed run reports the others again.

        Damaged lines are dropped, too.
        """
        for log in (self.epochs, self.losses):
            if log.exists():
                write_whole(
                    log, b"".join(line + b"\n" for line in whole_lines(log) if 0 <= _epoch(line) < end_epoch)
                )

    def lost_epochs(self, end_epoch: int) -> int:
        """Return how many epochs before `end_epoch` have no line, because it was damaged."""
        return len(set(range(end_epoch)) - {_epoch(line) for line in whole_lines(self.epochs)})


def _epoch(line: bytes) -> int:
    """Return the epoch of a log line, or -1 if the line is damaged."""
    try:
        epoch = dict(from_json(line)).get("epoch")
    except (ValueError, TypeError):
        return -1
    return epoch if isinstance(epoch, int) else -1
