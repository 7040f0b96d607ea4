"""How the commands speak: to a terminal in its width, to a pipe in one wide enough for a table; and how they end."""

import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from rich.console import Console

from recstudy.errors import RecstudyError

PIPE_WIDTH = 160


def console() -> Console:
    """Standard output, without rich's guesses at what to colour."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


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
