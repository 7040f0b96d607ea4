"""The layout of a results folder, and the class `Results` through which drivers, workers and reports use it.

Records are written atomically and stay readable after any crash.

    RESULTS/recstudy.json                  marks a results folder and states the format of its records
    RESULTS/lock                           locked while runs are removed (clean.py)
    RESULTS/runs/ID/config.json            the settings that decide the run
                   attempts.jsonl          one line per start of a worker, and one per end on a drained node
                   epochs.jsonl            one line per epoch
                   losses.jsonl            one line per epoch: the training loss of every k-th update
                   mistakes.npz            the first misclassified test images: true and predicted class
                   answers.npz             the answers on the test split (metrics/kept.py)
                   measured.json           metrics that were computed after the run had finished
                   result.json             marks the run as finished; then only `measured.json` can change
                   failure.json            why the last attempt failed
                   failure-00N.json        why the N-th attempt failed; both are removed when one succeeds
                   stopped.json            why the run was stopped early; removed when it starts again
                   weights.safetensors     the weights of the selected epoch
                   checkpoint-EPOCH.pt     for resuming; at most two, none once the run is finished
                   hang-RANK.log           stack traces of a hang, until the next attempt has recorded them
                   attempt-N/              the files above of the N-th finished attempt that was rerun
                   lock                    locked by the worker that writes here (locks.py)
    RESULTS/weights/DIGEST.safetensors     initial weights of runs; DIGEST.json names their source
    RESULTS/studies/NAME/PRESET/plan.json  variants, seeds, run ids, and the parts of the report
                               /report/    tables, figures, report.html
                               /lock       locked by the driver; without Ray only until the plan is written

The fields are in schema.py and study_schema.py; files.py writes them. Lines are in the order of writing,
whatever the clocks say. The worker that has locked a run writes its folder; the driver writes all else.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from recstudy.base import opened
from recstudy.base.errors import StorageError
from recstudy.base.files import encoded
from recstudy.records.files import MARKER, persistently, write_whole
from recstudy.records.locks import locked
from recstudy.records.mirror import Mirror, scratch
from recstudy.records.reading import read_record, suppress_damage, write_record
from recstudy.records.run_folder import RunFolder
from recstudy.records.schema import Marker, Result
from recstudy.records.stores import is_uri

# state of a run without a result -> its file
STATE_FILES = {"stopped": "stopped.json", "failed": "failure.json"}


class Results:
    """A results folder with its runs and studies.

    Args:
        place: A folder, or a URI on an object store. For a URI, `root` is a local copy (see mirror.py).
    """

    stores: ClassVar[dict[Path, str]] = {}  # local copy -> the URI that this process has read

    def __init__(self, place: Path | str) -> None:
        self.store = str(place) if is_uri(str(place)) else ""
        self._read: dict[str, tuple[int, int]] = {}  # run id -> time and size of the result that was read
        self.root = scratch(self.store) if self.store else Path(str(place).removeprefix("file://")).absolute()
        self._runs = self.root / "runs"
        if self.store:
            self.stores[self.root] = self.store
        encoded(str(self.root))  # plans and pages name it
        opened.protect(self.root)
        opened.is_regular_file(self._marker)  # raises StorageError if this user may not enter the folder

    def __reduce__(self) -> tuple[Any, ...]:
        return Results, (self.store or self.root,)  # each machine has its own copy of a store

    @cached_property
    def mirror(self) -> Mirror | None:
        return Mirror(self.store, self.root) if self.store else None

    @property
    def in_store(self) -> "Results":
        """These results with the store that they are the local copy of, if this process has read it."""
        is_copy = not self.store and self.root in self.stores
        return Results(self.stores[self.root]) if is_copy else self

    def pull(self, run_id: str = "") -> "Results":
        """Fetch changed records from the store, if there is one.

        Args:
            run_id: The run to fetch. By default all runs and studies.

        Returns:
            This object.
        """
        if self.mirror is not None:
            with self.mirror.still():
                if not run_id:
                    self._fetch_marker(self.mirror)
                for folder in (f"runs/{run_id}",) if run_id else ("runs", "studies"):
                    self.mirror.pull(subfolder=folder)
        return self

    def fetched(self, file: Path) -> Path:
        """Fetch a file that `pull` leaves in the store, and return its path. The file may not exist."""
        if self.mirror is not None and not file.exists():
            with self.mirror.still():
                self.mirror.pull_file(file)
        return file

    @contextmanager
    def changing(self, *files: Path, fetch: bool = False) -> Iterator[None]:
        """Send these files to the store after the block has written them.

        Without a store, do nothing.

        Args:
            files: The files.
            fetch: Fetch them before the block, because other machines may have changed them.
        """
        # Only these files are sent, because other local files may be older than their objects.
        with self.mirror.still() if self.mirror else nullcontext():
            if fetch and self.mirror:
                for file in files:
                    self.mirror.pull_file(file)
            yield
            self.send(*files)

    def send(self, *places: Path) -> None:
        """Send files, or all files below a folder, to the store. Without a store, do nothing."""
        if self.mirror is not None:
            self.mirror.push(*places)

    def check(self) -> None:
        """Check that this folder can be used, without changing it.

        Raises:
            StorageError: It belongs to another program or a newer version, or it cannot be written.
        """
        if self.mirror is not None:
            # In this order, because another driver that starts now writes the marker first.
            if not self.mirror.empty and not self._fetch_marker(self.mirror):
                raise StorageError(_foreign(self.store))
            self.mirror.check()
        if not self.root.exists():
            return
        with self._writing():
            # Hidden files do not count: file managers leave some, and a killed driver half a marker.
            foreign_paths = [
                path for path in self.root.iterdir() if not (path.name.startswith(".") and path.is_file())
            ]
            # In this order, because another driver that starts now writes the marker first.
            if foreign_paths and not self._marker.exists():
                raise StorageError(_foreign(self.root))
            if not os.access(self.root, os.W_OK):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
            read_record(self._marker, Marker)

    def create(self) -> "Results":
        """Make the folder, or check that it can be used. Return this object."""
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
        """Lock a study's folder for one driver, so that its runs cannot be removed meanwhile.

        An object store has no locks. There the lock only excludes other drivers of this machine.

        Args:
            name: The name of the study.
            preset: The name of the preset's folder.
            wait: Wait until the folder is free. If false, raise `LockedError` at once.
            on_wait: Called once before a wait, with the name of the process that holds the lock.

        Yields:
            The folder of the study.

        Raises:
            LockedError: Another process has locked the folder, and `wait` is false.
            StorageError: The folder cannot be written.
        """
        new = self.mirror is None and not self.root.exists()
        folder = self.create().study(name, preset)
        with locked(folder / "lock", wait, on_wait):
            try:
                if self.mirror is None:
                    # Wait for a `recstudy clean` that started before this lock and so cannot see it.
                    with self.cleaning():
                        # Mark again: another start that was refused meanwhile has removed the marker.
                        self._mark()
                self.pull()
                yield folder
            finally:
                if new:
                    self._remove_unused(folder)

    def drawing(self, name: str, preset: str) -> AbstractContextManager[None]:
        """Lock a study's report, so that the process that writes it last has also read the most runs.

        Raises:
            StorageError: The study's folder is gone, such as after its file system was unmounted.
        """
        study = self.study(name, preset)
        persistently(study.stat, study)
        return locked(study / "report/.lock", wait=True)

    def _remove_unused(self, study: Path) -> None:
        """Remove the files that `holding` made if the start was refused before a plan was written."""
        created_paths = [
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
                    for path in created_paths:
                        # This raises OSError, and the loop ends, if others use the folder.
                        path.unlink() if path.is_file() else path.rmdir()

    def cleaning(self) -> AbstractContextManager[None]:
        """Keep drivers from starting while runs are removed, so that no removed run counts as finished."""
        return locked(self.root / "lock", wait=True)

    @property
    def _marker(self) -> Path:
        return self.root / MARKER

    def _mark(self) -> None:
        if not self._marker.exists():
            write_record(self._marker, Marker())
        self._runs.mkdir(exist_ok=True)  # if it is missing later, the file system was unmounted

    def _fetch_marker(self, mirror: Mirror) -> bool:
        """Fetch the marker of the store, and return whether it has one."""
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
        """Return the path of the initial weights with this digest."""
        return self.root / "weights" / f"{digest}.safetensors"

    def run_ids(self) -> list[str]:
        """Return the ids of all runs with a folder. Raises StorageError if the folders cannot be read."""
        return [folder.name for folder in opened.folders(self._runs) if not folder.name.startswith(".")]

    def study(self, name: str, preset: str) -> Path:
        return self.root / "studies" / name / preset

    def finished(self, run_ids: Iterable[str]) -> Iterator[tuple[str, Result]]:
        """Yield the id and the result of each of these runs that is finished.

        The results are yielded one at a time, because 10,000 of them take 40 MB.
        """
        for run_id in run_ids:
            with suppress_damage():  # a run with a damaged result will be run again
                if result := self._read_result(run_id):
                    yield run_id, result

    def states(self, run_ids: Iterable[str] | None = None) -> dict[str, str]:
        """Return run id -> `done`, `stopped` (by its search) or `failed`. Runs in other states are left out.

        Args:
            run_ids: The runs to check. By default all.
        """
        every = self.run_ids() if run_ids is None else run_ids
        return {run_id: state for run_id in every if (state := self.state(run_id))}

    def state(self, run_id: str) -> str:
        """Return the state of a run as in `states`, or an empty string for any other state."""
        with suppress_damage():
            if self.is_as_read(run_id) or self._read_result(run_id):
                return "done"
        with suppress(StorageError):
            for state, file in STATE_FILES.items():
                if opened.is_regular_file(f"{self._runs}/{run_id}/{file}"):
                    return state
        return ""

    def is_as_read(self, run_id: str) -> bool:
        """Return whether the result of a run was read by this object and has not changed since.

        Raises:
            StorageError: It is no regular file.
        """
        with suppress(FileNotFoundError):
            status = opened.regular_status(self._result(run_id))
            return self._read.get(run_id) == (status.st_mtime_ns, status.st_size)
        return False

    def _read_result(self, run_id: str) -> Result | None:
        """Return the result of a run, and remember its time and size for `is_as_read`."""
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
