"""What the cluster's Prometheus endpoints tell of a study while it runs; `dashboards/grafana/recstudy.json` draws it.

All of it comes from the driver, which hears of every epoch anyway: trials do nothing for it. Where Ray has no dashboard or
its metrics are off, it goes nowhere. Prometheus shows each name with `ray_` before it.

The series are few: one a metric and variant, which the variant's seeds share; beyond `MOST` variants, as in a long search,
the others share one a family. Ray adds labels of the driver and its session.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ray.util.metrics import Counter, Gauge

from recstudy.records import score_name
from recstudy.study.study import Run

TAGS = ("study", "family", "variant")
MOST = 100  # variants with series of their own
OTHERS = "(others)"
EVERY_S = 2.0  # Ray passes values on every 10 s

GAUGES = {
    "recstudy_runs_running": "Runs under way",
    "recstudy_images_per_second": "Training images a second, of all runs under way",
    "recstudy_loss": "Training loss of the newest epoch",
    "recstudy_score": "Score of the newest epoch on the selection split, in percent",
    "recstudy_supervision_steps_used": "Mean supervision steps until halting, in the newest epoch",
}
ENDED = "recstudy_runs_ended"  # Prometheus adds `_total`

Line = Mapping[str, Any]
Series = tuple[str, ...]  # values of `TAGS`


class Metrics:
    """Gauges and a counter of one study, told of runs as the view is.

    Args:
        study: its name.
    """

    def __init__(self, study: str) -> None:
        self._study = study
        self._gauges = {name: Gauge(name, text, TAGS) for name, text in GAUGES.items()}
        self._ended = Counter(ENDED, "Runs that have ended: done, diverged, failed or stopped", (*TAGS, "status"))
        self._own: set[Series] = set()  # the first `MOST`
        self._running: dict[str, tuple[Series, Line]] = {}  # by run, with its newest epoch
        self._shown, self._at_work = float("-inf"), set[Series]()

    def started(self, run: Run) -> None:
        self._running[run.id] = self.series(run), {}

    def epoch(self, run: Run, line: Line) -> None:
        self._running[run.id] = self.series(run), line

    def left(self, run: Run) -> None:
        self._running.pop(run.id, None)

    def ended(self, run: Run, outcome: Line) -> None:
        self._running.pop(run.id, None)
        self._ended.inc(1, {**_tags(self.series(run)), "status": outcome["status"]})

    def show(self) -> None:
        """Set the gauges, also where nothing is new: Ray forgets one that is not set for a while, and an epoch may be long."""
        if time.monotonic() - self._shown >= EVERY_S:
            self._shown = time.monotonic()
            self._show()

    def close(self) -> None:
        """Nothing runs any more, whatever was told of it."""
        self._running.clear()
        self._show()

    def _show(self) -> None:
        lines: dict[Series, list[Line]] = {series: [] for series in self._at_work}  # none: its last run has ended
        for series, line in self._running.values():
            lines.setdefault(series, []).append(line)
        for series, of in lines.items():
            self._show_series(_tags(series), len(of), [line for line in of if line])
        self._at_work = {series for series, of in lines.items() if of}

    def _show_series(self, tags: dict[str, str], runs: int, epochs: Sequence[Line]) -> None:
        shown = {
            "recstudy_runs_running": runs,
            "recstudy_images_per_second": sum(line.get("images_per_second", 0.0) for line in epochs),
        }
        if epochs:
            shown["recstudy_loss"] = epochs[-1].get("train_loss")  # of the run that began last
            shown["recstudy_score"] = epochs[-1].get(score_name(epochs[-1]))
            shown["recstudy_supervision_steps_used"] = epochs[-1].get("supervision_steps_used")
        for name, value in shown.items():
            self._gauges[name].set(value, tags)

    def series(self, run: Run) -> Series:
        """What the run's numbers are shown under, in ASCII: Ray raises at anything else (2.60)."""
        series = tuple(map(_ascii, (self._study, run.config.model.family, run.label)))
        if len(self._own) < MOST:
            self._own.add(series)
        return series if series in self._own else (*series[:2], OTHERS)


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


def _tags(series: Series) -> dict[str, str]:
    return dict(zip(TAGS, series, strict=True))
