"""Runs that another study, or a process of before, works on: put off, and waited for in the driver, where that takes no room."""

import threading
from collections import deque
from collections.abc import Iterator

from recstudy.cluster.view import View
from recstudy.errors import StorageError
from recstudy.records import Results
from recstudy.study.study import Run
from recstudy.train.run_folder import wait_until_free


class HeldRuns:
    """What is put off, and for whom; false where nothing is.

    Args:
        results: with the runs.
        view: is told of each.
    """

    def __init__(self, results: Results, view: View) -> None:
        self.results, self.view = results, view
        self._waits: dict[str, tuple[Run, str]] = {}
        self._told: set[str] = set()
        self._over: deque[tuple[Run, StorageError | None]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waits)

    def add(self, run: Run, holder: str) -> None:
        """Wait for `holder` to leave the run."""
        self._waits[run.id] = run, holder
        self.view.put_off(run, holder)
        threading.Thread(target=self._wait, args=(run,), daemon=True).start()

    def _wait(self, run: Run) -> None:
        vain = None
        try:
            wait_until_free(str(self.results.run(run.id).path), self.results.store)
        except StorageError as error:
            vain = error
        finally:
            self._over.append((run, vain))

    def free(self) -> Iterator[tuple[Run, StorageError | None]]:
        """The runs that are waited for no more; with why, where that was in vain."""
        while self._over:
            run, vain = self._over.popleft()
            del self._waits[run.id]
            self._told.discard(run.id)
            yield run, vain

    def tell(self) -> None:
        """Nothing else is left to do: say, once, what is waited for."""
        for run_id, (run, holder) in self._waits.items():
            if run_id not in self._told:
                self._told.add(run_id)
                self.view.waits(holder, f"{run.label}, seed {run.seed}")
