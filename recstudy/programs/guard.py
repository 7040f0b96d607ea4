"""Run a command and kill all of its processes at the end. `recstudy.programs.process` starts this file.

    python -I -S guard.py LIFELINE STATUS GRACE WORD...

The guard is not a child of the worker, because Ray kills the children of a worker that it ends and the guard
must outlive it. On Linux, it adopts the orphans of the command, so that a process in a new session cannot
escape. macOS cannot do this, so there the guard waits for and kills the process group only.
"""

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress

PR_SET_CHILD_SUBREAPER = 36
STOP = b"s"
POLL_S = 0.1  # between two looks at a process group whose members are not children of the guard


def run(lifeline: int, status: int, grace_seconds: float, words: list[str]) -> None:
    """Run the command, and write its exit status and cost as JSON.

    Args:
        lifeline: A pipe from the worker. On `STOP`, the guard sends SIGTERM and, after the grace period,
            SIGKILL. If the pipe closes, the worker is gone and the guard sends SIGKILL at once, because
            another worker may start the same run.
        status: A pipe to the worker.
        grace_seconds: The grace period.
        words: The command and its arguments.
    """
    child_ended = _watch_signals()
    for end in (lifeline, status):
        os.set_inheritable(end, False)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        # Python ignores these signals, and a command would inherit that.
        reset = (signal.SIGPIPE, signal.SIGXFSZ)
        command = os.posix_spawnp(words[0], words, os.environ, setsid=True, setsigdef=reset)
    except OSError as error:
        os.write(status, json.dumps({"error": str(error)}).encode())
        return
    code, deadline, is_ending = 0, float("inf"), False
    while True:
        if is_ending:
            _kill(command)
        try:
            process, wait_status = os.waitpid(-1, 0 if is_ending else os.WNOHANG)
        except ChildProcessError:
            # All have ended on Linux. Elsewhere the command may have left others in its group.
            if is_ending or not _signal(os.killpg, command, 0):
                break
            is_ending = bool(select.select([lifeline], [], [], POLL_S)[0]) or time.monotonic() >= deadline
            continue
        if process == command:
            code = os.waitstatus_to_exitcode(wait_status)
            # after SIGTERM, its children also get the grace period
            is_ending = is_ending or deadline == float("inf")
        elif not process:
            patience = None if deadline == float("inf") else max(0.0, deadline - time.monotonic())
            ready_files, _, _ = select.select([child_ended, lifeline], [], [], patience)
            if child_ended in ready_files:
                os.read(child_ended, 4096)
            if lifeline in ready_files and os.read(lifeline, 1) == STOP:
                deadline = time.monotonic() + grace_seconds
                _signal(os.killpg, command, signal.SIGTERM)
            elif lifeline in ready_files or time.monotonic() >= deadline:
                is_ending = True
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak_mb = usage.ru_maxrss / (2**10 if sys.platform == "linux" else 2**20)
    cost = {"code": code, "peak_memory_mb": peak_mb, "cpu_seconds": usage.ru_utime + usage.ru_stime}
    with suppress(BrokenPipeError):  # the worker is gone
        os.write(status, json.dumps(cost).encode())


def _watch_signals() -> int:
    """Return a pipe that is readable when a child has ended. Catch signals that batch systems send to all."""
    child_ended, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    for caught in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # SIG_IGN would be inherited by the command.
        signal.signal(caught, lambda *_: None)
    return child_ended


def _kill(command: int) -> None:
    """Kill the process group and all children. Orphans become children, so repeated calls reach all."""
    _signal(os.killpg, command, signal.SIGKILL)
    with (
        suppress(FileNotFoundError),
        open(f"/proc/self/task/{os.getpid()}/children", encoding="utf-8") as children,
    ):
        for child in children.read().split():
            _signal(os.kill, int(child), signal.SIGKILL)


def _signal(send, process: int, number: int) -> bool:  # type: ignore[no-untyped-def]
    """Return whether there was a process to send it to."""
    with suppress(ProcessLookupError, PermissionError):  # macOS refuses a group of zombies
        send(process, number)
        return True
    return False


if __name__ == "__main__" and not os.fork():
    os.setsid()
    run(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:])
