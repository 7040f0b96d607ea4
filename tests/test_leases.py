import json
import subprocess
import sys
import threading
import time

import pytest
from objects import proxied

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


@pytest.fixture(params=["s3", "folder", "fsspec"])
def uri(request, object_store, tmp_path) -> str:
    """Amazon's protocol, a folder as pyarrow serves it, and one as fsspec does."""
    if request.param == "fsspec":
        return f"dir::file://{tmp_path}/store"
    return object_store.uri(tmp_path.name) if request.param == "s3" else f"local://{tmp_path}/store"


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


def late(request: str) -> None:
    """What writes a claim is held back on its way; all else, also what comes later, passes it."""
    if request.startswith("PUT ") and "/lease" in request:
        time.sleep(LATE_S)


def standing(mirror: Mirror) -> list[str]:
    """Whose claims stand in the store."""
    found = [whole(mirror, info.path) for info in mirror.listed(mirror.base) if info.base_name.startswith("lease")]
    return sorted(json.loads(content).get("holder", "over") for content in found if content)


def whole(mirror: Mirror, key: str) -> bytes | None:
    """An object's content, None where it has gone; a file system shows a file that is being renewed empty."""
    while (content := mirror.read(key)) == b"":
        time.sleep(0.01)
    return content


HOLD = """
import pathlib, sys, time
from recstudy.records import leases
from recstudy.records.mirror import Mirror
leases.BEAT_S, leases.POLL_S = 0.1, 0.05
mirror = Mirror(sys.argv[1], pathlib.Path(sys.argv[2]))
print("asks", flush=True)
sys.stdin.readline()
with leases.leased(mirror, mirror.root, sys.argv[3]):
    log = open(sys.argv[4], "a")
    log.write(f"{time.time()} began\\n"), log.flush()
    end = time.monotonic() + 5
    while time.monotonic() < end:
        mirror.guard()
        time.sleep(0.1)
    log.write(f"{time.time()} ended\\n"), log.flush()
"""


def test_one_of_two_processes_holds_it_though_a_write_comes_late(object_store, tmp_path):
    """Both see that it is free. The one's write hangs for three seconds, in which the other has written, looked and begun."""
    log = tmp_path / "log"
    with proxied(object_store, late) as slow:
        processes = []
        for name, store in (("late", slow), ("quick", object_store)):
            (tmp_path / name).mkdir()
            command = [sys.executable, "-c", HOLD, store.uri(tmp_path.name), str(tmp_path / name), name, str(log)]
            processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        for process in processes:
            assert process.stdout.readline() == "asks\n"
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
            time.sleep(0.5)  # the first one's claim is on its way
        for process in processes:
            process.communicate(timeout=60)

    assert [process.returncode for process in processes] == [0, 0]
    assert [line.split()[1] for line in sorted(log.read_text().splitlines())] == ["began", "ended", "began", "ended"]


def test_one_of_two_holds_it_though_a_write_comes_late(machine):
    """The same, on every kind of store."""
    at_once, most = [], []

    def work(mirror: Mirror) -> None:
        with leased(mirror, mirror.root, mirror.root.name):
            at_once.append(mirror)
            most.append(len(at_once))
            time.sleep(LATE_S + 1)
            mirror.guard()
            at_once.remove(mirror)

    late, quick = (threading.Thread(target=work, args=(mirror,)) for mirror in (machine("late", Late), machine("quick")))
    late.start()
    time.sleep(0.5)
    quick.start()
    for thread in (late, quick):
        thread.join()

    assert most == [1, 1]


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
