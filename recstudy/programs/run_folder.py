"""Open the folder of a run on a worker: the folder itself, or a local copy of one on an object store.

Changes of a local copy are sent to the store.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recstudy.base.errors import StorageError
from recstudy.base.files import discard
from recstudy.records import RunFolder, is_locked, locked
from recstudy.records.mirror import Mirror, scratch

log = logging.getLogger(__name__)

CHECKPOINTS = ("checkpoint-*.pt",)


@contextmanager
def locked_run_folder(folder: str, store: str, wait: bool = True) -> Iterator[RunFolder]:
    """Lock the run's folder and yield it. At the end of the block, all changes have reached the store.

    Args:
        folder: The run's folder, named by its id.
        store: The URI of the results; empty if they are in a folder.
        wait: Wait for the lock. If false, raise `LockedError` at once if another process has it.

    Raises:
        LockedError: Another process has locked the run and `wait` is false.
        StorageError: The process with the lock gives no sign of life, or the store fails.
    """
    if not store:
        run = RunFolder(Path(folder))
        run.wait_until_there()
        with locked(run.lock, wait):
            yield run
        return
    mirror = _mirror(folder, store)
    with locked(mirror.root / "lock", wait):
        mirror.pull(("*",))
        try:
            yield RunFolder(mirror.root, lambda: _send_some(mirror))
        finally:  # also if Tune stops the run with SystemExit
            _send(mirror)
        discard(mirror.root)  # before another worker on this machine takes the lock


@contextmanager
def follower_run_folder(folder: str, store: str) -> Iterator[RunFolder]:
    """Yield the run's folder for the other workers of a group, with the checkpoints of the first worker."""
    if not store:
        yield RunFolder(Path(folder))
        return
    mirror = _mirror(folder, store)
    mirror.pull(CHECKPOINTS)
    yield RunFolder(mirror.root)
    # fails if the first worker is on this node and still running
    with suppress(StorageError), locked(mirror.root / "lock"):
        discard(mirror.root)


def is_free(folder: str, store: str) -> bool:
    """Return whether no process has locked the run. On a store, only this machine is checked."""
    return not is_locked(RunFolder(_local(folder, store) if store else Path(folder)).lock)


def _local(folder: str, store: str) -> Path:
    """Return the run's folder on this machine, separate from the driver's copy of all records.

    Other processes update the driver's copy.
    """
    return scratch(store).with_suffix(".work") / Path(folder).name


def _mirror(folder: str, store: str) -> Mirror:
    local = _local(folder, store)
    local.mkdir(parents=True, exist_ok=True)
    return Mirror(store, local, f"runs/{local.name}")


def _send(mirror: Mirror) -> None:
    mirror.push(mirror.root)
    mirror.forget()


def _send_some(mirror: Mirror) -> None:
    """Send the changes so far. A failure is only logged, because the run can continue without."""
    try:
        _send(mirror)
    except StorageError as error:
        log.warning("The run continues, but its latest records are not on the store: %s", error)
