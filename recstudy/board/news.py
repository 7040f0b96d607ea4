"""What a reader is notified of: a study that has ended, a run that failed or diverged, since the board began to look."""

from dataclasses import dataclass, field
from typing import NamedTuple

from recstudy.board.plans import Planned, Study
from recstudy.board.watch import Watch
from recstudy.report.names import plural

MOST = 20  # that are kept for readers who have not asked since
LOST = ("failed", "diverged")
ENDED = ("done", "stopped", "failed", "diverged")


class Notice(NamedTuple):
    """`at` counts them from 1; `path` is the page to open."""

    at: int
    title: str
    words: str
    path: tuple[str, ...]


@dataclass
class News:
    """The notices so far. `seen`: how each run was at the last look; None before the first."""

    notices: list[Notice] = field(default_factory=list)
    seen: dict[str, str] | None = None
    version: int = -1

    @property
    def last(self) -> int:
        return self.notices[-1].at if self.notices else 0

    def look(self, watch: Watch) -> None:
        """What is new of the folder; all of it was there before the first look."""
        if self.version == watch.version:
            return
        now = {run_id: seen.outcome.status for run_id, seen in watch.runs.items()}
        before, self.seen, self.version = self.seen, now, watch.version
        if before is not None:
            new = {run_id for run_id, status in now.items() if before.get(run_id) != status and status in ENDED}
            for study, planned in watch.studies.items() if new else ():
                self._of(study, planned, now, new & planned.named.keys())

    def _of(self, study: Study, planned: Planned, now: dict[str, str], new: set[str]) -> None:
        for run_id in [one for one in planned.named if one in new and now[one] in LOST]:
            variant, seed = planned.named[run_id]
            label = planned.plan.variants[variant].label
            self._add(f"A run has {now[run_id]}", f"{label}, seed {seed}", ("run", run_id))
        found = [now.get(run_id, "not run") for run_id in planned.named]
        if new and all(status in ENDED for status in found):
            counts = {status: found.count(status) for status in ENDED if status in found}
            told = ", ".join(f"{count:,} {status}" for status, count in counts.items())
            self._add(f"{study[0]} ({study[1]}) has ended", f"{plural(len(found), 'run')}: {told}", ("study", *study))

    def _add(self, title: str, words: str, path: tuple[str, ...]) -> None:
        self.notices = [*self.notices, Notice(self.last + 1, title, words, path)][-MOST:]
