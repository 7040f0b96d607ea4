"""Studies in processes of their own, as a user starts them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from logs import read_lines

from recstudy.records.mirror import scratch

Value = TypeVar("Found")
TINY = Path(__file__).with_name("tiny.py")


def copy_examples(folder: Path, *names: str) -> Path:
    """Copy these files of studies/examples into `folder`; return it."""
    folder.mkdir(exist_ok=True)
    for name in names:
        shutil.copy(Path(__file__).parents[2] / "studies/examples" / name, folder)
    return folder


class Shell:
    """Runs a tiny study in a session of its own, which holds all processes that it starts.

    Args:
        folder: where it is started, and where its results go.
        study: its file.
        environment: variables beside our own.
        store: the results' URI; `results` is then what this machine has of them.
    """

    def __init__(
        self, folder: Path, study: Path = TINY, environment: Mapping[str, str] | None = None, store: str = ""
    ) -> None:
        self.folder, self.study, self.environment = folder, study, dict(environment or {})
        self.results, self.place = folder / "results", store or str(folder / "results")
        if store:
            self.results = folder / "scratch" / scratch(store).name
            self.environment["RECSTUDY_SCRATCH"] = str(folder / "scratch")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(self.study), "--results", self.place, *arguments]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, **self.environment},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=stoppable,
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        """What it printed, after checking how it ended: its output, and for bad input and a stop its
        errors.
        """
        with self.start(*arguments) as process:
            try:
                output, errors = process.communicate(timeout=900)  # 20 to 60 s alone
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == code, output + errors
        return errors if code in (2, 130) else output

    def records(self, name: str = "result.json") -> dict[str, dict]:
        return {
            path.parent.name: json.loads(path.read_text()) for path in self.results.glob(f"runs/*/{name}")
        }

    def lines(self, name: str = "epochs.jsonl") -> dict[str, list[dict]]:
        """A log's whole lines, by run."""
        return {log.parent.name: read_lines(log) for log in self.results.glob(f"runs/*/{name}")}

    def running_runs(self) -> list[str]:
        """The runs of which ten epochs are known."""
        return [run for run, lines in self.lines().items() if len(lines) >= 10]

    def attempts(self) -> list[int]:
        return sorted(map(len, self.lines("attempts.jsonl").values()))

    def process(self, run: str) -> int:
        """The process of a run's newest attempt; of a group, its first worker's."""
        return self.lines("attempts.jsonl")[run][-1]["process"]

    def table(self) -> bytes:
        return (self.results / "studies/tiny/quick/report/tables/depths.md").read_bytes()

    def page(self) -> str:
        (page,) = self.results.glob("studies/*/*/report/report.html")
        return page.read_text()


def stoppable() -> None:
    """Have this process stopped by what a shell's background job, or one under `nohup`, ignores."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def until(condition: Callable[[], Value], description: str, seconds: float = 600) -> Value:
    """What the condition gave when it first held."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"in {seconds:.0f} s: not {description}"
        time.sleep(0.02)
    return value


def processes(session: int) -> dict[int, str]:
    """The title, as ps shows it, of each process in the session that process `session` leads."""
    titles = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, _, _, its_session = (process / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state != "Z":
                titles[int(process.name)] = (
                    (process / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode()
                )
    return titles


def kill_all(driver: subprocess.Popen[str]) -> None:
    """SIGKILL to the driver and all that it started in its process group; nothing of its session may stay.

    A worker that was just starting notices after half a minute that its node is gone.
    """
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    until(lambda: not processes(driver.pid), "without ghosts")
