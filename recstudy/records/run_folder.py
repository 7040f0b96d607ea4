"""The folder of one run: what its records say, and what its worker writes there."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic_core import from_json

from recstudy.errors import StorageError
from recstudy.records.files import persistently, whole_lines, write_whole
from recstudy.records.reading import append_record, read_log, read_record, write_record
from recstudy.records.schema import Attempt, Failure, Measured, Result

MOVING = ".moving"  # of a folder that records are being moved into
EARLIER = "attempt"  # what folders of earlier attempts are called, with a number behind


class _File:
    """A file of a folder; its path is made where it is asked for, because there are many folders."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: "RunFolder", owner: object = None) -> Path:
        return folder.path / self.name


class RunFolder:
    """The records of one run.

    Args:
        path: the folder.
        send: sends what has changed to the store that the folder mirrors, if it does.
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

    def __init__(self, path: Path, send: Callable[[], None] = lambda: None) -> None:
        self.path, self.send = path, send

    @property
    def finished(self) -> bool:
        try:
            return read_record(self.result, Result) is not None
        except StorageError:
            return False

    @property
    def begun(self) -> bool:
        return self.attempts.exists() or self.finished

    def begin(self, attempt: Attempt) -> None:
        """Note that a worker begins the run; that it was stopped before counts no more.

        Raises:
            StorageError: the log is damaged, which is better said now than once the run is trained.
        """
        read_log(self.attempts, Attempt)
        append_record(self.attempts, attempt)
        self.stopped.unlink(missing_ok=True)

    def drained(self, ended: str) -> None:
        """Note that the attempt under way leaves its node in good order: it and the one that goes on for it
        count as one.
        """
        append_record(self.attempts, Attempt(ended=ended, drained=True))

    @property
    def tries(self) -> int:
        """How often the run was begun, without those attempts that left a drained node."""
        lines = read_log(self.attempts, Attempt)
        return sum(line.started is not None for line in lines) - sum(line.drained for line in lines)

    def told(self, field: Literal["commit", "recstudy"]) -> list[str]:
        """Return what the attempts say of the code that made the run, in their order, each once."""
        return list(
            dict.fromkeys(
                value for line in read_log(self.attempts, Attempt) if (value := getattr(line, field))
            )
        )

    @property
    def reason(self) -> str:
        """Why the run has no numbers, or not all: one of `FAILURES`, or how far it is; empty where it has
        them.
        """
        with suppress(StorageError):  # a damaged one is none
            if result := read_record(self.result, Result):
                since = (read_record(self.measured, Measured) or Measured()).metrics if result.raised else {}
                raised = any(name not in since or since[name].raised for name in result.raised)
                return result.status if result.status != "done" else "code" if raised else ""
        failure = self.last_failure
        return failure.error_class if failure else "stopped" if self.stopped.exists() else "not run"

    @property
    def last_failure(self) -> Failure | None:
        """Why the last attempt failed; None where nothing tells, or what does is damaged."""
        with suppress(StorageError):
            return read_record(self.failure, Failure)
        return None

    @property
    def user_files(self) -> dict[str, str]:
        """The SHA-256 of the user files that compute the run, by path."""
        return read_record(self.files, dict[str, str]) or {}

    def finish(self, result: Result) -> None:
        """Write the run's one result: the last thing that is written."""
        write_record(self.result, result)
        for ended in (self.failure, self.stopped, *self.path.glob("hang-*.log")):
            ended.unlink(missing_ok=True)

    def fail(self, failure: Failure) -> None:
        """Write why the last attempt failed."""
        write_record(self.failure, replace(failure, attempts=self.tries))

    def hang_log(self, rank: int) -> Path:
        """Return where a worker's watchdog writes what it was doing when it hung."""
        return self.path / f"hang-{rank}.log"

    def take_hang(self) -> str:
        """Return what hung in the attempt before this one, and empty the logs that tell it; empty where
        nothing did.

        The workers of this attempt may have the logs open.
        """
        logs = sorted(self.path.glob("hang-*.log"))
        stacks = "".join(log.read_text(encoding="utf-8", errors="replace") for log in logs)
        for log in logs:
            log.write_bytes(b"")
        return stacks

    def wait_until_there(self) -> None:
        """Wait for a file system that went away, so that nothing is written where it was mounted
        (StorageError).
        """
        persistently(self.path.parent.stat, self.path)

    def archive(self) -> None:
        """Move every record into `attempt-N`, so that the run is begun anew; who holds the lock may.

        The result is first: from then on the run is not finished. Where the process dies, the next `sweep`
            moves the rest.
        """
        number = 1
        while (archive := self.path / f"{EARLIER}-{number}").exists():
            number += 1
        moving = archive.with_suffix(MOVING)
        moving.mkdir(exist_ok=True)
        for file in (self.result, *self.path.iterdir()):
            if file.is_file() and file.name != "lock" and not file.name.startswith("."):
                file.rename(moving / file.name)
        moving.rename(archive)

    @property
    def earlier(self) -> int:
        """How often it was finished and then run again."""
        return sum(folder.suffix != MOVING for folder in self.path.glob(f"{EARLIER}-*"))

    def sweep(self) -> None:
        """Remove what a killed worker left half-written and, once the run is finished, its checkpoints."""
        if any(self.path.glob(f"{EARLIER}-*{MOVING}")):
            self.archive()
        for leftover in (
            *self.path.glob(".*.tmp"),
            *(self.path.glob("checkpoint-*.pt") if self.finished else ()),
        ):
            leftover.unlink()

    def keep_epochs(self, below: int) -> None:
        """Drop the epochs from `below` on, which a resumed run will report again, and lines that state none:
        damaged ones.
        """
        for log in (self.epochs, self.losses):
            if log.exists():
                write_whole(
                    log, b"".join(line + b"\n" for line in whole_lines(log) if 0 <= _epoch(line) < below)
                )

    def lost_epochs(self, below: int) -> int:
        """Return how many of the epochs below this one have no line, because what stood there is damaged."""
        return len(set(range(below)) - {_epoch(line) for line in whole_lines(self.epochs)})


def _epoch(line: bytes) -> int:
    """Return which epoch a line of a log states; -1 for a damaged one."""
    try:
        epoch = dict(from_json(line)).get("epoch")
    except (ValueError, TypeError):
        return -1
    return epoch if isinstance(epoch, int) else -1
