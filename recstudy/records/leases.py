"""Who may write to a folder of an object store, where no file can be locked: whoever's claim stands there alone.

    FOLDER/lease-TOKEN         a claim: who made it, and a number that is counted up while its process lives
    FOLDER/lease-TOKEN.over    that it was silent for `PATIENCE` of a waiter's clock: it counts no more, whatever comes later

Every claim has an object of its own, so no write, however late it arrives or however often it is tried again, touches
another's. A claimant writes its claim, looks once that write is done, and holds the lease if no other claim stands there; of
two at once at least the one whose write ended later sees the other. The smaller token then stays, the larger one steps back
(Burns and Lamport's one-bit algorithm). It takes reads and lists that follow finished writes, as S3, Google's, Azure's and
file systems give them, and no conditional writes, which pyarrow does not have and not every S3 server honours.

Whoever was taken for silent and comes back finds its claim over, and sends nothing. What it was sending at that very moment
still arrives: a store cannot tell it from a holder's.
"""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recstudy.errors import StorageError
from recstudy.records.files import write_whole
from recstudy.records.locks import PATIENCE, Held
from recstudy.records.mirror import Mirror

BEAT_S = 10.0  # between two renewals
POLL_S = 1.0  # between two looks of a waiter
CLAIM, OVER = "lease-", ".over"


class LeaseLost(StorageError):
    """Another process holds what this one held: it saw no sign of life for `PATIENCE`."""


@contextmanager
def leased(
    mirror: Mirror,
    folder: Path,
    holder: str,
    on_wait: Callable[[str], None] | None = None,
    patience: float = PATIENCE,
    wait: bool = True,
) -> Iterator[None]:
    """Hold the store's copy of `folder`, as long as it takes; what the mirror sends within the block, it sends as the holder.

    Args:
        mirror: of the store.
        folder: here, held by this process's lock: so a claim whose token is kept in it was a dead process's.
        holder: who we are, for those who wait.
        on_wait: called once, with the holder's name, when there is a wait.
        patience: seconds without a sign of life.
        wait: as long as the present holder shows that it lives; else say at once who it is.

    Raises:
        Held: it is held and we do not wait.
        StorageError: the store fails.
    """
    lease = _Lease(mirror, folder, holder)
    ended = threading.Event()
    thread = threading.Thread(target=lease.renew, args=(ended,), daemon=True)
    try:
        lease.take(on_wait, patience, wait)
        thread.start()
        mirror.guard = lease.check
        yield
    finally:
        mirror.guard = lambda: None
        ended.set()
        if thread.ident is not None:
            thread.join()
        with suppress(StorageError):  # then it runs out
            lease.lower()


def last_beat(mirror: Mirror, folder: Path) -> float:
    """When a holder of the store's copy of `folder` last said that it lives, in seconds; 0 where nobody holds it."""
    key = mirror.key(folder)
    written = {info.base_name: (info.mtime_ns or 0) / 1e9 for info in mirror.listed(key)}
    return max((written[CLAIM + token] for token in _claims(written)), default=0.0)


def _claims(names: Iterator[str] | dict[str, float]) -> set[str]:
    """Return the tokens of the claims among those names that are not over."""
    found = {name.removeprefix(CLAIM) for name in names if name.startswith(CLAIM)}
    return {token for token in found if not token.endswith(OVER) and token + OVER not in found}


class _Lease:
    def __init__(self, mirror: Mirror, folder: Path, holder: str) -> None:
        self.mirror, self.holder, self.place, self.kept = mirror, holder, mirror.key(folder), folder / "lease"
        # a claim that a process made here that died
        self.dead = self.kept.read_text(encoding="utf-8") if self.kept.exists() else ""
        self.token, self.beats, self.written = "", 0, 0.0

    def take(self, on_wait: Callable[[str], None] | None, patience: float, wait: bool) -> None:
        if self.dead:
            self.mirror.delete(self._key(self.dead))
        seen: dict[str, tuple[bytes, float]] = {}
        while True:
            claims = self._standing()
            others = claims - {self.token}
            if self.token in claims and not others:
                return
            if not self.token and not others:
                self._raise()
                continue  # look again, now that it is written
            if self.token and (self.token not in claims or not wait or min(others) < self.token):
                self.lower()
            holders = [
                name for token in sorted(others) if (name := self._watched(token, seen, patience))
            ]  # the patience with each
            if holders and not wait:
                raise Held(self.place, holders[0])
            if holders and on_wait is not None:
                on_wait(holders[0])
                on_wait = None
            if self.token and time.monotonic() - self.written > BEAT_S:
                self._write()
            time.sleep(POLL_S)

    def renew(self, ended: threading.Event) -> None:
        while not ended.wait(BEAT_S):
            with suppress(StorageError):  # the next one may pass
                if self.token not in self._standing():
                    return
                self._write()

    def check(self) -> None:
        if self.token not in self._standing():
            raise LeaseLost(
                f"another process has taken over {self.place}: this one showed no sign of life for {PATIENCE:.0f} s. "
                "What it did since is not kept."
            )

    def lower(self) -> None:
        """Take the claim back. A token is used once: whatever of it still arrives at the store is nobody's."""
        if self.token:
            token, self.token = self.token, ""
            for key in (self._key(token), self._key(token) + OVER):
                self.mirror.delete(key)
            self.kept.unlink(missing_ok=True)

    def _raise(self) -> None:
        self.token = uuid.uuid4().hex
        write_whole(self.kept, self.token)
        self._write()

    def _standing(self) -> set[str]:
        """Return the tokens of all claims in the store that count."""
        return _claims({info.base_name: 0.0 for info in self.mirror.listed(self.place)}) - {self.dead}

    def _watched(self, token: str, seen: dict[str, tuple[bytes, float]], patience: float) -> str:
        """Return who made a claim, empty where it has gone or is being written; from now on a claim long silent is over.

        A file system shows a file before its content: a claim without a name is one only after a beat.
        """
        content, now = self.mirror.read(self._key(token)), time.monotonic()
        if content is None:
            return ""
        if token not in seen or seen[token][0] != content:
            seen[token] = content, now
        elif now - seen[token][1] > patience:
            self.mirror.write(self._key(token) + OVER, json.dumps({"said by": self.holder}).encode())
            self.mirror.delete(self._key(token))
        try:
            return str(json.loads(content)["holder"])
        except (ValueError, TypeError, KeyError):
            return "a process that left no name" if now - seen[token][1] > BEAT_S else ""

    def _write(self) -> None:
        self.beats, self.written = self.beats + 1, time.monotonic()
        self.mirror.write(self._key(self.token), json.dumps({"holder": self.holder, "beat": self.beats}).encode())

    def _key(self, token: str) -> str:
        return f"{self.place}/{CLAIM}{token}"
