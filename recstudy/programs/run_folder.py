"""Where a worker writes a run's records: the run's own folder, or a copy of one on an object store that is
sent back.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recstudy.errors import StorageError
from recstudy.files import discard
from recstudy.records import RunFolder, held, locked
from recstudy.records.mirror import Mirror, scratch

log = logging.getLogger(__name__)

CHECKPOINTS = ("checkpoint-*.pt",)


@contextmanager
def locked_run_folder(folder: str, store: str, wait: bool = True) -> Iterator[RunFolder]:
    """Yield the run's folder, for one worker at a time; what is written there has reached the store when the
    block ends.

    Args:
        folder: the run's, named by its id.
        store: the URI of the results it belongs to; empty where `folder` itself holds the records.
        wait: for whoever works on it now; else say at once who that is.

    Raises:
        Held: somebody else holds the run, and we do not wait.
        StorageError: somebody else holds the run and is silent, or the store fails.
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
        finally:  # also where Tune ends the run
            _send(mirror)
        discard(mirror.root)  # before another worker here has the lock


@contextmanager
def beside(folder: str, store: str) -> Iterator[RunFolder]:
    """Yield the run's folder for the other workers of a group, with the checkpoints that the first has
    found.
    """
    if not store:
        yield RunFolder(Path(folder))
        return
    mirror = _mirror(folder, store)
    mirror.pull(CHECKPOINTS)
    yield RunFolder(mirror.root)
    # unless the first is on this node, and goes on
    with suppress(StorageError), locked(mirror.root / "lock"):
        discard(mirror.root)


def is_free(folder: str, store: str) -> bool:
    """Return whether no process works on the run; if it is on a store, no process of this machine."""
    return not held(RunFolder(_local(folder, store) if store else Path(folder)).lock)


def _local(folder: str, store: str) -> Path:
    """Return the run's folder on this machine, apart from the driver's copy of all records, which other
    processes renew.
    """
    return scratch(store).with_suffix(".work") / Path(folder).name


def _mirror(folder: str, store: str) -> Mirror:
    """Return the mirror of the run alone."""
    local = _local(folder, store)
    local.mkdir(parents=True, exist_ok=True)
    return Mirror(store, local, f"runs/{local.name}")


def _send(mirror: Mirror) -> None:
    mirror.push(mirror.root)
    mirror.forget()


def _send_some(mirror: Mirror) -> None:
    """Send what there is; the run can do without, as without a checkpoint."""
    try:
        _send(mirror)
    except StorageError as error:
        log.warning("resuming, but the store lags behind: %s", error)
