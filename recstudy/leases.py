"""Who may write to a folder of an object store, where no file can be locked: whoever's token stands in its lease.

A claimant writes its token, waits, and reads: of several who write at once the last one's stands, and all of them see the
same (stores whose reads follow their writes: S3, Google's, Azure's). The holder renews it; a waiter that sees nothing new
for `PATIENCE` of its own clock takes it over. A holder that comes back then finds another's token and sends nothing.
"""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from recstudy.errors import StorageError
from recstudy.files import write_whole
from recstudy.locks import PATIENCE
from recstudy.mirror import Mirror

SETTLE_S = 1.0  # between writing and reading: longer than a renewal takes, which reads before it writes
BEAT_S = 10.0  # between two renewals
POLL_S = 1.0  # between two looks of a waiter


class LeaseLost(StorageError):
    """Another process holds what this one held: it saw no sign of life for `PATIENCE`."""


@contextmanager
def leased(
    mirror: Mirror, folder: Path, holder: str, on_wait: Callable[[str], None] | None = None, patience: float = PATIENCE
) -> Iterator[None]:
    """Hold the store's copy of `folder`, as long as it takes; what the mirror sends within the block, it sends as the holder.

    Args:
        mirror: of the store.
        folder: here, held by this process's lock: so a lease with the token that is kept in it was a dead process's.
        holder: who we are, for those who wait.
        on_wait: called once, with the holder's name, when there is a wait.
        patience: seconds without a sign of life.

    Raises:
        StorageError: the store fails.
    """
    lease = _Lease(mirror, folder, holder)
    lease.take(on_wait, patience)
    ended = threading.Event()
    thread = threading.Thread(target=lease.renew, args=(ended,), daemon=True)
    thread.start()
    mirror.guard = lease.check
    try:
        yield
    finally:
        mirror.guard = lambda: None
        ended.set()
        thread.join()
        with suppress(StorageError):  # then it runs out
            lease.give_back()


class _Lease:
    def __init__(self, mirror: Mirror, folder: Path, holder: str) -> None:
        self.mirror, self.holder, self.key = mirror, holder, mirror.key(folder / "lease")
        self.token, self.beats = _token(folder / "lease"), 0

    def take(self, on_wait: Callable[[str], None] | None, patience: float) -> None:
        seen, since = None, time.monotonic()
        while True:
            now = self._read()
            if now != seen:
                seen, since = now, time.monotonic()
            if now is None or now["token"] == self.token or time.monotonic() - since > patience:
                self._write()
                time.sleep(SETTLE_S)
                if self._ours:
                    return
            elif on_wait is not None:
                on_wait(now["holder"])
                on_wait = None
            time.sleep(POLL_S)

    def renew(self, ended: threading.Event) -> None:
        while not ended.wait(BEAT_S):
            with suppress(StorageError):  # the next one may pass
                if not self._ours:
                    return
                self._write()

    def check(self) -> None:
        if not self._ours:
            raise LeaseLost(
                f"another process has taken over {self.key.rpartition('/')[0]}: this one showed no sign of life for "
                f"{PATIENCE:.0f} s. What it did since is not kept."
            )

    def give_back(self) -> None:
        if self._ours:
            self.mirror.delete(self.key)

    @property
    def _ours(self) -> bool:
        now = self._read()
        return now is not None and now["token"] == self.token

    def _read(self) -> dict[str, Any] | None:
        """Who stands in the lease; None where it is free."""
        content = self.mirror.read(self.key)
        try:
            return None if content is None else {"token": "", "holder": "", **json.loads(content)}
        except (ValueError, TypeError):
            return {"token": "", "holder": "a process that left no name"}

    def _write(self) -> None:
        self.beats += 1
        content = {"holder": self.holder, "token": self.token, "beat": self.beats}
        self.mirror.write(self.key, json.dumps(content).encode())


def _token(path: Path) -> str:
    """This folder's own, made once."""
    if not path.exists():
        write_whole(path, uuid.uuid4().hex)
    return path.read_text()
