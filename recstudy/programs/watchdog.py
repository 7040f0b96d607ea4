"""A watchdog for a run that hangs: without a sign of life for too long, its process ends and leaves its stack
on disk.

The interpreter's own watchdog (`faulthandler`) is a thread in C. It writes and ends the process while Python
hangs in a call that never returns, with or without the interpreter's lock. A process has one, so its state is
the module's.
"""

import faulthandler
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

RENEWED_S = 1.0  # least time between two signs, each of which ends a thread and starts another

_silence = 0.0  # seconds that are too long; 0: nothing is watched
_stack: IO[str] | None = None  # where the stack goes
_renewed = 0.0


@contextmanager
def watched(seconds: float, log: Path) -> Iterator[None]:
    """End this process, with what every thread was doing in `log`, if `alive()` is not called for `seconds`;
    0 is never.

    Within another block, this one counts until it ends.
    """
    before = (_silence, _stack)
    if seconds:
        log.parent.mkdir(parents=True, exist_ok=True)
    with open(log if seconds else "/dev/null", "a+", encoding="utf-8") as stack:
        _watch(seconds, stack)
        try:
            yield
        finally:
            _watch(*before)
            if seconds and not before[0]:
                with suppress(OSError):  # the disk is read-only or gone; an empty log says nothing
                    log.unlink()


@contextmanager
def waiting() -> Iterator[None]:
    """Wait for others within the block, for however long."""
    before = (_silence, _stack)
    _watch(0.0, None)
    try:
        yield
    finally:
        _watch(*before)


def alive() -> None:
    """Give a sign of life: once a batch, at the cost of looking at the clock."""
    if _silence and time.monotonic() - _renewed >= min(RENEWED_S, _silence / 2):
        _watch(_silence, _stack)


def _watch(seconds: float, stack: IO[str] | None) -> None:
    global _silence, _stack, _renewed
    _silence, _stack, _renewed = seconds, stack, time.monotonic()
    if seconds and stack is not None:
        faulthandler.dump_traceback_later(seconds, file=stack, exit=True)
    else:
        faulthandler.cancel_dump_traceback_later()
