import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from recstudy.base.errors import StorageError
from recstudy.base.files import discard
from recstudy.records.locks import is_locked, locked

HOLD = """
import pathlib, sys, time
from recstudy.records import locks
with locks.locked(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def name(process: int) -> str:
    return f"process {process} on {socket.gethostname()}"


def holding(lock: Path, seconds: float = 60) -> subprocess.Popen[str]:
    """Another process that has the lock by now."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_lock_says_who_holds_it_and_is_freed_by_a_kill(tmp_path):
    lock = tmp_path / "study/lock"
    assert not is_locked(lock)
    with holding(lock) as holder:
        with pytest.raises(StorageError, match=f"in use by {name(holder.pid)}"), locked(lock):
            pass
        assert is_locked(lock)
        holder.kill()
        holder.wait()

        with locked(lock):
            assert json.loads(lock.read_text()) == {"holder": name(os.getpid())}
    assert not is_locked(lock)


def test_a_lock_is_waited_for_and_its_holder_named_once(tmp_path):
    holders = []
    with holding(tmp_path / "lock") as holder:

        def hear(holder_name: str) -> None:
            holders.append(holder_name)
            holder.kill()

        with locked(tmp_path / "lock", wait=True, on_wait=hear):
            assert holders == [name(holder.pid)]


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def none(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)

    with (
        pytest.raises(StorageError, match=r"its file system does not support locks. Mount it with locks"),
        locked(tmp_path / "lock"),
    ):
        pass


def test_a_lock_on_a_file_that_was_removed_is_nobodys(tmp_path):
    """The holder removes the folder, as cleaning does; who waited makes it anew, and whoever comes next waits
    for it.
    """
    lock, has, end_event = tmp_path / "run/lock", threading.Event(), threading.Event()

    def second() -> None:
        with locked(lock, wait=True):
            (lock.parent / "mine").touch()
            has.set()
            end_event.wait()

    waiting = threading.Thread(target=second)
    with locked(lock):
        waiting.start()
        time.sleep(1)  # it has the file open by now, and waits
        discard(lock.parent)
    has.wait()
    assert is_locked(lock)
    with pytest.raises(StorageError, match=f"in use by {name(os.getpid())}"), locked(lock):
        pass
    assert sorted(os.listdir(lock.parent)) == ["lock", "mine"]
    end_event.set()
    waiting.join()
    assert os.listdir(tmp_path) == ["run"]


def test_many_threads_never_hold_one_lock_at_once(tmp_path):
    """Eight threads, each with its own file: a folder is never removed under one that holds its lock."""
    folder, missed = tmp_path / "run", []

    def work(thread: str) -> None:
        for _ in range(20):
            with locked(folder / "lock", wait=True):
                (folder / "name").write_text(thread)
                time.sleep(0.001)
                if (folder / "name").read_text() != thread:
                    missed.append(thread)
                discard(folder)

    threads = [threading.Thread(target=work, args=(str(index),)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert missed == []
    assert not folder.exists()


def test_checking_a_lock_disturbs_no_other_process(tmp_path):
    (tmp_path / "lock").touch()
    with open(tmp_path / "lock") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert not is_locked(tmp_path / "lock")
