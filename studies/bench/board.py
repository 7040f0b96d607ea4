"""The live board over a folder of 10,000 runs: how long a reader waits for a page, and for an update of it.

The runs are those of `scale`, one of them not finished. The board runs in a process of its own, and is asked over HTTP what a
browser asks it: the page itself, its layout, and then its parts. "First" is the first page that it is asked for, while it is
still reading the records: the page says so, and fills up, as that of the study does. The list of its runs is sorted and filtered,
each timed until it is as it was asked for. Then a result is written, and the page asks as it does every two seconds, only more
often: how long the longest answer takes, and when the result is among them.
"""

import json
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from figure import Figure
from scale import EPOCHS, SEEDS, STUDY, TIMES, VARIANTS, make_up, result

from recstudy.records import Result, Results
from recstudy.records.reading import record_of
from recstudy.study.study import make_plan

BOARD = "from recstudy.command import main; main()"
OUTPUTS = ("update.data", "have.data")
PAUSE_S = 0.1
PATIENCE_S = 60.0
SORTS = ("sort=-top1_accuracy", "sort=learning_rate", "sort=status")
FILTERS = ("latent_steps=2", "learning_rate=1e-4..2e-4", "find=steps=3")


def measure(options: object) -> list[Figure]:
    """Seconds to a page and milliseconds to an update."""
    first, whole, pages, drawn, ticks, shown, begun, sorts, filters = ([] for _ in range(9))  # type: tuple[list[float], ...]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "many.py"
        script.write_text(STUDY)
        results = Results(Path(folder) / "results").create()
        plan = make_plan(runpy.run_path(str(script))["study"])
        make_up(plan, results)
        for last in plan.runs[-TIMES:]:
            results.run(last.id).result.unlink()
        for last in plan.runs[-TIMES:]:
            with board(results.root) as page:
                first.append(timed(page.open, "/"))
                whole.append(timed(page.until_whole, "/") + first[-1])
                pages.append(timed(page.open, "/study/many/quick"))
                drawn.append(timed(page.until_whole, "/study/many/quick") + pages[-1])
                begun.append(timed(page.until_list, "", "rows 1 to 50"))
                sorts += [1e3 * timed(page.until_list, asked, "aria-sort") for asked in SORTS]
                filters += [1e3 * timed(page.until_list, asked, "without the filter") for asked in FILTERS]
                page.until_whole("/study/many/quick")
                results.run(last.id).finish(record_of(Result, result(last)))
                slowest, seconds = page.until(f"{len(plan.runs) - TIMES + len(shown) + 1:,} of")
                ticks.append(1e3 * slowest)
                shown.append(seconds)
    runs = f"{VARIANTS * SEEDS:,} runs"
    return [
        Figure(f"first page of {runs}", "s", first, most=1.0, note="the board has just started to read"),
        Figure(f"all of them read and on the page, {runs}", "s", whole),
        Figure(f"page of a study of {runs}", "s", pages, most=1.0, note=f"{EPOCHS} epochs a run; what takes longer follows"),
        Figure(f"all of its tables and figures, {runs}", "s", drawn),
        Figure("update, slowest answer", "ms", ticks, most=200, note="while a result comes in"),
        Figure(f"list of {runs}", "s", begun, most=1.0),
        Figure("list sorted", "ms", sorts, most=200, note=", ".join(SORTS)),
        Figure("list filtered", "ms", filters, most=200, note=", ".join(FILTERS)),
        Figure("from a result to its page", "s", shown, note="of the study of all runs"),
    ]


class Browser:
    """Asks what a browser asks.

    Args:
        url: the board's.
        process: the board's.
    """

    def __init__(self, url: str, process: int) -> None:
        self.url, self.process, self.path, self.search, self.have = url, process, "", "", dict[str, Any]()

    def open(self, path: str) -> str:
        """The page with its parts, as a browser that has none of it gets them."""
        self.path, self.search, self.have = path, "", {}
        for file in (path, "/_dash-layout", "/_dash-dependencies"):
            self._ask(file)
        return self.update()

    def update(self) -> str:
        """What the page's two-second tick brings."""
        inputs = [("at", "pathname", self.path), ("at", "search", self.search), ("tick", "n_intervals", 1)]
        asked = {
            "output": f"..{'...'.join(OUTPUTS)}..",
            "outputs": [dict(zip(("id", "property"), name.split("."), strict=True)) for name in OUTPUTS],
            "inputs": [{"id": name, "property": kind, "value": value} for name, kind, value in inputs],
            "state": [{"id": "have", "property": "data", "value": self.have}],
            "changedPropIds": ["tick.n_intervals"],
        }
        said = self._ask("/_dash-update-component", json.dumps(asked).encode())
        if said:
            self.have = json.loads(said)["response"].get("have", {}).get("data", self.have)
        return said

    def until_whole(self, path: str) -> None:
        self.open(path)
        said, until = self.open(path), time.perf_counter() + PATIENCE_S
        while "Reading the records" in said or "Being drawn" in said:
            assert time.perf_counter() < until, said[:1000]
            time.sleep(PAUSE_S)
            said = self.open(path)

    def until_list(self, asked: str, words: str) -> None:
        """The list of runs that a query asks for, from the one before."""
        self.path, self.search, until = "/runs/many/quick", f"?{asked}" if asked else "", time.perf_counter() + PATIENCE_S
        while words not in self.update():
            assert time.perf_counter() < until, f"no {words!r}"
            time.sleep(PAUSE_S)

    def until(self, words: str) -> tuple[float, float]:
        """Seconds of the slowest update until one has these words, and until then."""
        began, slowest, said = time.perf_counter(), 0.0, ""
        while words not in said:
            asked = time.perf_counter()
            said = self.update()
            slowest = max(slowest, time.perf_counter() - asked)
            assert asked - began < PATIENCE_S, f"no {words!r} after {PATIENCE_S:.0f} s"
            time.sleep(PAUSE_S)
        return slowest, time.perf_counter() - began

    def _ask(self, path: str, body: bytes | None = None) -> str:
        asked = Request(self.url + path, body, {"Content-Type": "application/json"})
        with urlopen(asked, timeout=PATIENCE_S) as answer:
            return answer.read().decode()


@contextmanager
def board(root: Path) -> Iterator[Browser]:
    """A board in a process of its own, as soon as it says that it listens."""
    command: Sequence[str] = [sys.executable, "-c", BOARD, "board", str(root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Browser(process.stdout.readline().split()[1], process.pid)
        finally:
            process.terminate()


def timed(work: Any, *arguments: Any) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - began
