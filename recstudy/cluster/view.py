"""Display the progress of a study: a live table in a terminal or notebook, plain lines elsewhere."""

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from recstudy.base.errors import EXIT_CODES
from recstudy.base.terminal import duration
from recstudy.records import Run
from recstudy.report.names import metric, number, plural
from recstudy.report.remaining import Job, remaining_seconds, wall_time
from recstudy.study.plan import Plan
from recstudy.study.record import command

MAX_ROWS = 12  # runs in the live table, and lines above it in a notebook
REFRESH_S = 0.25  # time between two updates of a notebook
PATIENCE = 20  # an estimate of the time left is reused for this multiple of its computing time
QUIET_S = 30.0  # time without a line, after which a pipe or a log file gets a line of the next epoch

Outcome = dict[str, Any]  # a line that a run reports: an epoch or its outcome


class NotebookCell:
    """A text in a notebook's output that is updated in place. rich's live display would need ipywidgets.

    Args:
        draw: Returns the current text.
    """

    def __init__(self, draw: Callable[[], str]) -> None:
        from IPython.display import display  # installed with every notebook

        self._draw, self._draw_time = draw, time.monotonic()
        self._handle = display({"text/plain": draw()}, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def refresh(self) -> None:
        if time.monotonic() - self._draw_time >= REFRESH_S:
            self.stop()

    def stop(self) -> None:
        """Update the text now."""
        self._draw_time = time.monotonic()
        self._handle.update({"text/plain": self._draw()}, raw=True)


class Listener:
    """Receives the events of runs."""

    def on_start(self, run: Run) -> None:
        """A process of the run has started, for the first time or to resume the run."""

    def on_epoch(self, run: Run, line: Outcome) -> None:
        """The run has finished an epoch."""

    def on_leave(self, run: Run) -> None:
        """The process has left the run without an outcome. The run resumes later."""

    def on_end(self, run: Run, outcome: Outcome) -> None:
        """The run has ended with `{"status": "done" | "diverged" | "failed" | "stopped", ...}`."""

    def close(self) -> None:
        """All runs have ended."""


@dataclass
class View(Listener):
    """Shows the counts, the best variant, the running runs and the time left."""

    console: Console

    def __post_init__(self) -> None:
        self._live: Live | NotebookCell | None = None
        self._lines = deque[str](maxlen=MAX_ROWS)  # the last lines in a notebook
        self._open_runs: dict[str, Run] = {}  # known runs that have not ended
        self._unknown = self._done = self._failed = 0  # unknown: later runs of a search
        self._shown_calls: set[tuple[str, ...]] = set()  # printed lines of user code that raised an error
        self._best = float("-inf"), "", ""  # signed score (higher is better), its text, the run's label
        # run, newest epoch, start time, time of that epoch
        self._running: dict[str, tuple[Run, Outcome, float, float]] = {}
        self._finished_jobs: list[Job] = []
        self._pflop: dict[int, float | None] = {}  # by variant
        self._max_running = 1  # the largest number of concurrent runs
        self._line_time = 0.0  # time of the last line
        self.begin("checking data and settings")
        # the time left, the time of this estimate, and how long it took
        self._estimate, self._estimated, self._estimate_s = "", float("-inf"), 0.0

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(
                get_renderable=self._picture, console=self.console, refresh_per_second=4, transient=True
            )
            self._live.start()
        elif self.console.is_jupyter:
            self._live = NotebookCell(self._text)
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _expect(self, runs: Sequence[Run]) -> str:
        """Add runs that will run. New runs of a search were counted as unknown before."""
        self._unknown = max(0, self._unknown - sum(run.id not in self._open_runs for run in runs))
        self._open_runs |= {run.id: run for run in runs}
        return f"{len(runs)} to run"

    def begin(self, phase: str) -> None:
        """Show a phase, such as `starting Ray`, with its elapsed time until the next one or the first run."""
        self._phase, self._phase_start = phase, time.monotonic()

    def ray_started(self, dashboard: str) -> None:
        """Print how long Ray took to start, and the address of its dashboard."""
        place = f". Ray dashboard: {dashboard}" if dashboard else ""
        self.say(f"Ray started in {duration(time.monotonic() - self._phase_start)}{place}")
        self.begin("starting the first run")

    def planned(self, runs: Sequence[Run], unfinished: Sequence[Run]) -> None:
        count = len({run.id for run in runs})  # variants with equal settings share their runs
        finished = count - len(unfinished)
        self.say(f"{plural(count, 'run')}: {finished} finished before, {self._expect(unfinished)}")

    def searching(self, plan: Plan, run_count: int, unfinished: Sequence[Run]) -> None:
        """Print the start of a search with `run_count` known runs, of which some are unfinished."""
        rest = f", {len(unfinished)} of them to run" if unfinished else ""
        self.say(f"Budget: {plan.split}; {run_count} runs made before{rest}")
        self._expect(unfinished)
        self._unknown = max(0, int(plan.budget.amount) - run_count) if plan.budget.unit == "runs" else 0

    def proposed(self, run: Run, is_finished: bool) -> None:
        """Add a proposal of the sampler. Its run may be finished already."""
        self._expect([run])
        if is_finished:
            del self._open_runs[run.id]
            self.say(f"{run.label}: cached result of another study")

    def extended(self, runs: Sequence[Run], unfinished: Sequence[Run], reasons: Sequence[str]) -> None:
        """Print an additional block of a study that runs until its questions are decided, and why it runs."""
        count = plural(len({run.id for run in runs}), "additional run")
        first = f"Not decided yet: {count}, {self._expect(unfinished)}: {_join_names(runs)}"
        self.say("\n".join([first, *reasons]))

    def confirming(self, runs: Sequence[Run], unfinished: Sequence[Run]) -> None:
        labels = len({run.label for run in runs})
        self.say(f"Confirming the best {labels} with new seeds: {len(runs)} runs, {self._expect(unfinished)}")

    def waits(self, holder: str, on: str = "this study") -> None:
        self.say(f"Waiting for {holder}, which runs {on}. Ctrl-C stops waiting.")

    def exit_lost(self, reason: str) -> None:
        """End this process without cleanup, because each call to Ray waits forever if the cluster is lost."""
        self.__exit__()
        resume = f"Finished runs are saved. Resume with: {command(left_out=())}"
        print(f"ClusterError: {reason}. {resume}", file=sys.stderr, flush=True)
        os._exit(EXIT_CODES["lost node"])

    def on_start(self, run: Run) -> None:
        current_time = time.monotonic()
        self._phase = ""
        self._running[run.id] = run, {}, current_time, current_time
        self._max_running = max(self._max_running, len(self._running))

    def on_epoch(self, run: Run, line: Outcome) -> None:
        current_time = time.monotonic()
        *_, start_time, _ = self._running.get(run.id, (run, line, current_time, current_time))
        self._running[run.id] = run, line, start_time, current_time
        if isinstance(self._live, NotebookCell):
            self._live.refresh()
        elif self._live is None and current_time - self._line_time >= QUIET_S:
            epochs, loss, score = _row(run, line)[2:]
            words = [f"epoch {epochs}", f"loss {loss}" if loss else "", score]
            self.say(f"{run}: {', '.join(filter(None, words))}   {self._remaining()}".rstrip())

    def on_leave(self, run: Run) -> None:
        self._running.pop(run.id, None)

    def left_out(self, run: Run) -> None:
        """Remove a run that is skipped, or that another process has executed."""
        self._open_runs.pop(run.id, None)

    def left_to_others(self, runs: Sequence[tuple[Run, str]]) -> None:
        """Print the runs that other processes are executing, when no other runs are left."""
        names = _join_names([f"{run} ({holder})" for run, holder in runs])
        self.say(f"Left to other processes: {plural(len(runs), 'run')}: {names}")

    def on_end(self, run: Run, outcome: Outcome) -> None:
        text, score, current_time = outcome["status"], outcome.get("score"), time.monotonic()
        *_, start_time, last = self._running.pop(run.id, (run, {}, current_time, current_time))
        self._open_runs.pop(run.id, None)
        is_done = text == "done"
        if is_done:
            self._finished_jobs.append(
                Job(run.variant, self._priced(run), last - start_time, current_time - last)
            )
        if text == "failed":
            self._failed += 1
            text = outcome["error"]
        else:
            self._done += 1
            if score is not None:
                definition, value = metric(run.config.score), _scored(run.config.score, score)
                text = f"{'' if is_done else f'{text} '}{definition.short or definition.title} {value}"
                if is_done:
                    self._best = max(self._best, (definition.sign * score, value, run.label))
        self.say(f"[{self._done + self._failed}/{self._total}] {run}: {text}   {self._remaining()}")
        calls = tuple(outcome.get("calls", ()))
        if calls not in self._shown_calls:  # print equal tracebacks once
            self._shown_calls.add(calls)
            for call in calls:
                self.say(f"    {call}")

    def retrying(self, runs: Sequence[Run]) -> None:
        """Count failed runs as open again, because they are retried one at a time."""
        self._failed -= len(runs)
        self._open_runs |= {run.id: run for run in runs}
        self.say(f"Out of memory, retrying one at a time: {', '.join(map(str, runs))}")

    def say(self, line: str) -> None:
        self._line_time = time.monotonic()
        if isinstance(self._live, NotebookCell):
            self._lines.append(line)
            self._live.refresh()
        else:
            self.console.print(line, markup=False, soft_wrap=True)

    def _text(self) -> str:
        """Return the last lines and the live table below them."""
        text = StringIO()
        paper = Console(file=text, width=self.console.width, force_jupyter=False, force_terminal=False)
        paper.print(Text("\n".join(self._lines)), soft_wrap=True)
        paper.print(self._picture())
        return text.getvalue()

    def _remaining(self) -> str:
        """Return the time left; empty if it is unknown.

        The estimate is updated at intervals of 20 times its computing time, which is a quarter of a second
        for 100,000 runs.
        """
        current_time = time.monotonic()
        if current_time - self._estimated >= PATIENCE * self._estimate_s:
            self._estimate = self._time_left()
            self._estimated, self._estimate_s = current_time, time.monotonic() - current_time
        return self._estimate

    def _time_left(self) -> str:
        jobs = []
        # running runs first
        for run in sorted(self._open_runs.values(), key=lambda run: run.id not in self._running):
            _, line, start_time, last = self._running.get(run.id, (run, {}, 0.0, 0.0))
            epochs = line["epoch"] + 1 if line else 0
            jobs.append(
                Job(run.variant, self._priced(run), last - start_time, epochs=epochs, share=_share(line))
            )
        times_left = remaining_seconds(self._finished_jobs, jobs + [Job()] * self._unknown)
        return f"about {duration(wall_time(times_left, self._max_running))} left" if times_left else ""

    @property
    def _total(self) -> int:
        return self._done + self._failed + len(self._open_runs) + self._unknown

    def _priced(self, run: Run) -> float | None:
        if run.variant not in self._pflop:
            self._pflop[run.variant] = run.config.program.known_pflop(run.config)
        return self._pflop[run.variant]

    def _picture(self) -> RenderableType:
        best = f"   best {self._best[1]} ({self._best[2]})" if self._best[2] else ""
        if self._phase:
            return Text(f"{self._phase} ({duration(time.monotonic() - self._phase_start)})")
        counts = f"{self._done} done, {len(self._running)} running, {self._failed} failed of {self._total}"
        table = Table(box=None, pad_edge=False)
        for name in ("run", "seed", "epoch", "loss", "score"):
            table.add_column(name, justify="left" if name == "run" else "right")
        for run, line, start_time, _ in list(self._running.values())[:MAX_ROWS]:
            table.add_row(*map(Text, _row(run, line, time.monotonic() - start_time)))
        return Group(Text(f"{counts}{best}   {self._remaining()}"), table)


def _share(line: Outcome) -> float:
    return (line["epoch"] + 1) / line["epochs"] if line and line["epochs"] else 0.0


def _scored(name: str, value: float) -> str:
    """Format a score. Percentages have more digits than in tables, because they change during a run."""
    if metric(name).unit == "%":
        return f"{value:.2f} %"
    return f"{number(name, value)} {metric(name).unit}".strip()


def _row(run: Run, line: Outcome, seconds: float = 0.0) -> list[str]:
    score, loss = line.get(run.config.objective), line.get("train_loss", line.get("loss"))
    total = f"/{line['epochs']}" if line and line["epochs"] else ""
    return [
        run.label,
        str(run.seed),
        f"{line['epoch'] + 1}{total}{', evaluating' * (_share(line) == 1)}"
        if line
        else f"starting ({duration(seconds)})",
        "" if loss is None else f"{loss:.3f}",
        "" if score is None else _scored(run.config.objective, score),
    ]


def _join_names(names: Sequence[object]) -> str:
    return "; ".join(map(str, names[:MAX_ROWS])) + "; ..." * (len(names) > MAX_ROWS)
