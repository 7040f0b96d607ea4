"""The watchdog ends its process, so it is tried in processes of their own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from test_loop import training

from recstudy.train import hang_monitor, watchdog
from recstudy.train.hang_monitor import Watched
from recstudy.train.watchdog import alive, watched

HANGS = {
    "sleep": "time.sleep(60)",
    "in C, with the interpreter's lock held": "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
}


def begun(log: Path, body: str, silence: float = 0.5, after: str = "") -> subprocess.Popen[str]:
    """`body` within the block, `after` behind it; the process leads a group of its own, as a study's driver does."""
    code = (
        "import pathlib, time\nfrom recstudy.train.watchdog import alive, waiting, watched\n"
        f"with watched({silence}, pathlib.Path({str(log)!r})):\n    print('watched', flush=True)\n    {body}\n{after}\n"
        "print('over')"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code], **pipes, start_new_session=True)


def watched_process(
    log: Path, body: str, silence: float = 0.5, after: str = "", meanwhile: Callable[[int], None] = lambda process: None
) -> subprocess.CompletedProcess[str]:
    with begun(log, body, silence, after) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "watched\n"
        meanwhile(process.pid)
        output, errors = process.communicate(timeout=900)
    return subprocess.CompletedProcess([], process.returncode, output, errors)


@pytest.mark.parametrize("body", HANGS.values(), ids=HANGS)
def test_a_process_that_hangs_ends_and_leaves_its_stack(tmp_path, body):
    ended = watched_process(tmp_path / "hang-0.log", body)

    assert ended.returncode == -signal.SIGKILL
    assert "over" not in ended.stdout
    assert "most recent call first" in (tmp_path / "hang-0.log").read_text()


def stop(process: int) -> None:
    os.kill(process, signal.SIGSTOP)


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("[(alive(), time.sleep(0.1)) for _ in range(600)]", ""),
        ("with waiting(): time.sleep(60)", ""),
        ("pass", "time.sleep(60)"),
    ],
    ids=["at work", "waiting for its driver", "between two runs"],
)
def test_a_process_that_is_stopped_is_ended_from_outside(tmp_path, body, after):
    ended = watched_process(tmp_path / "hang-0.log", body, after=after, meanwhile=stop)

    assert ended.returncode == -signal.SIGKILL
    if not after:
        assert "no stack: T (stopped)" in (tmp_path / "hang-0.log").read_text()


def test_a_group_of_processes_that_was_stopped_as_a_whole_goes_on(tmp_path):
    """As by Ctrl-Z, or with its machine: for longer than the silence that ends a process."""

    def suspend(process: int) -> None:
        os.killpg(process, signal.SIGSTOP)
        time.sleep(4)
        os.killpg(process, signal.SIGCONT)

    ended = watched_process(tmp_path / "hang-0.log", "[(alive(), time.sleep(0.1)) for _ in range(20)]", 1.0, meanwhile=suspend)

    assert ended.stdout == "over\n", ended.stderr
    assert not (tmp_path / "hang-0.log").exists()


def test_a_log_that_cannot_be_written_keeps_no_process_alive(tmp_path, monkeypatch):
    """A fifo that nobody reads is as a file on a server that is gone."""
    os.mkfifo(tmp_path / "hang-0.log")
    killed, frozen = [], Watched(4711)
    frozen.heard(f'[1.0, false, "{tmp_path}/hang-0.log"]'.encode())
    monkeypatch.setattr(hang_monitor, "LOG_S", 0.1)
    monkeypatch.setattr(hang_monitor.os, "kill", lambda *told: killed.append(told))
    monkeypatch.setattr(hang_monitor.os, "_exit", killed.append)

    with open(tmp_path / "stack", "wb+") as stack:
        hang_monitor.end(frozen, stack.fileno())

    assert killed == [(4711, signal.SIGKILL), 0]
    (tmp_path / "hang-0.log").read_text()  # lets the thread end


def test_only_time_in_which_the_hang_monitor_runs_is_silence(monkeypatch):
    frozen = Watched(os.getpid())
    frozen.heard(b'[4.0, false, "log"]')
    frozen.unheard(3600)
    assert not frozen.hangs
    for _ in range(6):
        frozen.unheard(1.0)
    assert frozen.hangs
    frozen.heard(b"")
    assert not frozen.hangs


def test_the_hang_monitor_ends_with_its_process(tmp_path):
    with begun(tmp_path / "hang-0.log", "time.sleep(60)", 3600) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (watching,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
    deadline = time.monotonic() + 60
    while Path("/proc", watching).exists() and "Z (zombie)" not in Path("/proc", watching, "status").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("body", "silence"), [("[(alive(), time.sleep(0.1)) for _ in range(40)]", 3), ("with waiting(): time.sleep(4)", 0.5)]
)
def test_a_process_that_shows_signs_or_waits_for_others_goes_on(tmp_path, body, silence):
    """Longer in all than the silence that ends it; no machine is so busy that a tenth of a second becomes two."""
    ended = watched_process(tmp_path / "hang-0.log", body, silence)

    assert ended.stdout == "over\n", ended.stderr
    assert not (tmp_path / "hang-0.log").exists()


def test_nothing_is_watched_after_the_block_nor_without_a_limit(tmp_path):
    with watched(0, tmp_path / "none.log"):
        assert not list(tmp_path.iterdir())
    ended = watched_process(tmp_path / "hang-0.log", "alive()", silence=2, after="time.sleep(3)")

    assert ended.stdout == "over\n", ended.stderr
    assert not list(tmp_path.iterdir())


def test_a_sign_costs_nothing(tmp_path):
    """Below 10 microseconds of this process's time each, renewals included: a batch takes a hundred times as long."""
    with watched(600, tmp_path / "hang-0.log"):
        started = time.process_time()
        for _ in range(200_000):
            alive()
        assert time.process_time() - started < 2
    assert watchdog._state.waits


def test_training_and_evaluation_show_a_sign_each_batch(monkeypatch, tmp_path):
    """58 images to train on and 6 to select by, in batches of 16 and of 32: four signs and one."""
    signs = []
    run = training(train__epochs=1)
    with watched(3600, tmp_path / "hang-0.log"):
        monkeypatch.setattr(watchdog, "RENEWED_S", 0.0)
        monkeypatch.setattr(watchdog, "_say", signs.append)
        run.one_epoch()
        assert len(signs) == 4
        run.select()
        assert len(signs) == 5
