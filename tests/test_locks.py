import errno
import fcntl
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from recstudy import locks
from recstudy.errors import StorageError
from recstudy.locks import held, locked

HOLD = """
import fcntl, pathlib, sys, time
from recstudy import locks
locks.BEAT = 0.1
with locks.locked(pathlib.Path(sys.argv[1]), "process 7 on moon"):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def holding(lock: Path, seconds: float = 60) -> subprocess.Popen[str]:
    """Another process that has the lock by now."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(lock), str(seconds)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_lock_says_who_holds_it_and_is_freed_by_a_kill(tmp_path):
    lock = tmp_path / "study/lock"
    assert not held(lock)
    with holding(lock) as holder:
        with pytest.raises(StorageError, match="in use by process 7 on moon"), locked(lock, "me"):
            pass
        assert held(lock)
        holder.kill()
        holder.wait()

        with locked(lock, "me"):
            assert json.loads(lock.read_text()) == {"holder": "me", "beat": 0}
    assert not held(lock)


def test_a_lock_is_waited_for_and_its_holder_named_once(tmp_path):
    told = []
    with holding(tmp_path / "lock") as holder:

        def hear(name: str) -> None:
            told.append(name)
            holder.kill()

        with locked(tmp_path / "lock", "me", wait=True, on_wait=hear):
            assert told == ["process 7 on moon"]


def test_a_holder_that_beats_is_waited_for_longer_than_patience(tmp_path):
    """Each beat is written through to the disk, which takes a busy one a second."""
    started = time.monotonic()
    with holding(tmp_path / "lock", 6), locked(tmp_path / "lock", "me", wait=True, patience=3):
        assert time.monotonic() - started > 5


def test_a_silent_holder_is_given_up_and_named(tmp_path):
    """Stopped as a hanging node is: the process keeps its lock and shows no sign."""
    with holding(tmp_path / "lock") as holder:
        holder.send_signal(signal.SIGSTOP)
        with (
            pytest.raises(StorageError, match=r"is held by process 7 on moon, which has shown no sign of life for 1 s.*remove "),
            locked(tmp_path / "lock", "me", wait=True, patience=1),
        ):
            pass
        holder.kill()


def test_a_lock_file_of_version_0_1_names_its_holder(tmp_path):
    """It held the name alone, and no beat."""
    (tmp_path / "lock").write_text("process 9 on mars")
    with open(tmp_path / "lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(StorageError, match="in use by process 9 on mars"), locked(tmp_path / "lock", "me"):
            pass

    with locked(tmp_path / "lock", "me"):
        assert json.loads((tmp_path / "lock").read_text())["holder"] == "me"


def test_the_beat_goes_on_while_the_lock_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "BEAT", 0.05)
    deadline = time.monotonic() + 60
    with locked(tmp_path / "lock", "me"):
        while json.loads((tmp_path / "lock").read_text())["beat"] < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    threads = [thread.name for thread in threading.enumerate() if "beat" in thread.name]
    assert threads == []


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def none(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks.fcntl, "flock", none)

    with pytest.raises(StorageError, match=r"its file system has no locks. Mount it with locks"), locked(tmp_path / "lock", "me"):
        pass
