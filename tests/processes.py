"""Python in processes of its own, as a user starts it."""

import os
import subprocess
import sys
from pathlib import Path

RECSTUDY = ("-c", "from recstudy.cli import main; main()")


def run_python(
    *words: object, code: int = 0, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `python WORDS` in `folder`, with these variables beside our own, and check its exit code."""
    process = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert process.returncode == code, process.stdout + process.stderr
    return process
