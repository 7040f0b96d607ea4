"""Where a worker writes a run's records: the run's own folder, or a copy of one on an object store that is sent back."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recstudy.errors import StorageError
from recstudy.files import discard
from recstudy.records import RunFolder, locked
from recstudy.records.mirror import Mirror, scratch

log = logging.getLogger(__name__)

CHECKPOINTS = ("checkpoint-*.pt",)


@contextmanager
def locked_run_folder(folder: str, store: str, wait: bool = True) -> Iterator[RunFolder]:
    """Yield the run's folder, for one worker at a time; what is written there has reached the store when the block ends.

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
    """Yield the run's folder for the other workers of a group, with the checkpoints that the first has found."""
    if not store:
        yield RunFolder(Path(folder))
        return
    mirror = _mirror(folder, store)
    mirror.pull(CHECKPOINTS)
    yield RunFolder(mirror.root)
    with suppress(StorageError), locked(mirror.root / "lock"):  # unless the first is on this node, and goes on
        discard(mirror.root)


def wait_until_free(folder: str, store: str) -> None:
    """Wait for whoever works on the run (StorageError: it is silent, or the store fails)."""
    here = RunFolder(_mirror(folder, store).root if store else Path(folder))
    with locked(here.lock, wait=True):
        pass


def _mirror(folder: str, store: str) -> Mirror:
    """Return the mirror of the run alone: apart from the driver's copy of all records, which others here read and renew."""
    run_id = Path(folder).name
    here = scratch(store).with_suffix(".work") / run_id
    here.mkdir(parents=True, exist_ok=True)
    return Mirror(store, here, f"runs/{run_id}")


def _send(mirror: Mirror) -> None:
    mirror.push(mirror.root)
    mirror.forget()


def _send_some(mirror: Mirror) -> None:
    """Send what there is; the run can do without, as without a checkpoint."""
    try:
        _send(mirror)
    except StorageError as error:
        log.warning("resuming, but the store lags behind: %s", error)
