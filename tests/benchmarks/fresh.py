"""A command in a process of its own, imports included: its seconds and its peak memory."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# Asked by a process that is small itself, because Linux counts the memory of the process that starts a
# command as the command's own.
ASK = """
import json, os, subprocess, sys, time
began = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
status, used = os.wait4(process.pid, 0)[1:]
print(json.dumps([time.perf_counter() - began, used.ru_maxrss * 1024 / 1e6, os.waitstatus_to_exitcode(status)]))
"""


def several(times: int, *arguments: str | Path) -> tuple[Sequence[float], Sequence[float]]:
    """Wall seconds and peak memories (MB) of `python ARGUMENT...`, run so many times in turn."""
    ask, measurements = [sys.executable, "-I", "-S", "-c", ASK, sys.executable, *arguments], []
    for _ in range(times):
        measurements.append(
            json.loads(subprocess.run(ask, capture_output=True, encoding="utf-8", check=True).stdout)
        )
        assert measurements[-1][2] == 0, f"exit code {measurements[-1][2]}: {arguments}"
    return [seconds for seconds, _, _ in measurements], [memory for _, memory, _ in measurements]
