import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TINY = Path(__file__).with_name("tiny.py")


class Shell:
    """Runs a tiny study as a user would, in a process group of its own."""

    def __init__(self, folder: Path, study: Path = TINY) -> None:
        self.folder, self.study = folder, study
        self.results = folder / "results"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(self.study), "--results", str(self.results), *arguments]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores Ctrl-C
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        """What it printed, after checking how it ended."""
        with self.start(*arguments) as process:
            output, errors = process.communicate(timeout=200)
        assert process.returncode == code, output + errors
        return output if code in (0, 1) else errors

    def records(self, name: str = "result.json") -> dict[str, dict]:
        return {path.parent.name: json.loads(path.read_text()) for path in self.results.glob(f"runs/*/{name}")}

    def attempts(self) -> list[int]:
        return sorted(len(path.read_text().splitlines()) for path in self.results.glob("runs/*/attempts.jsonl"))

    def table(self, preset: str = "quick") -> bytes:
        return (self.results / f"studies/tiny/{preset}/report/tables/depths.md").read_bytes()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)
