"""Ask git about the files of a folder."""

import subprocess
from pathlib import Path


def git(folder: Path, *words: str) -> str | None:
    """Return the output of git in this folder; None if git fails, is missing or does not answer."""
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=folder,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
