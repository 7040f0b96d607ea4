"""A process beside one that trains: ends it where it is silent for too long, and keeps what it was doing.

A process that is stopped, or that waits for a file server that is gone, can do neither by itself. On its standard input the
hang_monitor hears

    [1800.0, false, ".../hang-0.log"]    from now on so many seconds of silence are too long
    [1800.0, true, ".../hang-0.log"]     its process waits for others: it is silent only where it is stopped
    an empty line                        a sign of life

and the end of its process. Time in which the hang monitor itself is stopped, with its process or with the whole machine, is no
silence. It imports nothing of ours, so that it begins in a tenth of a second and takes 10 MB.
"""

import json
import os
import select
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

TICK_S = 0.5  # between two looks
GRACE_S = 2.0  # for the stack, which the process itself writes at the end of its silence
LOG_S = 5.0  # for the log, whose file server may be gone


class Watched:
    """The process that is watched, as far as it is heard of.

    Args:
        process: its id.
    """

    def __init__(self, process: int) -> None:
        self.process, self.quiet = process, 0.0
        self.silence, self.waits, self.log = 0.0, False, ""

    def heard(self, line: bytes) -> None:
        self.quiet = 0.0
        if line:
            self.silence, self.waits, self.log = json.loads(line)

    def unheard(self, seconds: float) -> None:
        """Count that nothing was heard since the look before, which was so long ago."""
        silent = not self.waits or self.state.startswith("T")
        self.quiet = self.quiet + min(seconds, 2 * TICK_S) if silent else 0.0

    @property
    def hangs(self) -> bool:
        return 0 < self.silence < self.quiet - GRACE_S

    @property
    def state(self) -> str:
        """The kernel's word: `S (sleeping)`, `T (stopped)`, `D (disk sleep)`; empty on a system that does not tell."""
        with suppress(OSError):
            for line in Path(f"/proc/{self.process}/status").read_text(encoding="utf-8").splitlines():
                if line.startswith("State:"):
                    return line.partition(":")[2].strip()
        return ""


def watch(process: int, stack: int) -> None:
    """Watch our parent until it ends, or hangs.

    Args:
        process: the parent's id.
        stack: the descriptor of a file in which it leaves what its threads were doing at the end of its silence.
    """
    watched, rest = Watched(process), b""
    while os.getppid() == process:
        looked = time.monotonic()
        if select.select([0], [], [], TICK_S)[0]:
            said = os.read(0, 2**16)
            if not said:
                return
            *lines, rest = (rest + said).split(b"\n")
            for line in lines:
                watched.heard(line)
        else:
            watched.unheard(time.monotonic() - looked)
        if watched.hangs:
            end(watched, stack)


def end(watched: Watched, stack: int) -> None:
    """Write the log, as far as that can be done in time, before the process is gone: who comes after it reads it."""
    writing = threading.Thread(target=_write, args=(watched, stack), daemon=True)
    writing.start()
    writing.join(LOG_S)
    os.kill(watched.process, signal.SIGKILL)
    os._exit(0)  # whatever becomes of the log


def _write(watched: Watched, stack: int) -> None:
    told = os.pread(stack, 2**20, 0).decode(errors="replace")
    if watched.log:
        none = f"It did not run, so that there is no stack: {watched.state or 'nothing is known'}\n"
        Path(watched.log).write_text(told or none, encoding="utf-8")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for its process
    watch(*map(int, sys.argv[1:]))
