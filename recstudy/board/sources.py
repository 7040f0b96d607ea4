"""What pages are made from: the folder as of the last look, the records of its studies, and where other programs are."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from recstudy.analysis.findings import findings
from recstudy.board.markup import Address
from recstudy.board.news import News
from recstudy.board.plans import Planned, Study
from recstudy.board.progress import Under, under
from recstudy.board.rows import Kept
from recstudy.board.store import Follower
from recstudy.board.watch import Watch
from recstudy.plugins import reading

LINKS = {
    "Ray dashboard": "http://127.0.0.1:8265",
    "TensorBoard": "http://127.0.0.1:6006",
    "Optuna dashboard": "http://127.0.0.1:8080",
}


def compared(address: Address) -> list[str]:
    """What an address asks to compare: `runs=ID,ID` or `a=...&b=...`."""
    words = address.get("runs").split(",") if address.get("runs") else [address.get("a"), address.get("b")]
    return [side for word in words if (side := word.strip())]


@dataclass(frozen=True)
class Sources:
    """`links`: name and address of the programs that the board points to. `store`: where the folder is a copy of one."""

    watch: Watch
    kept: Kept
    links: tuple[tuple[str, str], ...] = tuple(LINKS.items())
    store: Follower | None = None
    news: News = field(default_factory=News, init=False)

    def finding(self, study: Study) -> str:
        """The first of a study's findings."""
        records = self.kept.records(study)

        def said() -> str:
            with self.plugins(Address(("study", *study))):
                return str(findings(records)[0])

        return records.once("finding", said)

    def studies_of(self, run_id: str) -> list[Study]:
        """The studies that name this run."""
        return [study for study, planned in self.watch.studies.items() if run_id in planned.named]

    @contextmanager
    def plugins(self, address: Address) -> Iterator[list[str]]:
        """What the studies of a page define themselves, as long as the block runs; gives digests of it."""
        studies = [self.watch.studies[study] for study in self._studies(address) if study in self.watch.studies]
        with ExitStack() as kept:
            yield [kept.enter_context(reading(planned.plan.plugins)) for planned in studies]

    def _studies(self, address: Address) -> list[Study]:
        match address.path:
            case ("study" | "runs", name, preset):
                return [(name, preset)]
            case ("run", run_id):
                return self.studies_of(run_id)[:1]
            case ("compare",):
                sides = compared(address)
                named = [(name, preset) for name, slash, preset in (side.partition("/") for side in sides) if slash]
                return named or list(dict.fromkeys(study for side in sides for study in self.studies_of(side)[:1]))
        return []

    def live(self, planned: Planned | None = None) -> tuple[tuple[str, int], ...]:
        """The runs under way, of all studies or of one, and how far their logs were read: other where one has gone on."""
        return tuple(
            (run_id, seen.log.offset if seen.log else 0)
            for run_id, seen in self.watch.running.items()
            if planned is None or run_id in planned.named
        )

    def under_way(self) -> list[Under]:
        """The runs under way, each once."""
        found = []
        for run_id, seen in self.watch.running.items():
            planned = next((one for one in self.watch.studies.values() if run_id in one.named), None)
            found += [under(planned, run_id, seen)] if planned is not None else []
        return found
