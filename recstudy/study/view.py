"""What a person sees while a study runs: live where the output is a terminal, plain lines where it is not."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from recstudy.study.budget import Budget
from recstudy.study.study import Run
from recstudy.terminal import duration

SHOWN = 12  # running runs in the live table
SCORED = {"top1_accuracy": "top-1", "auroc": "AUROC", "token_accuracy": "tokens", "recall_1": "recall@1"}  # in few letters


@dataclass
class View:
    """Counts, the best so far, the runs under way and the time left."""

    console: Console
    _live: Live | None = None
    _runs: int = 0
    _cached: int = 0
    _todo: int = 0
    _done: int = 0
    _failed: int = 0
    _best: tuple[float, str] = (float("-inf"), "")
    _running: dict[str, tuple[Run, Mapping[str, Any]]] = field(default_factory=dict)
    _began: float = 0.0
    _epochs_done: float = 0.0
    _counted: bool = False  # a search that knows how many runs it will make

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(get_renderable=self._picture, console=self.console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def planned(self, runs: Sequence[Run], missing: Sequence[Run]) -> None:
        self._runs, self._todo, self._cached = len(runs), len(missing), len(runs) - len(missing)
        self._say(f"{len(runs)} runs: {self._cached} finished before, {self._todo} to run")

    def searching(self, budget: Budget, tried: int, waiting: int) -> None:
        self._todo = waiting + (max(0, int(budget.amount) - tried) if budget.unit == "runs" else 0)
        self._counted = budget.unit == "runs"
        again = f", {waiting} of them to run" if waiting else ""
        self._say(f"Budget: {budget}; {tried} settings tried before{again}")

    def proposed(self, label: str, known: bool) -> None:
        """A sampler's proposal; one whose result is known costs nothing."""
        self._todo += 0 if self._counted else 1
        if known:
            self._todo -= 1
            self._say(f"{label}: known from another study, not run again")

    def exhausted(self) -> None:
        self._say("The sampler finds no settings that were not tried: the space is searched.")

    def confirming(self, runs: Sequence[Run], missing: Sequence[Run]) -> None:
        labels = len({run.label for run in runs})
        self._todo += len(missing)
        self._say(f"The best {labels} again with fresh seeds: {len(runs)} runs, {len(missing)} to run")

    def waits(self, holder: str) -> None:
        self._say(f"Waiting for {holder}, which works on this study. Ctrl-C stops waiting.")

    def silent(self, address: str, seconds: float) -> None:
        self._say(f"{address} has not answered yet; trying for up to {seconds:.0f} s")

    def connected(self, dashboard: str) -> None:
        self._began = time.monotonic()
        if dashboard:
            self._say(f"Ray dashboard: {dashboard} (its token: ray get-auth-token)")

    def started(self, run: Run) -> None:
        self._running[run.id] = (run, {})

    def epoch(self, run: Run, line: Mapping[str, Any]) -> None:
        _, before = self._running.get(run.id, (run, {}))
        self._epochs_done += _share(line) - _share(before)
        self._running[run.id] = (run, line)

    def warned(self, run: Run, text: str) -> None:
        self._say(f"{run.label}, seed {run.seed}: warning: {text}")

    def logger_failed(self, name: str, error: str) -> None:
        self._say(f"--log {name} has stopped, and the runs go on: {error}")

    def ended(self, run: Run, outcome: Mapping[str, Any]) -> None:
        _, before = self._running.pop(run.id, (run, {}))
        self._epochs_done += 1 - _share(before)
        status = outcome["status"]
        failed = status == "failed"
        self._done, self._failed = self._done + (not failed), self._failed + failed
        score = outcome.get("score")
        if score is not None and status == "done":
            self._best = max(self._best, (score, run.label))
        named = SCORED[run.config.score]
        scored = "" if score is None else f"{named} {score:.2f} %"
        what = (
            outcome.get("error", "failed") if failed else scored if status == "done" and scored else f"{status} {scored}".strip()
        )
        self._say(f"[{self._done + self._failed}/{self._todo}] {run.label}, seed {run.seed}: {what}   {self._left()}")

    def gave_up(self, error: str, count: int) -> None:
        """Said once, in place of as many failures as there are runs left."""
        self._say(f"Stopped: {count} runs failed in the same way and none succeeded: {error}")
        self._say("The others were not run. Mend the cause, and give the same command again.")

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, soft_wrap=True)

    def _left(self) -> str:
        if not self._epochs_done or self._epochs_done >= self._todo:
            return ""
        rest = (time.monotonic() - self._began) * (self._todo - self._epochs_done) / self._epochs_done
        return f"about {duration(rest)} left"

    def _picture(self) -> RenderableType:
        best = f"   best {self._best[0]:.2f} % ({self._best[1]})" if self._best[1] else ""
        counts = f"{self._done} done, {len(self._running)} running, {self._failed} failed of {self._todo}{best}   {self._left()}"
        table = Table(box=None, pad_edge=False)
        for name in ("run", "seed", "epoch", "loss", "score"):
            table.add_column(name, justify="left" if name == "run" else "right")
        for run, line in list(self._running.values())[:SHOWN]:
            table.add_row(*_row(run, line))
        return Group(Text(counts), table)


def _share(line: Mapping[str, Any]) -> float:
    return (line["epoch"] + 1) / line["epochs"] if line else 0.0


def score_name(line: Mapping[str, Any]) -> str:
    """Under which an epoch's line has its score on the selection split; empty where it has none."""
    return next((name for name in line if name.startswith("selection_") and name != "selection_loss"), "")


def _row(run: Run, line: Mapping[str, Any]) -> list[Text]:
    score = line.get(score_name(line))
    cells = [
        run.label,
        str(run.seed),
        f"{line['epoch'] + 1}/{line['epochs']}" if line else "starting",
        f"{line['train_loss']:.3f}" if line else "",
        "" if score is None else f"{score:.2f} %",
    ]
    return [Text(cell) for cell in cells]
