"""Records on disk: whole or absent, readable after any crash.

    RESULTS/recstudy.json                      marks the folder as ours, with the format of its records
    RESULTS/lock                               held while runs are removed (clean.py)
    RESULTS/runs/ID/config.json                what decided the run
                   code.json                   what computed it: digests of its model, data and training, with their files'
                   attempts.jsonl              one line each time a worker began it, and one where it left a drained node
                   epochs.jsonl                one line an epoch
                   losses.jsonl                one line an epoch: the training loss of every k-th update
                   mistakes.npz                the first misclassified test images, with true and predicted class
                   answers.npz                 what was answered on the test split (metrics/kept.py)
                   measured.json               metrics that were computed after it had finished
                   result.json                 there once the run is finished; then nothing but measured.json changes
                   failure.json                why the last attempt failed; gone when a later one succeeds
                   stopped.json                that it was stopped early, and why; gone when it is begun again
                   weights.safetensors         the selected epoch's weights
                   checkpoint-EPOCH.pt         to resume from; two at most, none once the run is finished
                   hang-RANK.log               where a worker hung, until the next attempt has recorded it
                   attempt-N/                  all of the above, of the N-th time that it was finished and then run again
                   lock                        held by the worker that writes here (locks.py)
                   lease-TOKEN                 on an object store, in its place (leases.py)
    RESULTS/studies/NAME/PRESET/plan.json      label, seed -> id, and the reports to draw
                               /report/        tables, figures, report.html
                               /lock           held by the one driver that plans and runs it

What stands in them is in schema.py, how they are written in files.py. Lines are in the order in which they were written,
whatever a node's clock says. A run's folder is written by the one worker that holds its lock, everything else by the driver.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from recstudy.errors import StorageError
from recstudy.records.files import MARKER, parsed, persistently, whole_lines, write_whole
from recstudy.records.leases import leased
from recstudy.records.locks import locked, this_process
from recstudy.records.mirror import Mirror, scratch
from recstudy.records.reading import append_record, read_log, read_record, write_record
from recstudy.records.schema import FORMAT, Attempt, CodeRecord, Failure, Marker, Provenance, Result
from recstudy.records.stores import is_uri

MOVING = ".moving"  # of a folder that records are being moved into
STAYS = ("lock", "lease")


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
    code = _File("code.json")
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
        """A worker begins the run; that it was stopped before counts no more.

        Raises:
            StorageError: the log is damaged, which is better said now than once the run is trained.
        """
        read_log(self.attempts, Attempt)
        append_record(self.attempts, attempt)
        self.stopped.unlink(missing_ok=True)

    def drained(self, ended: str) -> None:
        """The attempt under way leaves its node in good order: it and the one that goes on for it count as one."""
        append_record(self.attempts, Attempt(ended=ended, drained=True))

    @property
    def tries(self) -> int:
        """How often the run was begun, without those attempts that left a drained node."""
        lines = read_log(self.attempts, Attempt)
        return sum(line.started is not None for line in lines) - sum(line.drained for line in lines)

    def told(self, field: Literal["commit", "recstudy"]) -> list[str]:
        """What the attempts say of the code that made the run, in their order, each once."""
        return list(dict.fromkeys(value for line in read_log(self.attempts, Attempt) if (value := getattr(line, field))))

    @property
    def reason(self) -> str:
        """Why the run has no numbers: one of `FAILURES`, or how far it is; empty where it has them."""
        with suppress(StorageError):  # a damaged one is none
            if result := read_record(self.result, Result):
                return "" if result.status == "done" else result.status
        failure = self.last_failure
        return failure.error_class if failure else "stopped" if self.stopped.exists() else "not run"

    @property
    def last_failure(self) -> Failure | None:
        """Why the last attempt failed; None where nothing tells, or what does is damaged."""
        with suppress(StorageError):
            return read_record(self.failure, Failure)
        return None

    @property
    def made_by(self) -> dict[str, CodeRecord]:
        """Which code computes the run, by part; nothing in records of before."""
        return read_record(self.code, dict[str, CodeRecord]) or {}

    def finish(self, result: Result) -> None:
        """The run's one result: the last thing that is written."""
        write_record(self.result, result)
        for ended in (self.failure, self.stopped):
            ended.unlink(missing_ok=True)

    def fail(self, failure: Failure) -> None:
        """Why the last attempt failed."""
        write_record(self.failure, replace(failure, attempts=self.tries))

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

    def set_aside(self) -> None:
        """Move every record into `attempt-N`, so that the run is begun anew; who holds the lock may.

        The result is first: from then on the run is not finished. Where the process dies, the next `sweep` moves the rest.
        """
        whole = self.path / f"attempt-{self.earlier + 1}"
        moving = whole.with_suffix(MOVING)
        moving.mkdir(exist_ok=True)
        for file in (self.result, *self.path.iterdir()):
            if file.is_file() and file.name not in STAYS and not file.name.startswith("."):
                file.rename(moving / file.name)
        moving.rename(whole)

    @property
    def earlier(self) -> int:
        """How often it was finished and then run again."""
        return sum(folder.suffix != MOVING for folder in self.path.glob("attempt-*"))

    def sweep(self) -> None:
        """Remove what a killed worker left half-written and, once the run is finished, its checkpoints."""
        if any(self.path.glob(f"attempt-*{MOVING}")):
            self.set_aside()
        for leftover in (*self.path.glob(".*.tmp"), *(self.path.glob("checkpoint-*.pt") if self.finished else ())):
            leftover.unlink()

    def keep_epochs(self, below: int) -> None:
        """Drop the epochs from `below` on, which a resumed run will report again, and lines that state none: damaged ones."""
        for log in (self.epochs, self.losses):
            if log.exists():
                write_whole(log, b"".join(line + b"\n" for line in whole_lines(log) if 0 <= _epoch(line) < below))

    def lost_epochs(self, below: int) -> int:
        """How many of the epochs below this one have no line, because what stood there is damaged."""
        return len(set(range(below)) - {_epoch(line) for line in whole_lines(self.epochs)})


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

    def fetched(self, file: Path) -> Path:
        """A file that `pull` leaves in the store until it is asked for, here as it is there; it may be in neither."""
        if self.mirror is not None and not file.exists():
            with self.mirror.still():
                self.mirror.pull((file.name,), under=file.parent.relative_to(self.root).as_posix())
        return file

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

    def check(self) -> None:
        """Refuse (StorageError) a folder that is not ours or cannot be written, and make nothing."""
        if self.mirror is not None:
            if not self.mirror.empty and not self._marked(self.mirror):  # in this order: the marker comes before all else
                raise StorageError(_foreign(self.store))
            self.mirror.check()
        elif self.root.exists():
            with self._writing():
                self._ours()

    def create(self) -> "Results":
        """Make the folder, or check that it is ours and can be written."""
        if self.mirror is None:
            return self._create()
        self.check()
        self._create()
        self.mirror.write(self.mirror.key(self.root / MARKER), (self.root / MARKER).read_bytes())
        return self

    @contextmanager
    def holding(self, name: str, preset: str, wait: bool = True, on_wait: Callable[[str], None] | None = None) -> Iterator[Path]:
        """A study's folder, for the one driver that writes there. What is read of the runs from then on stays true.

        Args:
            name: the study's.
            preset: its folder's.
            wait: for the one that holds it now; else say at once who that is.
            on_wait: called once, with the holder's name, when there is a wait.

        Raises:
            Held: somebody else holds it, and we do not wait.
            StorageError: the holder is silent, or the folder cannot be written.
        """
        folder = self.create().study(name, preset)
        with locked(folder / "lock", this_process(), wait, on_wait), ExitStack() as kept:
            if self.mirror is None:
                with self.cleaning():  # whoever removes runs now has not seen our lock, and comes to an end first
                    pass
            else:
                kept.enter_context(leased(self.mirror, folder, this_process(), on_wait, wait=wait))
                self.pull()
            yield folder

    @contextmanager
    def cleaning(self) -> Iterator[None]:
        """No driver begins, as long as runs are removed: it would take for finished what is gone a moment later."""
        with locked(self.root / "lock", this_process(), wait=True):
            yield

    def _marked(self, mirror: Mirror) -> bool:
        """Whether the store says that it is ours, and in which format: this is then here too."""
        marker = mirror.read(mirror.key(self.root / MARKER))
        if marker is not None:
            write_whole(self.root / MARKER, marker)
        return marker is not None

    def _create(self) -> "Results":
        with self._writing():
            self.root.mkdir(parents=True, exist_ok=True)
            made = self._ours()
            if made is None or made.format != FORMAT:
                write_record(self.root / MARKER, Marker())
            (self.root / "runs").mkdir(exist_ok=True)  # where it is missing later, the folder's file system is gone
        return self

    def _ours(self) -> Marker | None:
        """The folder's marker; None where it is empty."""
        marker = self.root / MARKER
        found = [path for path in self.root.iterdir() if not _stray(path)]
        if found and not marker.exists():  # in this order: another driver that begins here writes it before all else
            raise StorageError(_foreign(self.root))
        if not os.access(self.root, os.W_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return read_record(marker, Marker)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"cannot write results to {self.root}: {error.strerror}. Give another folder with --results."
            ) from None

    def run(self, run_id: str) -> RunFolder:
        return RunFolder(self.root / "runs" / run_id)

    def run_folders(self) -> list[os.DirEntry[str]]:
        """Of every run; neither a stray file, such as a file manager leaves, nor what a killed cleaning left.

        Raises:
            StorageError: they cannot be read.
        """
        runs = self.root / "runs"
        try:
            return [entry for entry in os.scandir(runs) if entry.is_dir() and not entry.name.startswith(".")]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageError(f"cannot read {runs}: {error.strerror}.") from None

    def study(self, name: str, preset: str) -> Path:
        return self.root / "studies" / name / preset

    def finished(self) -> dict[str, Provenance]:
        """What made the numbers of every finished run, by run id."""
        made = {}
        for folder in self.run_folders():
            with suppress(StorageError):  # a damaged one will be run again
                result = read_record(Path(folder.path, "result.json"), Result)
                if result is not None:
                    made[folder.name] = result.provenance
        return made

    def states(self) -> dict[str, str]:
        """`done`, `stopped` (early, on purpose) or `failed` by run id, for every run that is one of them."""
        return {folder.name: state for folder in self.run_folders() if (state := self.state(folder.name))}

    def state(self, run_id: str) -> str:
        """As in `states`; empty for another."""
        run = self.run(run_id)
        if run.finished:
            return "done"
        return "stopped" if os.path.exists(run.stopped) else "failed" if os.path.exists(run.failure) else ""


def _epoch(line: bytes) -> int:
    """Which epoch a line of a log states; -1 for a damaged one."""
    try:
        stated = dict(parsed(line)).get("epoch")
    except (ValueError, TypeError):
        return -1
    return stated if isinstance(stated, int) else -1


def _stray(path: Path) -> bool:
    """Whether a file is nobody's: one that a file manager leaves, or half a marker, which is ours."""
    return path.name.startswith(".") and path.is_file()


def _foreign(place: object) -> str:
    return f"{place} holds files of another program ({MARKER} is missing). Give an empty or new folder with --results."
