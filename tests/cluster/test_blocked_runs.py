"""Runs that another process works on, without Ray: Tune's part is played by its calls."""

import io
import time
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
import tiny
from rich.console import Console

from recstudy.base.errors import ConfigError
from recstudy.base.terminal import Draining
from recstudy.cluster.sources import Runner, RunOptions, Source
from recstudy.cluster.sweep import Supply, Sweep, TuneCallback
from recstudy.cluster.view import View
from recstudy.programs.attempt import Trial
from recstudy.programs.settings import Resources
from recstudy.records import Results, Run
from recstudy.records.locks import locked
from recstudy.study.plan import make_plan

FIRST, SECOND, *_ = make_plan(tiny.study, seeds=1).runs
DONE = {"status": "done", "score": 90.0}
LOCKED_OUTCOME = {"status": "held", "by": "process 7 on moon"}


class Requests(Draining):
    """Requests to leave, without Ray."""

    tell = request = lambda self, *_: False


class Played(Runner):
    """A sweep of two runs, and what it says."""

    def __init__(self, results: Results) -> None:
        self.output = io.StringIO()
        view = View(Console(file=self.output, width=200))
        super().__init__("tiny", results, RunOptions(), view, draining=Requests())
        self.begin(Resources(), Source(deque([FIRST, SECOND])))
        self.callback = TuneCallback(self)
        self.rooms = 2
        self.supply = Supply(self, lambda run: trial(run, results), lambda: self.rooms)

    def run(self, *_: object) -> None:
        """Tune is played by hand."""

    def tune(self, run: Run, *results: dict[str, Any]) -> None:
        """Tune begins a trial of the run, and hears this of it."""
        played: Any = SimpleNamespace(config={"trial": trial(run, self.results)}, last_result=results[-1])
        self.callback.on_trial_start(played)
        for result in results:
            self.callback.on_trial_result(played, result)
        self.callback.on_trial_complete(played)

    def next(self) -> str:
        """The id of the run that Tune is given; empty where it is none for the time being, and `FINISHED`
        where it is the end.
        """
        suggestion = self.supply.suggest("any")
        return suggestion["trial"].run_id if isinstance(suggestion, dict) else suggestion or ""

    def next_in_time(self) -> str:
        deadline = time.monotonic() + 60
        while not (run_id := self.next()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return run_id

    def take_all(self, outcome: dict[str, Any]) -> list[Run]:
        runs = []
        while run := self.take():
            runs.append(run)
            self.start(run)
            self.on_report(run, outcome)
        return runs


def trial(run: Run, results: Results) -> Trial:
    return Trial({}, run.id, str(results.run(run.id).path), "")


@pytest.fixture
def played(tmp_path) -> Played:
    return Played(Results(tmp_path / "results").create())


def test_locked_run_is_postponed_and_awaited_last(played):
    assert played.next() == FIRST.id
    with locked(played.results.run(FIRST.id).lock):
        played.tune(FIRST, LOCKED_OUTCOME)
        assert played.next() == SECOND.id
        assert played.next() == ""
        assert "Waiting" not in played.output.getvalue()
        played.tune(SECOND, DONE)
        assert [played.next(), played.next()] == ["", ""]
    assert played.next_in_time() == FIRST.id
    played.tune(FIRST, DONE)

    assert played.next() == played.supply.FINISHED
    lines = played.output.getvalue().splitlines()
    assert [line for line in lines if "process 7" in line] == [
        f"{FIRST.label}, seed 0: locked by process 7 on moon; other runs start first",
        f"Waiting for process 7 on moon, which runs {FIRST.label}, seed 0. Ctrl-C stops waiting.",
    ]


def test_as_many_runs_are_running_as_the_cluster_has_room_for(played):
    played.rooms = 1
    assert [played.next(), played.next()] == [FIRST.id, ""]
    played.rooms = 2  # a node has come

    assert played.next() == SECOND.id


def test_a_process_that_dies_behind_its_outcome_changes_nothing(played):
    """Tune begins another one for it, which finds the run finished, or as little of it as the one before."""
    played.next()
    played.tune(FIRST, DONE)

    played.tune(FIRST, {"status": "done", "score": None})

    assert played.output.getvalue().count(FIRST.label) == 1


def test_runs_without_memory_are_tried_once_more_alone_by_their_source(played):
    failed = {"status": "failed", "class": "out of memory", "error": "out of memory"}
    runs, fits, source = make_plan(tiny.study, seeds=1).runs[:4], [], Source(deque())
    source.waiting.extend(runs)  # the fourth waits, because the first three may all be hopeless
    played._fit = lambda single=False: fits.append((single, played.source, played.take_all(failed)))

    Sweep.run(played, Resources(), source)

    assert [(single, used) for single, used, _ in fits] == [(False, source), (True, source)]
    assert [taken for *_, taken in fits] == [runs[:3], runs]
    assert played.is_hopeless


def test_an_error_of_a_pruner_ends_the_sweep_after_the_step(played):
    def stops(*_):
        raise ConfigError("The pruner raised an error")

    played.source.pruner = SimpleNamespace(stops=stops)
    assert not played.callback("", {"config": {"trial": trial(FIRST, played.results)}})
    with pytest.raises(ConfigError, match="The pruner raised an error"):
        played.callback.on_step_end()


def test_a_sweep_that_is_asked_to_end_begins_nothing_more_and_waits_for_nobody(played, monkeypatch):
    monkeypatch.setattr(played.draining, "tell", lambda: True)
    assert [played.next(), played.next()] == [FIRST.id, SECOND.id]
    with locked(played.results.run(SECOND.id).lock):
        played.tune(SECOND, LOCKED_OUTCOME)
        played.draining.is_requested = True
        played.callback.on_step_begin()
        assert played.next() == ""
        played.tune(FIRST, {"status": "drained"})

        assert played.next() == played.supply.FINISHED
    assert list(played.source.waiting) == [FIRST]
    assert (
        "The run saves a checkpoint and ends after its epoch. Ctrl-C ends at once.\n"
        in played.output.getvalue()
    )
