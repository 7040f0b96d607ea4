import json
import threading
import time

import pytest

from recstudy import leases
from recstudy.leases import LeaseLost, leased
from recstudy.mirror import Mirror

QUICK = {"BEAT_S": 0.1, "POLL_S": 0.05}  # as long as ever between writing and reading: a busy store takes most of it


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for name, seconds in QUICK.items():
        monkeypatch.setattr(leases, name, seconds)


@pytest.fixture
def machine(object_store, tmp_path):
    """A machine's copy of a folder that all of them share."""

    def of(name: str) -> Mirror:
        (tmp_path / name).mkdir(exist_ok=True)
        return Mirror(object_store.uri(tmp_path.name), tmp_path / name)

    return of


def standing(mirror: Mirror) -> dict | None:
    content = mirror.read(f"{mirror.base}/lease")
    return None if content is None else json.loads(content)


def test_one_holds_it_and_the_others_wait_in_turn(machine):
    at_once, most, told = [], [], []

    def work(name: str) -> None:
        mirror = machine(name)
        with leased(mirror, mirror.root, name, told.append):
            at_once.append(name)
            most.append(len(at_once))
            time.sleep(0.5)  # longer than a beat
            at_once.remove(name)

    workers = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert most == [1, 1, 1]
    assert set(told) <= {"a", "b", "c"}
    assert told
    assert standing(machine("a")) is None


def test_a_holder_that_lives_is_waited_for_longer_than_patience(machine):
    holder, waiter = machine("a"), machine("b")
    held, ended = threading.Event(), threading.Event()

    def hold() -> None:
        with leased(holder, holder.root, "a"):
            held.set()
            ended.wait(8)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)
    started = time.monotonic()
    with leased(waiter, waiter.root, "b", patience=3):
        assert time.monotonic() - started > 5
    thread.join()


def test_who_is_silent_loses_it_and_sends_nothing_more(machine, monkeypatch):
    gone, other = machine("a"), machine("b")
    monkeypatch.setattr(leases, "BEAT_S", 100)  # stopped, or cut off
    with leased(gone, gone.root, "a"):
        (gone.root / "result.json").write_text("{}")
        started = time.monotonic()
        with leased(other, other.root, "b", patience=0.5):
            assert time.monotonic() - started > 0.5
            with pytest.raises(LeaseLost, match=r"another process has taken over results/.*no sign of life for 60 s"):
                gone.push(gone.root)
            assert standing(other)["holder"] == "b"
        with pytest.raises(LeaseLost, match="another process"):  # also when the other has finished
            gone.push(gone.root)
    assert other.read(other.key(other.root / "result.json")) is None
    assert standing(other) is None


def test_what_a_dead_process_held_here_is_taken_at_once(machine):
    dead = machine("a")
    dying = leased(dead, dead.root, "dead")
    dying.__enter__()
    again = machine("a")

    started, told = time.monotonic(), []
    with leased(again, again.root, "again", told.append):
        assert time.monotonic() - started < 30  # of the 60 s of patience
        assert standing(again)["holder"] in ("again", "dead")  # one folder, one token
    assert told == []
    dying.__exit__(None, None, None)


def test_a_damaged_lease_is_somebodys_until_patience_ends(machine):
    mirror, told = machine("a"), []
    mirror.write(f"{mirror.base}/lease", b"{")
    with leased(mirror, mirror.root, "me", told.append, patience=0.3):
        assert standing(mirror)["holder"] == "me"
    assert told == ["a process that left no name"]
