"""Generated files: write those that are out of date, or name them with `--check`."""

import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]


def write_or_check(texts: Mapping[Path, str]) -> int:
    """Write the files whose text differs. With `--check` on the command line, only name them.

    Returns:
        The exit code: 1 if `--check` finds a file that is out of date, else 0.
    """
    stale = {
        path: text
        for path, text in texts.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: run `make readme`", file=sys.stderr)
        return int(bool(stale))
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8")
    return 0
