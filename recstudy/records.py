"""Records on disk: whole or absent, readable after any crash.

    RESULTS/recstudy.json                      marks the folder as ours, with the format of its records
    RESULTS/runs/ID/config.json                what decided the run
                   attempts.jsonl              one line each time a worker began it, and one where it left a drained node
                   epochs.jsonl                one line an epoch
                   losses.jsonl                one line an epoch: the training loss of every k-th update
                   mistakes.npz                the first misclassified test images, with true and predicted class
                   result.json                 there once the run is finished; then nothing here changes again
                   failure.json                why the last attempt failed; gone when a later one succeeds
                   stopped.json                that it was stopped early, and why; gone when it is begun again
                   weights.safetensors         the selected epoch's weights
                   checkpoint-EPOCH.pt         to resume from; two at most, none once the run is finished
                   hang-RANK.log               where a worker hung, until the next attempt has recorded it
                   lock                        held by the worker that writes here (locks.py)
                   lease                       on an object store, in its place (leases.py)
    RESULTS/studies/NAME/PRESET/plan.json      label, seed -> id, and the reports to draw
                               /report/        tables, figures, report.html

How files are written stands in files.py. Lines are in the order in which they were written, whatever a node's clock says.
A run's folder is written by the one worker that holds its lock, everything else by the driver.
"""

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from recstudy.errors import StorageError
from recstudy.files import MARKER, Json, append_line, persistently, read_json, read_lines, write_json, write_whole
from recstudy.locks import held, locked
from recstudy.mirror import Mirror, scratch
from recstudy.stores import is_uri

__all__ = [
    "FORMAT", "Json", "Results", "RunFolder", "append_line", "held", "locked", "read_json", "read_lines", "read_result",
    "write_json", "write_whole",
]  # fmt: skip

FORMAT = 1


def read_result(path: Path) -> Json | None:
    """A run's result, or None where there is none. One without a status is damaged (StorageError)."""
    result = read_json(path)
    if result is not None and not (isinstance(result, dict) and "status" in result):
        raise StorageError(f"{path} is damaged: it states no status. Its run will be run again.")
    return result


class RunFolder:
    """The records of one run.

    Args:
        path: the folder.
        send: sends what has changed to the store that the folder mirrors, if it does.
    """

    def __init__(self, path: Path, send: Callable[[], None] = lambda: None) -> None:
        self.path, self.send = path, send
        self.config = path / "config.json"
        self.attempts = path / "attempts.jsonl"
        self.epochs = path / "epochs.jsonl"
        self.losses = path / "losses.jsonl"
        self.mistakes = path / "mistakes.npz"
        self.result = path / "result.json"
        self.failure = path / "failure.json"
        self.stopped = path / "stopped.json"
        self.weights = path / "weights.safetensors"
        self.lock = path / "lock"

    @property
    def finished(self) -> bool:
        try:
            return read_result(self.result) is not None
        except StorageError:
            return False

    def begin(self, attempt: Json) -> None:
        """A worker begins the run; that it was stopped before counts no more."""
        append_line(self.attempts, attempt)
        self.stopped.unlink(missing_ok=True)

    def drained(self, closing: Json) -> None:
        """The attempt under way leaves its node in good order: it and the one that goes on for it count as one."""
        append_line(self.attempts, {**closing, "drained": True})

    @property
    def tries(self) -> int:
        """How often the run was begun, without those attempts that left a drained node."""
        lines = read_lines(self.attempts)
        return sum("started" in line for line in lines) - sum("drained" in line for line in lines)

    @property
    def commits(self) -> list[str]:
        """The commits of the code that made the run, in the order of its attempts."""
        return list(dict.fromkeys(line["commit"] for line in read_lines(self.attempts) if line.get("commit")))

    @property
    def reason(self) -> str:
        """Why the run has no numbers: one of `FAILURES`, or how far it is; empty where it has them."""
        if self.finished:
            status = (read_result(self.result) or {})["status"]
            return "" if status == "done" else str(status)
        failure = read_json(self.failure)
        return str(failure["class"]) if failure else "stopped" if self.stopped.exists() else "not run"

    def finish(self, result: Json) -> None:
        """The run's one result: the last thing that is written."""
        write_json(self.result, {"format": FORMAT, **result})
        for ended in (self.failure, self.stopped):
            ended.unlink(missing_ok=True)

    def fail(self, failure: Json) -> None:
        """Why the last attempt failed: `class` (one of `FAILURES`), `error`, `traceback`."""
        write_json(self.failure, {"format": FORMAT, **failure, "attempts": self.tries})

    def hang_log(self, rank: int) -> Path:
        """Where a worker's watchdog writes what it was doing when it hung."""
        return self.path / f"hang-{rank}.log"

    def take_hang(self) -> str:
        """What hung in the attempt before this one, which the logs tell and are then removed; empty where nothing did."""
        logs = sorted(self.path.glob("hang-*.log"))
        told = "".join(log.read_text(errors="replace") for log in logs)
        for log in logs:
            log.unlink(missing_ok=True)
        return told

    def wait_until_there(self) -> None:
        """Wait for a file system that went away, so that nothing is written where it was mounted (StorageError)."""
        persistently(self.path.parent.stat, self.path)

    def sweep(self) -> None:
        """Remove what a killed worker left half-written and, once the run is finished, its checkpoints."""
        for leftover in (*self.path.glob(".*.tmp"), *(self.path.glob("checkpoint-*.pt") if self.finished else ())):
            leftover.unlink()

    def keep_epochs(self, below: int) -> None:
        """Drop the epochs from `below` on, which a resumed run will report again."""
        for log in (self.epochs, self.losses):
            if log.exists():
                lines = [line for line in read_lines(log) if line["epoch"] < below]
                write_whole(log, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


class Results:
    """A results folder: the runs, and the studies made of them.

    Args:
        place: a folder, or the URI of one on an object store, of which `root` is then a copy (see mirror.py).
    """

    def __init__(self, place: Path | str) -> None:
        self.store = str(place) if is_uri(str(place)) else ""
        self.root = scratch(self.store) if self.store else Path(str(place).removeprefix("file://")).absolute()

    def __reduce__(self) -> tuple[Any, ...]:
        return Results, (self.store or self.root,)  # another machine has its own copy

    @cached_property
    def mirror(self) -> Mirror | None:
        return Mirror(self.store, self.root) if self.store else None

    def pull(self, run_id: str = "") -> "Results":
        """Read the store again, where there is one: the records of a run, or all that reports are made of."""
        if self.mirror is not None:
            with self.mirror.still():
                if not run_id:
                    self._marked(self.mirror)
                for folder in (f"runs/{run_id}",) if run_id else ("runs", "studies"):
                    self.mirror.pull(under=folder)
        return self

    @contextmanager
    def changing(self, *files: Path) -> Iterator[None]:
        """Where there is a store, these files are sent there once the block has written them.

        Nothing else is: what another process here has fetched meanwhile may be older than what the store has by then.
        """
        if self.mirror is None:
            yield
            return
        with self.mirror.still():
            yield
            self.send(*files)

    def send(self, *places: Path) -> None:
        """Send files, or all below a folder, to the store, where there is one."""
        if self.mirror is not None:
            self.mirror.push(*places)

    def create(self) -> "Results":
        """Make the folder, or check that it is ours and can be written."""
        if self.mirror is None:
            return self._create()
        if not self._marked(self.mirror) and not self.mirror.empty:
            raise StorageError(_foreign(self.store))
        self.mirror.check()
        self._create()
        self.mirror.write(self.mirror.key(self.root / MARKER), (self.root / MARKER).read_bytes())
        return self

    def _marked(self, mirror: Mirror) -> bool:
        """Whether the store says that it is ours, and in which format: this is then here too."""
        marker = mirror.read(mirror.key(self.root / MARKER))
        if marker is not None:
            write_whole(self.root / MARKER, marker)
        return marker is not None

    def _create(self) -> "Results":
        marker = self.root / MARKER
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if not marker.exists() and any(self.root.iterdir()):
                raise StorageError(_foreign(self.root))
            made = read_json(marker) or {}
            if made.get("format", FORMAT) > FORMAT:
                raise StorageError(f"{self.root} was written by a newer recstudy (format {made['format']}). Update this one.")
            if not os.access(self.root, os.W_OK):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
            if made.get("format") != FORMAT:
                write_json(marker, {"format": FORMAT, "what": "results of recstudy"})
            (self.root / "runs").mkdir(exist_ok=True)  # where it is missing later, the folder's file system is gone
        except OSError as error:
            raise StorageError(
                f"cannot write results to {self.root}: {error.strerror}. Give another folder with --results."
            ) from None
        return self

    def run(self, run_id: str) -> RunFolder:
        return RunFolder(self.root / "runs" / run_id)

    def study(self, name: str, preset: str) -> Path:
        return self.root / "studies" / name / preset

    def states(self) -> dict[str, str]:
        """`done`, `stopped` (early, on purpose) or `failed` by run id, for every run that is one of them."""
        states: dict[str, str] = {}
        runs = self.root / "runs"
        for folder in os.scandir(runs) if runs.exists() else ():
            if RunFolder(Path(folder.path)).finished:
                states[folder.name] = "done"
            elif os.path.exists(folder.path + "/stopped.json"):
                states[folder.name] = "stopped"
            elif os.path.exists(folder.path + "/failure.json"):
                states[folder.name] = "failed"
        return states


def _foreign(place: object) -> str:
    return f"{place} holds files of another program ({MARKER} is missing). Give an empty or new folder with --results."
