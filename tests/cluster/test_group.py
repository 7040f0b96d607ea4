"""Runs handed to a group of workers, one after another, without Ray: what each side says, and what a loss costs."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from recstudy.cluster import group, worker
from recstudy.cluster.group import GO_ON, HERE, OVER, RESTARTS, Coordinator, serve
from recstudy.cluster.mailbox import WorkerMailbox
from recstudy.train.work import Report, Trial

ONE = Trial("s", "v", {"seed": 0}, "one", "", "", False, "", None, False)
TWO = replace(ONE, run_id="two")
DONE = {"status": "done", "score": 1.0}


def epoch(number: int) -> dict[str, int]:
    return {"epoch": number, "epochs_done": number + 1, "epochs": 2}


class Scripted:
    """A group whose lines are known beforehand."""

    made: list["Scripted"]
    scripts: list[list[Any]]

    def __init__(self, run: Trial, load: bytes) -> None:
        self.lines, self.orders, self.ended = iter(self.scripts[len(self.made)]), [], False
        self.error = ValueError(f"group {len(self.made)}")
        self.made.append(self)

    def next(self, order: Any) -> Any:
        self.orders.append(order)
        return next(self.lines)

    def end(self) -> None:
        self.ended = True


@pytest.fixture
def hand(monkeypatch) -> Callable[..., Coordinator]:
    """A coordinator with its first run, whose groups say these lines."""
    monkeypatch.setattr(group, "Group", Scripted)
    monkeypatch.setattr(Scripted, "made", [], raising=False)

    def make(*scripts: list[Any]) -> Coordinator:
        monkeypatch.setattr(Scripted, "scripts", list(scripts), raising=False)
        coordinator = object.__new__(type("s", (Coordinator,), {"load": b""}))
        coordinator.setup({"trial": ONE})
        return coordinator

    return make


def test_a_group_is_handed_one_run_after_another(hand):
    coordinator = hand([HERE, epoch(0), DONE, epoch(0), DONE])

    lines = [coordinator.step(), coordinator.step()]
    assert coordinator.reset_config({"trial": TWO})
    lines += [coordinator.step(), coordinator.step()]

    assert [line["done"] for line in lines] == [False, True, False, True]
    assert lines[1] == {**DONE, "done": True}
    (only,) = Scripted.made
    assert only.orders == [ONE, ONE, GO_ON, TWO, GO_ON]  # the first finds nobody there yet


def test_a_run_that_is_stopped_early_is_left_for_the_next(hand):
    coordinator = hand([HERE, epoch(0), epoch(0)])
    coordinator.step()

    coordinator.reset_config({"trial": TWO})
    coordinator.step()

    assert Scripted.made[0].orders == [ONE, ONE, TWO]


def test_a_lost_group_costs_its_run_a_try_and_the_next_run_none(hand):
    coordinator = hand([HERE, epoch(0), OVER], [HERE, OVER], [HERE, epoch(1), DONE, OVER], [OVER], [HERE, DONE])

    assert [coordinator.step() for _ in range(3)][-1]["status"] == "done"
    coordinator.reset_config({"trial": TWO})

    assert coordinator.step()["status"] == "done"
    assert [made.orders for made in Scripted.made[1:3]] == [[ONE, ONE], [ONE, ONE, GO_ON, TWO]]


def test_a_run_that_no_group_survives_fails_with_what_the_last_one_said(hand):
    coordinator = hand(*[[HERE, OVER]] * (RESTARTS + 1))

    with pytest.raises(ValueError, match=f"group {RESTARTS}"):
        coordinator.step()


def test_workers_that_ray_has_replaced_go_on_with_the_run(hand):
    """As where an elastic group grows: the same group, new processes."""
    coordinator = hand([HERE, epoch(0), HERE, epoch(1), DONE])

    assert [coordinator.step()["done"] for _ in range(3)] == [False, False, True]
    assert Scripted.made[0].orders == [ONE, ONE, GO_ON, ONE, GO_ON]


@pytest.mark.parametrize("outcome", [{"status": "failed", "class": "out of memory"}, {"status": "drained"}])
def test_a_group_that_is_harmed_is_replaced(hand, outcome):
    coordinator = hand([HERE, outcome], [HERE, DONE])

    coordinator.step()
    coordinator.reset_config({"trial": TWO})

    assert Scripted.made[0].ended
    assert coordinator.step()["status"] == "done"
    assert not Scripted.made[1].ended


@pytest.mark.parametrize("outcome", [{"status": "failed", "class": "code"}, {"status": "diverged"}])
def test_a_group_stays_after_a_run_that_failed_by_itself(hand, outcome):
    coordinator = hand([HERE, outcome, DONE])

    coordinator.step()
    coordinator.reset_config({"trial": TWO})

    assert coordinator.step()["status"] == "done"
    assert len(Scripted.made) == 1


def test_the_answer_to_a_worker_that_died_is_not_taken_for_the_next_one_s():
    async def play() -> tuple[Any, Any]:
        desk = WorkerMailbox()
        dead = asyncio.create_task(desk.tell(epoch(0)))
        await desk.next(ONE)
        dead.cancel()
        alive = asyncio.create_task(desk.tell(HERE))
        line = await desk.next(GO_ON)  # meant for the dead one
        waiting = asyncio.create_task(desk.next(ONE))
        order = await alive
        waiting.cancel()
        return line, order

    assert asyncio.run(play()) == (HERE, ONE)


def test_a_worker_does_what_the_desk_says(monkeypatch):
    """Leaves a run where it is told to do another one; ends where there is none."""
    orders, told, left = iter([ONE, GO_ON, TWO, GO_ON, None]), [], []
    monkeypatch.setattr(group.ray, "get", lambda answer: answer)
    monkeypatch.setattr(group.cloudpickle, "loads", lambda load: (work, {}))
    monkeypatch.setattr(worker, "Leave", lambda run_id: lambda: False)
    monkeypatch.setattr(worker, "titled", lambda title, report: report)
    monkeypatch.setattr(worker, "REPORT_S", 0)

    def work(trial: Trial, report: Report, leave: Callable[[], bool]) -> dict[str, Any]:
        try:
            for number in range(2 if trial.run_id == "one" else 1):
                report(epoch(number))
        except BaseException:
            left.append(trial.run_id)
            raise
        return DONE

    desk = SimpleNamespace(tell=SimpleNamespace(remote=lambda line: told.append(line) or next(orders)))
    serve({"mailbox": desk, "load": b""})

    assert told == [HERE, epoch(0), epoch(1), epoch(0), DONE]
    assert left == ["one"]
