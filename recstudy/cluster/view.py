"""What a person sees while a study runs: live in a terminal and in a notebook, plain lines elsewhere."""

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

from recstudy.errors import EXIT_CODES
from recstudy.report.names import metric, number, plural
from recstudy.report.remaining import Job, remaining_seconds, wall_time
from recstudy.study.plan import Plan, Run
from recstudy.study.record import command
from recstudy.terminal import duration

SHOWN = 12  # running runs in the live table, and lines before it in a notebook
OFTEN = 0.25  # seconds between two of a notebook's pictures
PATIENCE = 20  # an estimate of the time left is as many times its own duration old before the next one
QUIET = 30.0  # seconds without a line, after which a pipe or a log file gets one of the next epoch

Outcome = dict[str, Any]  # what a run reports: an epoch or its end


class NotebookCell:
    """A text in a notebook's output, written anew in its place; rich's own way would want ipywidgets.

    Args:
        draw: gives the text as it is now.
    """

    def __init__(self, draw: Callable[[], str]) -> None:
        from IPython.display import display  # it is there where a notebook is

        self._draw, self._drawn = draw, time.monotonic()
        self._handle = display({"text/plain": draw()}, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def refresh(self) -> None:
        if time.monotonic() - self._drawn >= OFTEN:
            self.stop()

    def stop(self) -> None:
        """Show the text as it is, however little time has passed."""
        self._drawn = time.monotonic()
        self._handle.update({"text/plain": self._draw()}, raw=True)


class Listener:
    """Receives what happens to runs."""

    def started(self, run: Run) -> None:
        """Hear that a process of the run has begun, for the first time or again."""

    def epoch(self, run: Run, line: Outcome) -> None:
        """Hear of an epoch."""

    def left(self, run: Run) -> None:
        """Hear that its process has left the run without an outcome; it is begun again later."""

    def ended(self, run: Run, outcome: Outcome) -> None:
        """Hear of its end, `{"status": "done" | "diverged" | "failed" | "stopped", ...}`."""

    def close(self) -> None:
        """Hear that nothing runs any more."""


@dataclass
class View(Listener):
    """Counts, the best so far, the runs under way and the time left."""

    console: Console

    def __post_init__(self) -> None:
        self._live: Live | NotebookCell | None = None
        self._lines = deque[str](maxlen=SHOWN)  # of a notebook
        self._missing: dict[str, Run] = {}  # known runs that have not ended
        self._unknown = self._done = self._failed = 0  # unknown: further runs of a search
        self._shown_calls: set[tuple[str, ...]] = set()  # lines of the user's files that led to an error
        self._best = float("-inf"), "", ""  # by which more is better, in words, and the run's label
        # Run, newest epoch, the time at which it began, the time of that epoch.
        self._running: dict[str, tuple[Run, Outcome, float, float]] = {}
        self._ended: list[Job] = []
        self._pflop: dict[int, float | None] = {}  # by variant
        self._at_once = 1  # the most runs that were under way
        self._line_time = 0.0  # when the last line was printed
        # The estimate of the time left, when it was made, and how long that took.
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
        """Count these runs, of which those of a search were unknown before."""
        self._unknown = max(0, self._unknown - sum(run.id not in self._missing for run in runs))
        self._missing |= {run.id: run for run in runs}
        return f"{len(runs)} to run"

    def planned(self, runs: Sequence[Run], missing: Sequence[Run]) -> None:
        self.say(
            f"{plural(len(runs), 'run')}: {len(runs) - len(missing)} finished before, {self._expect(missing)}"
        )

    def searching(self, plan: Plan, made: int, missing: Sequence[Run]) -> None:
        """Hear that a search begins, of which `made` runs are known and the `missing` ones have not ended."""
        again = f", {len(missing)} of them to run" if missing else ""
        self.say(f"Budget: {plan.split}; {made} runs made before{again}")
        self._expect(missing)
        self._unknown = max(0, int(plan.budget.amount) - made) if plan.budget.unit == "runs" else 0

    def proposed(self, run: Run, is_finished: bool) -> None:
        """Hear of a sampler's proposal; one whose result is known costs nothing."""
        self._expect([run])
        if is_finished:
            del self._missing[run.id]
            self.say(f"{run.label}: known from another study, not run again")

    def extended(self, runs: Sequence[Run], missing: Sequence[Run]) -> None:
        """Name a further block of a study that runs until its questions are decided."""
        self.say(
            f"Not decided yet: {plural(len(runs), 'further run')}, {self._expect(missing)}: {_named(runs)}"
        )

    def confirming(self, runs: Sequence[Run], missing: Sequence[Run]) -> None:
        labels = len({run.label for run in runs})
        self.say(f"The best {labels} again with fresh seeds: {len(runs)} runs, {self._expect(missing)}")

    def waits(self, holder: str, on: str = "this study") -> None:
        self.say(f"Waiting for {holder}, which works on {on}. Ctrl-C stops waiting.")

    def lost(self, reason: str) -> None:
        """End this process, because the cluster is lost: each call to Ray would wait, so nothing can be
        cleaned up.
        """
        self.__exit__()
        resume = f"What was finished is kept, and this goes on from there: {command(left_out=())}"
        print(f"ClusterError: {reason}. {resume}", file=sys.stderr, flush=True)
        os._exit(EXIT_CODES["lost node"])

    def started(self, run: Run) -> None:
        now = time.monotonic()
        self._running[run.id] = run, {}, now, now
        self._at_once = max(self._at_once, len(self._running))

    def epoch(self, run: Run, line: Outcome) -> None:
        now = time.monotonic()
        *_, begun, _ = self._running.get(run.id, (run, line, now, now))
        self._running[run.id] = run, line, begun, now
        if isinstance(self._live, NotebookCell):
            self._live.refresh()
        elif self._live is None and now - self._line_time >= QUIET:
            epochs, loss, score = _row(run, line)[2:]
            self.say(
                f"{run}: epoch {epochs}, loss {loss}{f', {score}' * bool(score)}   {self._remaining()}".rstrip()
            )

    def left(self, run: Run) -> None:
        self._running.pop(run.id, None)

    def ended_elsewhere(self, run: Run) -> None:
        """Hear that another process has tried a run of this one."""
        self._missing.pop(run.id, None)

    def left_to_others(self, runs: Sequence[tuple[Run, str]]) -> None:
        """Hear which runs other processes work on, and which processes those are, when nothing else is left
        to do.
        """
        named = _named([f"{run} ({holder})" for run, holder in runs])
        self.say(f"Left to other processes: {plural(len(runs), 'run')}: {named}")

    def ended(self, run: Run, outcome: Outcome) -> None:
        words, score, now = outcome["status"], outcome.get("score"), time.monotonic()
        *_, begun, last = self._running.pop(run.id, (run, {}, now, now))
        self._missing.pop(run.id, None)
        is_done = words == "done"
        if is_done:
            self._ended.append(Job(run.variant, self._priced(run), last - begun, now - last))
        if words == "failed":
            self._failed += 1
            words = outcome["error"]
        else:
            self._done += 1
            if score is not None:
                definition, value = metric(run.config.score), _scored(run.config.score, score)
                words = f"{'' if is_done else f'{words} '}{definition.short or definition.title} {value}"
                if is_done:
                    self._best = max(self._best, (definition.sign * score, value, run.label))
        self.say(f"[{self._done + self._failed}/{self._total}] {run}: {words}   {self._remaining()}")
        calls = tuple(outcome.get("calls", ()))
        if calls not in self._shown_calls:  # runs that fail alike show them once
            self._shown_calls.add(calls)
            for call in calls:
                self.say(f"    {call}")

    def again(self, runs: Sequence[Run]) -> None:
        """Failed runs that are no failures yet."""
        self._failed -= len(runs)
        self._missing |= {run.id: run for run in runs}
        self.say(f"Once more, one at a time, for want of memory: {', '.join(map(str, runs))}")

    def say(self, line: str) -> None:
        self._line_time = time.monotonic()
        if isinstance(self._live, NotebookCell):
            self._lines.append(line)
            self._live.refresh()
        else:
            self.console.print(line, markup=False, soft_wrap=True)

    def _text(self) -> str:
        """Return the last lines and the picture below them."""
        text = StringIO()
        paper = Console(file=text, width=self.console.width, force_jupyter=False, force_terminal=False)
        paper.print(Text("\n".join(self._lines)), soft_wrap=True)
        paper.print(self._picture())
        return text.getvalue()

    def _remaining(self) -> str:
        """Return the time left; nothing before it can be known.

        It is estimated anew if that takes at most a twentieth of the time: with 100,000 runs it takes a
        quarter of a second.
        """
        now = time.monotonic()
        if now - self._estimated >= PATIENCE * self._estimate_s:
            self._estimate = self._time_left()
            self._estimated, self._estimate_s = now, time.monotonic() - now
        return self._estimate

    def _time_left(self) -> str:
        jobs = []
        # runs under way first
        for run in sorted(self._missing.values(), key=lambda run: run.id not in self._running):
            _, line, begun, last = self._running.get(run.id, (run, {}, 0.0, 0.0))
            epochs = line["epoch"] + 1 if line else 0
            jobs.append(Job(run.variant, self._priced(run), last - begun, epochs=epochs, share=_share(line)))
        lefts = remaining_seconds(self._ended, jobs + [Job()] * self._unknown)
        return f"about {duration(wall_time(lefts, self._at_once))} left" if lefts else ""

    @property
    def _total(self) -> int:
        return self._done + self._failed + len(self._missing) + self._unknown

    def _priced(self, run: Run) -> float | None:
        if run.variant not in self._pflop:
            self._pflop[run.variant] = run.config.program.pflop(run.config, only_counted=True)
        return self._pflop[run.variant]

    def _picture(self) -> RenderableType:
        best = f"   best {self._best[1]} ({self._best[2]})" if self._best[2] else ""
        counts = f"{self._done} done, {len(self._running)} running, {self._failed} failed of {self._total}"
        table = Table(box=None, pad_edge=False)
        for name in ("run", "seed", "epoch", "loss", "score"):
            table.add_column(name, justify="left" if name == "run" else "right")
        for run, line, *_ in list(self._running.values())[:SHOWN]:
            table.add_row(*map(Text, _row(run, line)))
        return Group(Text(f"{counts}{best}   {self._remaining()}"), table)


def _share(line: Outcome) -> float:
    return (line["epoch"] + 1) / line["epochs"] if line and line["epochs"] else 0.0


def _scored(name: str, value: float) -> str:
    """Percentages in more digits than tables have: they are watched as they change."""
    return (
        f"{value:.2f} %" if metric(name).unit == "%" else f"{number(name, value)} {metric(name).unit}".strip()
    )


def _row(run: Run, line: Outcome) -> list[str]:
    score, loss = line.get(run.config.objective), line.get("train_loss", line.get("loss"))
    of = f"/{line['epochs']}" if line and line["epochs"] else ""
    return [
        run.label,
        str(run.seed),
        f"{line['epoch'] + 1}{of}{', evaluating' * (_share(line) == 1)}" if line else "starting",
        "" if loss is None else f"{loss:.3f}",
        "" if score is None else _scored(run.config.objective, score),
    ]


def _named(names: Sequence[object]) -> str:
    return "; ".join(map(str, names[:SHOWN])) + "; ..." * (len(names) > SHOWN)
