"""Results on an object store: the copy on this machine that the board reads is fetched again while somebody looks."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from recstudy.records import Results
from recstudy.records.leases import last_beat

EVERY_S = 5.0
REST = 3.0  # or this often as long as the last fetch took: a store lists 1,000 objects at a time
log = logging.getLogger(__name__)


class Follower:
    """Keeps the copy as the store is, in a thread of its own.

    Args:
        results: on a store.
        wanted: whether somebody looks.

    Raises:
        ConfigError, StorageError: the first fetch fails.
    """

    def __init__(self, results: Results, wanted: Callable[[], bool]) -> None:
        self.results, self.wanted = results, wanted
        self.beats: dict[str, float] = {}  # run id -> when its worker last said there that it lives
        self.problem = ""  # why the copy is not as the store is
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="store", daemon=True)
        self.fetch()

    def fetch(self) -> None:
        """What is new in the store; of runs that have not ended, also their leases, which no copy holds."""
        assert self.results.mirror is not None
        self.results.pull()
        folders = [Path(folder.path) for folder in self.results.run_folders()]
        for folder in (one for one in folders if not (one / "result.json").exists()):
            self.beats[folder.name] = last_beat(self.results.mirror, folder)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(1.0)  # a fetch that waits for a store that is gone ends with the process

    def _work(self) -> None:
        took = 0.0
        while not self._ended.wait(max(EVERY_S, REST * took)):
            if not self.wanted():
                continue
            began = time.monotonic()
            try:
                self.fetch()
                self.problem = ""
            except Exception as error:  # the store may come back; what was fetched is still shown
                log.warning("cannot fetch %s: %s", self.results.store, error)
                self.problem = f"This is older than the store, which cannot be read: {error}"
            took = time.monotonic() - began
