"""A watchdog for a run that hangs: no sign of life for too long, and its process ends with its stack on disk.

The stack is written by the interpreter itself (faulthandler): a thread in C, which runs while Python hangs in a call that
never returns, with or without the interpreter's lock. A process that is stopped has no thread that runs, and one whose file
server is gone may wait for it in each: so the end is made from outside, by another process (hang_monitor.py). There is one
of each a process, so their state is the module's.
"""

import atexit
import faulthandler
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, replace
from functools import cache
from pathlib import Path

RENEWED_S = 1.0  # least time between two signs, each of which ends a thread and starts another
HANG_MONITOR = Path(__file__).with_name("hang_monitor.py")


@dataclass(frozen=True)
class _State:
    silence: float = 0.0  # seconds that are too long; 0: nothing is watched
    waits: bool = False
    log: str = ""


_state = _State()
_renewed = 0.0
_hang_monitor: subprocess.Popen[bytes] | None = None


@contextmanager
def watched(seconds: float, log: Path) -> Iterator[None]:
    """End this process where `alive()` is not called for `seconds` within the block; 0 is never.

    What every thread was doing is then in `log`. Behind the outermost block the process waits for its next run.
    """
    now = _State(seconds, log=str(log))
    before = _state if _state.log else replace(now, waits=True, log="")
    _set(now)
    try:
        yield
    finally:
        _set(before)


@contextmanager
def waiting() -> Iterator[None]:
    """Wait for others within the block, as long as they take: this process hangs only where it is stopped."""
    before = _state
    _set(replace(before, waits=True))
    try:
        yield
    finally:
        _set(before)


def alive() -> None:
    """Give a sign of life: once a batch, at the cost of looking at the clock."""
    if _state.silence and time.monotonic() - _renewed >= min(RENEWED_S, _state.silence / 2):
        _renew()
        _say("")


def _set(state: _State) -> None:
    global _state
    _state = state
    if state.silence:
        _hire()
        _renew()
    _say(json.dumps(astuple(state)))


def _renew() -> None:
    global _renewed
    _renewed = time.monotonic()
    if _state.waits:
        faulthandler.cancel_dump_traceback_later()
    else:
        faulthandler.dump_traceback_later(_state.silence, file=_stack())
        os.ftruncate(_stack(), 0)  # the stack of a silence that came to an end
        os.lseek(_stack(), 0, os.SEEK_SET)


@cache
def _stack() -> int:
    """Return the descriptor of a file without a name, which ends with the two processes that know it."""
    stack, name = tempfile.mkstemp()
    Path(name).unlink()
    return stack


def _hire() -> None:
    """Start the hang monitor where there is none. It shares our process group, to be stopped with us, and no folder of ours."""
    global _hang_monitor
    if _hang_monitor is not None and _hang_monitor.poll() is None:
        return
    _hang_monitor = subprocess.Popen(
        [sys.executable, "-I", "-S", str(HANG_MONITOR), str(os.getpid()), str(_stack())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        pass_fds=[_stack()],
        bufsize=0,
    )
    assert _hang_monitor.stdin is not None
    os.set_blocking(_hang_monitor.stdin.fileno(), False)
    atexit.register(_dismiss, _hang_monitor)


def _dismiss(hang_monitor: subprocess.Popen[bytes]) -> None:
    assert hang_monitor.stdin is not None
    hang_monitor.stdin.close()
    hang_monitor.kill()
    hang_monitor.wait()


def _say(line: str) -> None:
    if _hang_monitor is not None and _hang_monitor.stdin is not None:
        with suppress(OSError):  # it was killed, and the next run has another one; or it is stopped, and we go on
            _hang_monitor.stdin.write(line.encode() + b"\n")
