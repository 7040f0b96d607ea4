"""Run a command in a process group that is killed when the command ends or its worker is gone."""

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from recstudy.programs import guard

# Longest time between two lines, so that the caller can check its limits.
TICK_S = 0.2
LINE_BYTES = 2**14  # of longer lines, only the end is read
# The log is cut to this size when it is twice as large.
LOG_BYTES = 2**20
LINES = re.compile(rb"[\r\n]+")  # progress bars end their lines with \r
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # colors and cursor movements of a terminal


class Process:
    """A running command, as a context manager. At the end of the block, all of its processes have ended.

    Args:
        words: The command and its arguments; no shell is used.
        folder: The working directory.
        environment: The environment variables.
        log: The file for the output. At least the last MB is kept.
        grace_seconds: Seconds between SIGTERM and SIGKILL.

    Attributes:
        start_time: Start of the process, on the monotonic clock.
        last_output_time: Time of the last output, on the monotonic clock.
        status: After the block: `code` (negative for a signal), `peak_memory_mb` of the largest process and
            `cpu_seconds` of all processes; or `error` if the command could not be started.
        output: After the block: the lines of the output that were kept.
        output_start: The position of the kept output in the log; 0 if its beginning was cut.
    """

    output: list[str]

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        log: Path,
        grace_seconds: float,
    ) -> None:
        self.start_time = self.last_output_time = time.monotonic()
        self.status: dict[str, Any] = {"error": "its guard was killed"}
        self._is_stopping = False
        (lifeline, self._lifeline), (self._output, output), (self._status, status) = (
            os.pipe(),
            os.pipe(),
            os.pipe(),
        )
        self._log = open(log, "a+b", buffering=0)  # noqa: SIM115  closed with the block
        self._log.write(f"$ {shlex.join(words)}\n".encode(errors="backslashreplace"))
        self.output_start = self._log.tell()
        start = [
            sys.executable,
            "-I",
            "-S",
            guard.__file__,
            str(lifeline),
            str(status),
            str(grace_seconds),
            *words,
        ]
        try:
            subprocess.run(
                start,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(lifeline, status),
                check=True,
            )
        except BaseException:
            self._close()
            raise
        finally:
            for end in (lifeline, output, status):
                os.close(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
            for _line in self.lines():
                pass
            self.output = kept_lines(self._log, self.output_start)
            self.status = json.loads(os.read(self._status, 2**12) or json.dumps(self.status))
        finally:
            self._close()

    def _close(self) -> None:
        """Close the pipes. If the guard is still running, it kills the command."""
        for end in (self._lifeline, self._output, self._status):
            os.close(end)
        self._log.close()

    def stop(self) -> None:
        """Send SIGTERM to the process group and, after the grace period, SIGKILL."""
        if not self._is_stopping:
            self._is_stopping = True
            with suppress(BrokenPipeError):  # it has ended
                os.write(self._lifeline, guard.STOP)

    def ending(self) -> str:
        """Describe how the command ended; empty if it exited with code 0."""
        code = self.status.get("code", 0)
        last = f": {self.output[-1]}" if self.output else ""
        if "error" in self.status:
            return f"could not run: {self.status['error']}"
        if code < 0:
            return f"was ended by signal {-code} ({signal.strsignal(-code)}){last}"
        return f"exited with code {code}{last}" if code else ""

    def lines(self) -> Iterator[str]:
        """Yield the lines of the output until all processes have ended.

        If the command prints nothing, an empty line is yielded every `TICK_S` seconds.
        """
        output, rest = select.poll(), b""
        output.register(self._output)
        while True:
            yield ""
            chunk = os.read(self._output, 2**16) if output.poll(1000 * TICK_S) else None
            if chunk is None:
                continue
            self._keep(chunk)
            self.last_output_time = time.monotonic()
            *lines, rest = LINES.split(rest + chunk)
            rest = rest[-2 * LINE_BYTES :]  # a line of any length needs no more memory
            yield from map(_text, lines)
            if not chunk:
                yield _text(rest)
                return

    def _keep(self, chunk: bytes) -> None:
        self._log.write(chunk)
        if self._log.tell() > 2 * LOG_BYTES:
            self._log.seek(-LOG_BYTES, os.SEEK_END)
            end = self._log.read()
            self._log.truncate(0)
            self._log.write(end)
            self.output_start = 0


def kept_lines(log: IO[bytes], start: int) -> list[str]:
    """Return the lines of a log from a position. If the log was cut, they start with its first whole word."""
    log.seek(start)
    text = log.read()
    return [_text(line) for line in LINES.split(text if start else _from_word(text)) if line.strip()]


def _from_word(text: bytes) -> bytes:
    """Return a text that was cut from its first whole word, because a part of a number is another number."""
    return re.sub(rb"\A\S*", b"", text)


def _text(line: bytes) -> str:
    """Decode a line, and replace characters that are not printable."""
    line = _from_word(line[-LINE_BYTES:]) if len(line) > LINE_BYTES else line
    text = ESCAPES.sub("", line.decode(errors="replace"))
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter == "\t" else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
