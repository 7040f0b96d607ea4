"""Print to terminals and pipes, handle signals, and end the commands with an exit code and one line per
error.
"""

import gc
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import StringIO, TextIOWrapper
from math import floor, log10
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NoReturn, TypeVar

from recstudy.base.errors import ConfigError, RecstudyError, missing_package, raised_at, user_calls, user_line

if TYPE_CHECKING:
    from rich.console import Console

Options = TypeVar("Options")
PIPE_WIDTH = 160
# Control characters, and marks, embeddings, overrides and isolates of the direction of writing.
UNPRINTED = dict.fromkeys(
    {*range(32), *range(127, 160), 0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
    - {9, 10}
)
PREFIXES = " kMGTPE"  # of SI units, each 1,000 times the one before it
HELP = " " * 8  # before what an option means, in tyro's boxes


def console(quiet: bool = False) -> "Console":
    """Return the console of standard output. A pipe is `PIPE_WIDTH` wide, so that tables fit."""
    from rich.console import Console  # which --help does without
    from rich.segment import Segment

    class Safe(Console):
        """A console that prints no control characters, such as from records of unknown authors."""

        @property
        def encoding(self) -> str:
            """The encoding of the stream, which decides about the lines of tables."""
            return (getattr(self.file, "encoding", None) or "utf-8").lower()

        def render(self, *renderables: Any, **options: Any) -> "Iterator[Segment]":
            for segment in super().render(*renderables, **options):
                yield segment if segment.control else Segment(printable(segment.text), segment.style)

    return Safe(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH, quiet=quiet)


def printable(text: str) -> str:
    """Return a text without characters that control a terminal (C0 and C1, except tab and newline) or reorder
    text (bidi).
    """
    return text if text.isprintable() else text.translate(UNPRINTED)


def say(*lines: str) -> None:
    """Print lines without wrapping."""
    for line in lines:
        console().print(line, markup=False, soft_wrap=True)


class _Output:
    """A stream that discards its output after the first failed write, such as on a full disk or a closed
    pipe.

    Args:
        stream: The stream.
        required: Raise OSError at the failed write. Otherwise the computation continues.
    """

    def __init__(self, stream: IO[str], required: bool) -> None:
        self._stream, self._is_required = stream, required
        self.error: BaseException | None = None  # why

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, do: Callable[..., Any], *arguments: str) -> None:
        try:
            do(*arguments)
        except (OSError, ValueError) as error:  # ValueError: it is closed
            self.error = error
            with suppress(OSError, ValueError):  # what is left in its buffer goes there too
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            if self._is_required:
                raise


@contextmanager
def output(required: bool = False) -> Iterator[_Output]:
    """Make standard streams safe in the block: failed writes are ignored, and unsupported letters are
    escaped.

    Args:
        required: Raise OSError if standard output cannot be written. Commands that only show something set
            this; a running study must not end because of a lost line.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started this: the next file that is opened would be it
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    printed, errors = _Output(sys.stdout, required), _Output(sys.stderr, required=False)
    with redirect_stdout(printed), redirect_stderr(errors):
        try:
            yield printed
        finally:
            if not required:
                printed.flush()


@contextmanager
def document_output(as_json: bool) -> Iterator[IO[str]]:
    """Print to standard error in the block if `as_json`. Yield standard output, which is for the document."""
    stdout = sys.stdout
    with redirect_stdout(sys.stderr if as_json else stdout):
        yield stdout


def duration(seconds: float) -> str:
    """Return a duration in words: `45 s`, `3.5 min`, `7.2 h`, `1.5 days`."""
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.{0 if name == 's' else 1}f} {name}"
    return f"{seconds / 86_400:,.1f} days"


def flops(peta: float) -> str:
    """Return PFLOP in a unit that gives 1 to 1,000: `22.84 TFLOP`, `1.5 PFLOP`, `3 EFLOP`."""
    factor, unit = scaled_unit("PFLOP", peta)
    return f"{peta * factor:,.4g} {unit}"


def scaled_unit(unit: str, size: float) -> tuple[float, str]:
    """Return a factor and the unit in which a value of this size is 1 to 1,000. Only FLOPs change theirs.

    Examples:
        >>> scaled_unit("GFLOP/image", 0.000755), scaled_unit("images/s", 13_800.0)
        ((1000000.0, 'kFLOP/image'), (1.0, 'images/s'))
    """
    match = re.fullmatch(f"([{PREFIXES[1:]}]?)(FLOP.*)", unit)
    if not match or not size:
        return 1.0, unit
    old_power = PREFIXES.index(match[1] or " ")
    power = min(max(0, old_power + floor(log10(abs(size)) / 3)), len(PREFIXES) - 1)
    return 1000.0 ** (old_power - power), f"{PREFIXES[power]}{match[2]}".strip()


def stop_on_sigterm() -> None:
    """Make SIGTERM, and SIGHUP of a closed terminal, raise KeyboardInterrupt like Ctrl-C.

    Ray installs its own handler, so this must be called again after Ray starts.
    """
    on_sigterm(signal.default_int_handler)
    # `nohup` ignores SIGHUP; then the program continues after the terminal is closed.
    if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        on_sigterm(signal.default_int_handler, signal.SIGHUP)


def on_sigterm(handler: Callable[..., Any] | int, number: int = signal.SIGTERM) -> None:
    """Set the handler of SIGTERM, or of another signal. Outside of the main thread, do nothing."""
    if threading.current_thread() is threading.main_thread():  # Python allows handlers only there
        signal.signal(number, handler)


@contextmanager
def sigterm_restored() -> Iterator[None]:
    """Restore the handlers of SIGTERM and SIGHUP after the block."""
    old_handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in old_handlers.items():
            if handler is not None:  # a handler that Python has not set cannot be restored
                on_sigterm(handler, number)


class Draining:
    """Ends a study in order: after the first SIGTERM, each run finishes its epoch and saves a checkpoint.

    Args:
        notice: A line on the standard error stream at the first SIGTERM.

    Attributes:
        is_requested: Whether the first SIGTERM has arrived.
    """

    def __init__(self, notice: str = "") -> None:
        self.notice, self.is_requested = notice.encode(), False

    @contextmanager
    def on_sigterm(self) -> Iterator[None]:
        """Let the first SIGTERM in the block set `is_requested`.

        A second SIGTERM and Ctrl-C raise KeyboardInterrupt at once.

        Raises:
            KeyboardInterrupt: At the end of the block, if `is_requested` was set.
        """
        on_sigterm(self._request)
        try:
            yield
        finally:
            stop_on_sigterm()
        if self.is_requested:
            raise KeyboardInterrupt

    def _request(self, *_: object) -> None:
        self.is_requested = True
        stop_on_sigterm()
        with suppress(OSError):
            os.write(2, self.notice)  # not print, whose own write the signal may have interrupted


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set environment variables in the block. After it, the whole environment is restored."""
    old_environment = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in os.environ.keys() - old_environment.keys():
            del os.environ[name]
        os.environ.update(old_environment)


def finish(work: Callable[[], int]) -> NoReturn:
    """Exit with the code that `work` returns.

    The code is 2 for invalid input (with one line), 8 for a part of a report that cannot be drawn, 130 after
    a stop, and 1 if the output cannot be written. An error in the user's code is invalid input; the last
    lines of the user's files that led to it are printed, too.
    """
    with output(required=True) as printed:
        stop_on_sigterm()
        if logging.lastResort:  # what prints warnings, which name what records hold
            logging.lastResort.setFormatter(_Printable())
        # Python's 700 took a tenth of the time: records are many, and the collector went through them again
        # and again.
        gc.set_threshold(50_000)
        try:
            code = work()
            sys.stdout.flush()
            sys.exit(code)
        except Exception as error:
            if error is printed.error:
                # then who reads it has seen enough: the end that rich, too, comes to
                if not isinstance(error, BrokenPipeError):
                    print(
                        f"Standard output cannot be written: {getattr(error, 'strerror', error)}",
                        file=sys.stderr,
                    )
                sys.exit(1)
            is_clear = isinstance(error, RecstudyError)
            calls = user_calls(error.__cause__ if is_clear else error)
            line = f"{type(error).__name__}: {error}" if is_clear else missing_package(error)
            if not (line or calls):
                raise
            print(
                printable(line or raised_at(error)),
                *(f"    {printable(call)}" for call in calls),
                sep="\n",
                file=sys.stderr,
            )
            sys.exit(getattr(error, "exit_code", 2))
        except KeyboardInterrupt:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                # one more ends what is left to clean up, at once and without a word
                signal.signal(number, signal.SIG_DFL)
            # what --rerun has archived is unfinished now, and what ran again must not run once more
            is_rerun = any(word.partition("=")[0] == "--rerun" for word in sys.argv)
            hint = ", without --rerun if a run has started" * is_rerun
            print(f"Stopped. Finished work is kept. Run the same command to resume{hint}.", file=sys.stderr)
            sys.exit(130)


LINE = re.compile(r"\S+, line \d+: ")


class _Printable(logging.Formatter):
    """Formats log messages without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def tell_uncaught() -> None:
    """Print uncaught input errors, as in a study file, as one line with their place, and exit with code 2."""
    old_hook = sys.excepthook

    def report_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        line = str(error) if isinstance(error, RecstudyError) else missing_package(error)
        if not line or hasattr(sys, "ps1"):  # an interactive prompt continues
            return old_hook(kind, error, trace)
        place = "" if LINE.match(line) else user_line(trace)  # the message may name the line already
        print(f"{kind.__name__}: {place}{printable(line)}", file=sys.stderr)
        sys.exit(2)

    sys.excepthook = report_error


def parsed(parse: Callable[[], Options]) -> Options:
    """Return the result of `parse`, which parses the command line with tyro.

    Raises:
        ConfigError: The command line is invalid. The message is that of tyro in one line.
    """
    printed = StringIO()
    try:
        with redirect_stderr(printed):
            return parse()
    except SystemExit as end:
        if end.code != 2:
            raise
    raise ConfigError(_unboxed(printed.getvalue()))


def _unboxed(box: str) -> str:
    """Return the text of tyro's error box in one line, without the help texts of options.

    tyro 1.0 gives its messages only in this box. Its hook for errors (`tyro._errors`) is private, has no
    text, and may change in any release.
    """
    inside = "\n".join(row[2:].rstrip() for row in box.replace("│", " ").splitlines() if row.startswith("  "))
    sections = [
        part for part in re.split(r"^[─-]+$", inside or box, flags=re.M) if "Argument helptext:" not in part
    ]
    brief = (part.partition("Got errors:")[0].splitlines() for part in sections)
    rows = [[row.strip() for row in part if row.strip() and not row.startswith(HELP)] for part in brief]
    return " ".join(
        words if words.endswith((".", ":")) else f"{words}." for words in map(" ".join, rows) if words
    )


def shortest(path: Path) -> str:
    """Return a path relative to the working directory if it is below it; otherwise unchanged."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def say_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table without lines."""
    from rich.box import SIMPLE
    from rich.markup import escape
    from rich.table import Table

    table = Table(*names, box=SIMPLE)
    for row in rows:
        table.add_row(*map(escape, row))
    console().print(table)
