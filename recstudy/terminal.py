"""How the commands speak: to a terminal in its width, to a pipe in one wide enough for a table; and how they end."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from recstudy.errors import RecstudyError

PIPE_WIDTH = 160


def console() -> Console:
    """Standard output, without rich's guesses at what to colour."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def duration(seconds: float) -> str:
    """`45 s`, `3.5 min`, `7.2 h`, `1.5 days`."""
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.{0 if name == 's' else 1}f} {name}"
    return f"{seconds / 86_400:,.1f} days"


def stop_on_sigterm() -> None:
    """Let a polite kill end like Ctrl-C. Ray installs a handler of its own, so call this again after it starts."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def finish(work: Callable[[], int]) -> NoReturn:
    """Exit with what `work` returns; with 2 and one line on bad input; with 130 when stopped."""
    stop_on_sigterm()
    try:
        sys.exit(work())
    except RecstudyError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("Stopped. What was finished is kept; the same command goes on from there.", file=sys.stderr)
        sys.exit(130)


def shortest(path: Path) -> str:
    """Relative to the working directory, where it is below that."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
