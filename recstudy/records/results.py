"""Records on disk: whole or absent, readable after any crash.

    RESULTS/recstudy.json                      marks the folder as ours, with the format of its records
    RESULTS/lock                               held while runs are removed (clean.py)
    RESULTS/runs/ID/config.json                what decided the run
                   attempts.jsonl              one line each time a worker began it, and one where it left a drained node
                   epochs.jsonl                one line an epoch
                   losses.jsonl                one line an epoch: the training loss of every k-th update
                   mistakes.npz                the first misclassified test images, with true and predicted class
                   answers.npz                 what was answered on the test split (metrics/kept.py)
                   measured.json               metrics that were computed after it had finished
                   result.json                 there once the run is finished; then nothing but `measured.json` changes
                   failure.json                why the last attempt failed; gone when a later one succeeds
                   stopped.json                that it was stopped early, and why; gone when it is begun again
                   weights.safetensors         the selected epoch's weights
                   checkpoint-EPOCH.pt         to resume from; two at most, none once the run is finished
                   hang-RANK.log               where a worker hung, until the next attempt has recorded it
                   attempt-N/                  all of the above, of the N-th time that it was finished and then run again
                   lock                        held by the worker that writes here (locks.py)
    RESULTS/weights/DIGEST.safetensors         what runs start from, with DIGEST.json, which says where it is from
    RESULTS/studies/NAME/PRESET/plan.json      label, seed -> id, and the reports to draw
                               /report/        tables, figures, report.html
                               /lock           held by the driver that runs it; by those without Ray until the plan is written

What stands in them is in schema.py and study_schema.py, how they are written in files.py. Lines are in the
order in which they were written, whatever a node's clock says. A run's folder is written by the one worker
that holds its lock, everything else by the driver.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from recstudy import opened
from recstudy.errors import StorageError
from recstudy.records.files import MARKER, write_whole
from recstudy.records.locks import locked
from recstudy.records.mirror import Mirror, scratch
from recstudy.records.reading import read_record, write_record
from recstudy.records.run_folder import RunFolder
from recstudy.records.schema import Marker, Result
from recstudy.records.stores import is_uri

# state of a run without a result -> the file that says so
ENDED = {"stopped": "stopped.json", "failed": "failure.json"}


class Results:
    """A results folder: the runs, and the studies made of them.

    Args:
        place: a folder, or the URI of one on an object store, of which `root` is then a copy (see mirror.py).
    """

    def __init__(self, place: Path | str) -> None:
        self.store = str(place) if is_uri(str(place)) else ""
        self._read: dict[str, tuple[int, int]] = {}  # run id -> time and size of its result when it was read
        self.root = scratch(self.store) if self.store else Path(str(place).removeprefix("file://")).absolute()
        self._runs = self.root / "runs"
        opened.protect(self.root)
        opened.is_regular_file(self._marker)  # refuses a folder that this user may not enter

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
                    self._fetch_marker(self.mirror)
                for folder in (f"runs/{run_id}",) if run_id else ("runs", "studies"):
                    self.mirror.pull(under=folder)
        return self

    def fetched(self, file: Path) -> Path:
        """Return a file that `pull` leaves in the store until it is asked for, here as it is there; it may be
        in neither.
        """
        if self.mirror is not None and not file.exists():
            with self.mirror.still():
                self.mirror.pull((file.name,), under=file.parent.relative_to(self.root).as_posix())
        return file

    @contextmanager
    def changing(self, *files: Path) -> Iterator[None]:
        """Send these files to the store, where there is one, once the block has written them.

        Nothing else is: what another process here has fetched meanwhile may be older than what the store has
            by then.
        """
        with self.mirror.still() if self.mirror else nullcontext():
            yield
            self.send(*files)

    def send(self, *places: Path) -> None:
        """Send files, or all below a folder, to the store, where there is one."""
        if self.mirror is not None:
            self.mirror.push(*places)

    def check(self) -> None:
        """Refuse (StorageError) a folder of another program or a newer version, or one that cannot be
        written; make nothing.
        """
        if self.mirror is not None:
            # in this order: the marker comes before all else
            if not self.mirror.empty and not self._fetch_marker(self.mirror):
                raise StorageError(_foreign(self.store))
            self.mirror.check()
        if not self.root.exists():
            return
        with self._writing():
            # Without files that a file manager leaves, and half a marker, which is ours.
            strange = [
                path for path in self.root.iterdir() if not (path.name.startswith(".") and path.is_file())
            ]
            # in this order: another driver that begins here writes it before all else
            if strange and not self._marker.exists():
                raise StorageError(_foreign(self.root))
            if not os.access(self.root, os.W_OK):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
            read_record(self._marker, Marker)

    def create(self) -> "Results":
        """Make the folder, or check that it is ours and can be written."""
        self.check()
        with self._writing():
            self.root.mkdir(parents=True, exist_ok=True)
            self._mark()
        self.send(self._marker)
        return self

    @contextmanager
    def holding(
        self, name: str, preset: str, wait: bool = True, on_wait: Callable[[str], None] | None = None
    ) -> Iterator[Path]:
        """Hold a study's folder, for the one driver that writes there. What is read of the runs from then on
        stays true.

        An object store has no locks: the lock holds for the drivers of this machine alone, and a store has
            one driver.

        Args:
            name: the study's.
            preset: its folder's.
            wait: for the one that holds it now; else say at once who that is.
            on_wait: called once, with the holder's name, when there is a wait.

        Raises:
            Held: somebody else holds it, and we do not wait.
            StorageError: the folder cannot be written.
        """
        new = self.mirror is None and not self.root.exists()
        folder = self.create().study(name, preset)
        with locked(folder / "lock", wait, on_wait):
            try:
                if self.mirror is None:
                    # whoever removes runs now has not seen our lock, and comes to an end first
                    with self.cleaning():
                        # again, where another start was refused meanwhile and has taken away what it had made
                        self._mark()
                self.pull()
                yield folder
            finally:
                if new:
                    self._remove_unused(folder)

    def drawing(self, name: str, preset: str) -> AbstractContextManager[None]:
        """Draw a study's report in one process at a time, so that the last one to draw it has read the most
        runs.
        """
        return locked(self.study(name, preset) / "report/.lock", wait=True)

    def _remove_unused(self, study: Path) -> None:
        """Take away what `holding` has made where nothing came of it: a start that is refused leaves nothing
        behind.
        """
        made = [
            study / "lock",
            study,
            study.parent,
            study.parents[1],
            self._runs,
            self.root / "lock",
            self._marker,
            self.root,
        ]
        with suppress(OSError, StorageError):
            if [path.name for path in study.iterdir()] == ["lock"]:
                with self.cleaning():
                    for path in made:
                        # an OSError, and the end, where others use the folder
                        path.unlink() if path.is_file() else path.rmdir()

    def cleaning(self) -> AbstractContextManager[None]:
        """Let no driver begin, as long as runs are removed: it would take for finished what is gone a moment
        later.
        """
        return locked(self.root / "lock", wait=True)

    @property
    def _marker(self) -> Path:
        return self.root / MARKER

    def _mark(self) -> None:
        if not self._marker.exists():
            write_record(self._marker, Marker())
        self._runs.mkdir(exist_ok=True)  # where it is missing later, the folder's file system is gone

    def _fetch_marker(self, mirror: Mirror) -> bool:
        """Return whether the store says that it is ours, and in which format: this is then here too."""
        marker = mirror.read(mirror.key(self._marker))
        if marker is not None:
            write_whole(self._marker, marker)
        return marker is not None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"cannot write results to {self.root}: {error.strerror}. Give another folder with --results."
            ) from None

    def run(self, run_id: str) -> RunFolder:
        return RunFolder(self._runs / run_id)

    def weights(self, digest: str) -> Path:
        """Return where the weights of this digest lie, from which runs start."""
        return self.root / "weights" / f"{digest}.safetensors"

    def run_ids(self) -> list[str]:
        """Return the ids of all runs that have a folder here (StorageError: the folders cannot be read)."""
        return [folder.name for folder in opened.folders(self._runs) if not folder.name.startswith(".")]

    def study(self, name: str, preset: str) -> Path:
        return self.root / "studies" / name / preset

    def finished(self, run_ids: Iterable[str] | None = None) -> Iterator[tuple[str, Result]]:
        """Yield id and result of each finished run, one at a time: 10,000 are 40 MB.

        Args:
            run_ids: The runs to read. By default all.
        """
        for run_id in self.run_ids() if run_ids is None else run_ids:
            with suppress(StorageError):  # a damaged one will be run again
                if result := self._read_result(run_id):
                    yield run_id, result

    def states(self, run_ids: Iterable[str] | None = None) -> dict[str, str]:
        """Return `done`, `stopped` (early, on purpose) or `failed` by run id, for every run that is one of
        them.

        Args:
            run_ids: The runs to look at. By default all.
        """
        every = self.run_ids() if run_ids is None else run_ids
        return {run_id: state for run_id in every if (state := self.state(run_id))}

    def state(self, run_id: str) -> str:
        """Return the state of a run as in `states`; empty for any other state."""
        with suppress(StorageError):
            if self.is_as_read(run_id) or self._read_result(run_id):
                return "done"
        with suppress(StorageError):
            return next(
                (
                    state
                    for state, file in ENDED.items()
                    if opened.is_regular_file(f"{self._runs}/{run_id}/{file}")
                ),
                "",
            )
        return ""

    def is_as_read(self, run_id: str) -> bool:
        """Return whether a run's result has been read here and has not changed since (StorageError: it is no
        regular file).
        """
        with suppress(FileNotFoundError):
            status = opened.regular_status(self._result(run_id))
            return self._read.get(run_id) == (status.st_mtime_ns, status.st_size)
        return False

    def _read_result(self, run_id: str) -> Result | None:
        """Return a run's result, and note which one it is, so that `state` need not read it again."""
        path = self._result(run_id)
        result = read_record(path, Result)
        if result is not None:
            status = os.lstat(path)
            self._read[run_id] = status.st_mtime_ns, status.st_size
        return result

    def _result(self, run_id: str) -> str:
        return f"{self._runs}/{run_id}/result.json"


def _foreign(place: object) -> str:
    return (
        f"{place} holds files of another program ({MARKER} is missing). Give an empty or new folder with"
        " --results."
    )
