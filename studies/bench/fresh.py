"""A command in a process of its own, imports included: its seconds and its peak memory."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# Asked by a process that is small itself, because Linux counts the memory of the process that starts a command as the command's
# own.
ASK = """
import json, os, subprocess, sys, time
began = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
status, used = os.wait4(process.pid, 0)[1:]
print(json.dumps([time.perf_counter() - began, used.ru_maxrss * 1024 / 1e6, os.waitstatus_to_exitcode(status)]))
"""


def in_fresh_process(*arguments: str | Path) -> tuple[float, float]:
    """Wall seconds and peak memory (MB) of `python ARGUMENT...`."""
    ask = [sys.executable, "-I", "-S", "-c", ASK, sys.executable, *arguments]
    seconds, memory, code = json.loads(subprocess.run(ask, capture_output=True, text=True, check=True).stdout)
    assert code == 0, f"exit code {code}: {arguments}"
    return seconds, memory


def several(times: int, *arguments: str | Path) -> tuple[Sequence[float], Sequence[float]]:
    """The same of so many in turn: all seconds, all memories."""
    seconds, memories = zip(*(in_fresh_process(*arguments) for _ in range(times)), strict=True)
    return seconds, memories
