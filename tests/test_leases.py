import json
import threading
import time

import pytest

from recstudy.records import leases
from recstudy.records.leases import LeaseLost, leased
from recstudy.records.locks import Held
from recstudy.records.mirror import Mirror

QUICK = {"BEAT_S": 0.1, "POLL_S": 0.05}
LATE_S = 3.0  # for which a request hangs on its way


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for name, seconds in QUICK.items():
        monkeypatch.setattr(leases, name, seconds)


@pytest.fixture
def machine(uri, tmp_path):
    """A machine's copy of a folder that all of them share."""

    def of(name: str, kind: type[Mirror] = Mirror) -> Mirror:
        (tmp_path / name).mkdir(exist_ok=True)
        return kind(uri, tmp_path / name)

    return of


class Late(Mirror):
    """Its writes of claims hang on their way to the store, from number `first` on."""

    first, count = 1, 0

    def write(self, key: str, content: bytes) -> None:
        self.count += "/lease" in key
        if "/lease" in key and self.count >= self.first:
            time.sleep(LATE_S)
        super().write(key, content)


class LateBeats(Late):
    """The first renewals are in time."""

    first = 3


def standing(mirror: Mirror) -> list[str]:
    """Whose claims stand in the store."""
    found = [whole(mirror, info.path) for info in mirror.listed(mirror.base) if info.base_name.startswith("lease")]
    return sorted(json.loads(content).get("holder", "over") for content in found if content)


def whole(mirror: Mirror, key: str) -> bytes | None:
    """An object's content, None where it has gone; a file system shows a file that is being renewed empty."""
    while (content := mirror.read(key)) == b"":
        time.sleep(0.01)
    return content


def at_once(mirrors: list[Mirror], seconds: float, apart: float = 0.0, **given: object) -> list[int]:
    """How many hold it while each does, for so long; they ask for it so far apart."""
    holding, counts = [], []

    def work(mirror: Mirror) -> None:
        with leased(mirror, mirror.root, mirror.root.name, **given):
            holding.append(mirror)
            counts.append(len(holding))
            time.sleep(seconds)
            mirror.guard()
            holding.remove(mirror)

    workers = [threading.Thread(target=work, args=(mirror,)) for mirror in mirrors]
    for worker in workers:
        worker.start()
        time.sleep(apart)
    for worker in workers:
        worker.join()
    return counts


def test_one_of_two_holds_it_though_a_write_comes_late(machine):
    """Both see that it is free. The write of the one hangs for three seconds, in which the other has written, looked and begun."""
    assert at_once([machine("late", Late), machine("quick")], LATE_S + 1, apart=0.5) == [1, 1]


def test_a_renewal_that_comes_late_takes_nothing_back(machine):
    """It was on its way when the holder was taken for silent; it reaches the store while the next one holds it."""
    late, other = machine("late", LateBeats), machine("other")
    with leased(late, late.root, "late"):
        time.sleep(0.5)  # a renewal is on its way
        with leased(other, other.root, "other", patience=1):
            time.sleep(LATE_S)
            other.guard()
            assert "other" in standing(other)
            with pytest.raises(LeaseLost, match="another process has taken over"):
                late.guard()
    assert standing(other) == []


def test_who_does_not_wait_is_told_who_holds_it(machine):
    holder, other = machine("a"), machine("b")
    with (
        leased(holder, holder.root, "process 7 on moon"),
        pytest.raises(Held, match="is in use by process 7 on moon"),
        leased(other, other.root, "b", wait=False),
    ):
        pass
    with leased(other, other.root, "b", wait=False):
        assert standing(holder) == ["b"]


def test_one_holds_it_and_the_others_wait_in_turn(machine):
    told = []

    assert at_once([machine(name) for name in "abc"], 0.5, on_wait=told.append) == [1, 1, 1]  # longer than a beat
    assert set(told) <= {"a", "b", "c"}
    assert told
    assert standing(machine("a")) == []


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
            with pytest.raises(LeaseLost, match=r"another process has taken over .*no sign of life for 60 s"):
                gone.push(gone.root)
            assert standing(other) == ["b", "over"]
        with pytest.raises(LeaseLost, match="another process"):  # also when the other has finished
            gone.push(gone.root)
    assert other.read(other.key(other.root / "result.json")) is None
    assert standing(other) == []


def test_what_a_dead_process_held_here_is_taken_at_once(machine):
    dead = machine("a")
    dying = leased(dead, dead.root, "dead")
    dying.__enter__()
    again = machine("a")

    started, told = time.monotonic(), []
    with leased(again, again.root, "again", told.append):
        assert time.monotonic() - started < 30  # of the 60 s of patience
        again.guard()
    assert told == []
    dying.__exit__(None, None, None)


def test_a_damaged_lease_is_somebodys_until_patience_ends(machine):
    mirror, told = machine("a"), []
    mirror.write(f"{mirror.base}/lease-7", b"{")
    with leased(mirror, mirror.root, "me", told.append, patience=0.3):
        assert standing(mirror) == ["me", "over"]
    assert told == ["a process that left no name"]


def test_patience_with_a_dead_claim_runs_out_beside_one_that_lives(machine):
    holder, waiter = machine("a"), machine("b")

    def wait() -> None:
        with leased(waiter, waiter.root, "b", patience=1):
            pass

    with leased(holder, holder.root, "a"):
        holder.write(f"{holder.base}/lease-z", b'{"holder": "dead"}')
        waiting = threading.Thread(target=wait)
        waiting.start()
        ends = time.monotonic() + 30
        while "over" not in standing(holder) and time.monotonic() < ends:
            time.sleep(0.05)
        assert "over" in standing(holder)
        assert "a" in standing(holder)
    waiting.join()


class Early(Mirror):
    """Sees every claim once before its content, as a file system shows a file that is being written."""

    def read(self, key: str) -> bytes | None:
        looked, self.looked = getattr(self, "looked", set()), {key} | getattr(self, "looked", set())
        return super().read(key) if "/lease" not in key or key in looked else b""


@pytest.mark.parametrize("wait", [True, False])
def test_who_writes_its_claim_just_now_is_called_by_its_name(machine, wait, monkeypatch):
    monkeypatch.setattr(leases, "BEAT_S", 60.0)  # no claim of this test is without a name for as long
    holder, other, told = machine("a"), machine("b", Early), []
    released = threading.Timer(2.0, lambda: holding.__exit__(None, None, None))
    holding = leased(holder, holder.root, "process 7 on moon")
    holding.__enter__()
    released.start()
    if wait:
        with leased(other, other.root, "b", told.append):
            assert told == ["process 7 on moon"]
    else:
        with pytest.raises(Held, match="in use by process 7 on moon"), leased(other, other.root, "b", wait=False):
            pass
    released.join()
