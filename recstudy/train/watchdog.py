"""A watchdog for a run that hangs: no sign of life for too long, and its process ends with its stack on disk.

It is the interpreter's own (faulthandler): a thread in C, which runs while Python hangs in a call that never returns, with
or without the interpreter's lock. There is one a process, so its state is the module's.
"""

import faulthandler
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

RENEWED_S = 1.0  # least time between two renewals, each of which ends a thread and starts another

_silence = 0.0  # seconds that are too long; 0: nothing is watched
_log: IO[str] | None = None
_renewed = 0.0


@contextmanager
def watched(seconds: float, log: Path) -> Iterator[None]:
    """End this process where `alive()` is not called for `seconds` within the block; 0 is never.

    What every thread was doing is then in `log`, which is otherwise removed.
    """
    global _silence, _log
    if not seconds:
        yield
        return
    with open(log, "w") as file:
        _silence, _log = seconds, file
        _renew()
        try:
            yield
        finally:
            if _log is file:  # a process that is used again may be watched for the next run by now
                faulthandler.cancel_dump_traceback_later()
                _silence, _log = 0.0, None
            with suppress(OSError):  # an empty one tells nothing and does no harm
                log.unlink()


def alive() -> None:
    """A sign of life: once a batch, at the cost of looking at the clock."""
    if _silence and time.monotonic() - _renewed >= min(RENEWED_S, _silence / 2):
        _renew()


def _renew() -> None:
    global _renewed
    assert _log is not None
    faulthandler.dump_traceback_later(_silence, exit=True, file=_log)
    _renewed = time.monotonic()
