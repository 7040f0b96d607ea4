import os
import signal
import subprocess
import sys
import time
from textwrap import dedent

import pytest
from processes import run_python

from recstudy.base.terminal import duration, flops
from recstudy.cli import COMMANDS, command_class

NAMES = [name for commands in COMMANDS.values() for name in commands]
MISTYPED = {
    "reprot": f"no command 'reprot': there are {', '.join(NAMES)}. Did you mean 'report'?",
    "report": "Missing from recstudy report: DIR|URI. For full helptext, run: recstudy report --help.",
    "clean --orphan": "Unrecognized options: --orphan. Perhaps you meant: --orphans. "
    "For full helptext, run recstudy clean --help.",
}


@pytest.mark.parametrize("words", MISTYPED)
def test_a_mistyped_command_line_is_one_line_and_no_box(words, typed):
    assert typed(*words.split(), code=2) == f"ConfigError: {MISTYPED[words]}\n"


HELP = {  # command -> options that its help shows
    "": ("judge  ", "new  ", "weights  "),
    "judge": ("FILE", "--metrics", "--claims FILE", "--export pdf|svg|png|md"),
    "reproduce": ("DIR|ZIP", "--fresh-seeds N", "the new records (default: reproduced)"),
    "status": ("(default: results)",),
}


@pytest.mark.parametrize("command", HELP)
def test_help_of_a_command_is_one_screen(command, typed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = typed(*command.split(), "--help")

    assert text.count("\n") <= 45
    assert max(map(len, text.splitlines())) <= 100
    for option in HELP[command]:
        assert f" {option}" in text
    assert "--no-" not in text.replace("--no-ray ", "")
    assert "(default: )" not in text
    assert "None" not in text
    assert "--help-all" in text.splitlines()[-1]


def test_each_command_is_found_and_has_a_summary():
    assert all(command_class(name).__doc__ for name in NAMES)


def a_program(work: str) -> subprocess.Popen[str]:
    """Which ends by `finish`, as every command does, and takes its time to clean up."""
    program = f"""
        import atexit, time
        from recstudy.base.terminal import finish

        def work():
            print("begun", flush=True)
            {work}

        atexit.register(time.sleep, 60)
        finish(work)
    """
    command = [sys.executable, "-c", dedent(program)]
    return subprocess.Popen(
        command,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_stop_during_cleanup_ends_without_a_traceback(number):
    with a_program("time.sleep(60)") as program:
        program.stdout.readline()
        program.send_signal(signal.SIGINT)
        error_line = program.stderr.readline()
        time.sleep(0.5)
        program.send_signal(number)

        assert program.wait(20) == -number
        assert (error_line + program.stderr.read()).startswith("Stopped. Finished work is kept")
        assert not program.stderr.read()


LASTS = r"""
import sys
from rich.table import Table
from recstudy.base.terminal import console, finish, output, say

def work():
    with output():
        table = Table("\u00b1")
        table.add_row("na\u00efve")
        console().print(table)
        for _ in range(3):
            say("\u00d7" * 10_000)
        print("done", file=sys.stderr)
        return 3

finish(work)
"""
SHOWS = "from recstudy.base.terminal import finish, say; finish(lambda: say('\u00b1' * 10_000) or 0)"
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}


def run_redirected(
    redirection: str, program: str, environment: dict[str, str] | None = None
) -> tuple[int, str]:
    """Exit code and errors of a program whose output a shell sends there."""
    command = ["sh", "-c", f'"$0" -c "$1" {redirection}', sys.executable, program]
    done = subprocess.run(command, capture_output=True, env=os.environ | (environment or {}), check=False)
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize(
    ("redirection", "environment"), [(">/dev/full", {}), ("<&- >&-", ASCII), ("1</dev/null", ASCII)]
)
def test_a_line_that_cannot_be_printed_ends_no_study(redirection, environment):
    """On a full disk, and where standard output is closed or only to be read; its exit code is its own."""
    assert run_redirected(redirection, LASTS, environment) == (3, "done\n")


def test_letters_that_a_terminal_has_not_are_escaped():
    output = run_python("-c", LASTS, code=3, **ASCII).stdout

    assert output.isascii()
    assert output.startswith("+--")  # a table's lines in ASCII
    assert r"na\xefve" in output
    assert output.splitlines()[-1] == r"\xd7" * 10_000


def test_a_reader_who_is_gone_ends_no_study_and_a_full_disk_is_named():
    """A pipe without a reader; a command that only shows something says that it cannot."""
    assert run_redirected(">/dev/full", SHOWS) == (
        1,
        "Standard output cannot be written: No space left on device\n",
    )
    reads, writes = os.pipe()
    os.close(reads)
    for program, code, error_text in ((LASTS, 3, b"done\n"), (SHOWS, 1, b"")):
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=writes, stderr=subprocess.PIPE, check=False
        )
        assert (done.returncode, done.stderr) == (code, error_text)
    os.close(writes)


def test_durations_and_flops_are_in_a_unit_that_is_read():
    assert [duration(seconds) for seconds in (45, 210, 25_920, 259_200)] == [
        "45 s",
        "3.5 min",
        "7.2 h",
        "3.0 days",
    ]
    assert [flops(peta) for peta in (0.02284, 2e-5, 2100.0)] == ["22.84 TFLOP", "20 GFLOP", "2.1 EFLOP"]
