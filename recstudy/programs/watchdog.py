"""A watchdog for hanging runs: without a heartbeat, it writes the stacks of all threads and ends the process.

It uses `faulthandler`, whose thread is written in C. It works even if Python hangs in a call that never
returns, with or without the interpreter's lock. A process has one such thread, so the state is global.
"""

import faulthandler
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

# Least time between two renewals, because each ends a thread and starts another.
RENEWAL_S = 1.0

_silence = 0.0  # longest time without a heartbeat in seconds; 0: the watchdog is off
_stack: IO[str] | None = None  # the file for the stacks
_renewal_time = 0.0


@contextmanager
def hang_watchdog(seconds: float, log: Path) -> Iterator[None]:
    """End this process if `heartbeat()` is not called for `seconds`, and write all stacks to `log`.

    0 seconds switch the watchdog off. In nested blocks, the innermost block counts.
    """
    previous = (_silence, _stack)
    if seconds:
        log.parent.mkdir(parents=True, exist_ok=True)
    with open(log if seconds else "/dev/null", "a+", encoding="utf-8") as stack:
        _watch(seconds, stack)
        try:
            yield
        finally:
            _watch(*previous)
            if seconds and not previous[0]:
                with suppress(OSError):  # the disk is read-only or gone; readers ignore an empty log
                    log.unlink()


@contextmanager
def paused_watchdog() -> Iterator[None]:
    """Switch the watchdog off inside the block, to wait for other processes."""
    previous = (_silence, _stack)
    _watch(0.0, None)
    try:
        yield
    finally:
        _watch(*previous)


def heartbeat() -> None:
    """Give a sign of life. Call it once per batch; it costs one look at the clock."""
    if _silence and time.monotonic() - _renewal_time >= min(RENEWAL_S, _silence / 2):
        _watch(_silence, _stack)


def _watch(seconds: float, stack: IO[str] | None) -> None:
    global _silence, _stack, _renewal_time
    _silence, _stack, _renewal_time = seconds, stack, time.monotonic()
    if seconds and stack is not None:
        faulthandler.dump_traceback_later(seconds, file=stack, exit=True)
    else:
        faulthandler.cancel_dump_traceback_later()
