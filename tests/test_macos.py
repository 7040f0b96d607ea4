"""The base half as on macOS: no call that only Linux has, and real processes without such calls.

No Mac was at hand. `macos.py` is a Python that removes the names and files that macOS lacks.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from macos import LINUX_ONLY
from processes import RECSTUDY, run_python
from test_wheel import FUNCTION

from recstudy.base.errors import EXIT_CODES

ROOT = Path(__file__).parents[1]
FOLDERS = [
    folder
    for folder in sorted((ROOT / "recstudy").iterdir())
    if folder.is_dir() and folder.name not in ("cluster", "recursive", "__pycache__")
]
# each with its own way without: tests below run them
HANDLED = {"guard.py": {"prctl", "/proc/"}, "trial.py": {"/proc/"}}
COMMAND = """
from recstudy import Command, JsonFile, Metric, Study, Variant, main

program = Command("python train.py {folder}", metrics=JsonFile("metrics.json"), minutes=0.05, grace_seconds=1)
study = Study("command", program=program, metrics={"accuracy": Metric("%")}, variants=[Variant("one", {})])
if __name__ == "__main__":
    main(study)
"""
SCRIPT = """
import json, subprocess, sys, time
def child(handler):
    code = f"import signal, time; signal.signal(signal.SIGTERM, {handler}); print(flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    process.stdout.readline()
    return process.pid
processes = [child("signal.SIG_IGN"), child("lambda *_: (time.sleep(0.3), open('saved', 'w'))")]
json.dump(processes, open("processes.json", "w"))
"""
METRICS = "json.dump({'accuracy': 91.5}, open(sys.argv[1] + '/metrics.json', 'w'))\n"


@pytest.fixture
def python(tmp_path, monkeypatch):
    """Run a file or code in a Python that has only what macOS has, in this folder; return the output."""
    monkeypatch.chdir(tmp_path)
    shim = tmp_path / "bin/python"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT / "tests/macos.py"} "$0" "$@"\n')
    shim.chmod(0o755)

    def run(*words: str, code: int = 0) -> str:
        process = subprocess.run([shim, *words], capture_output=True, text=True, check=False, timeout=60)
        assert process.returncode == code, process.stderr
        return process.stdout

    return run


def test_the_base_half_calls_nothing_that_only_linux_has():
    calls = [rf"\b{module.__name__}\.(?:{'|'.join(names.split())})\b" for module, names in LINUX_ONLY.items()]
    pattern = re.compile("|".join([*calls, "prctl", "/proc/", "/sys/", r"\binotify"]))
    files = [file for folder in FOLDERS for file in folder.rglob("*.py")]
    matches = {file.name: set(pattern.findall(file.read_text())) for file in files}

    assert len(FOLDERS) >= 11
    assert {name: calls for name, calls in matches.items() if calls} == HANDLED


@pytest.mark.whole
def test_mypy_finds_in_the_base_half_no_name_that_macos_lacks(tmp_path):
    packages = [word for folder in FOLDERS for word in ("-p", f"recstudy.{folder.name}")]
    run_python("-m", "mypy", "--platform", "darwin", "--cache-dir", tmp_path, *packages, folder=ROOT)


def test_a_table_is_judged_without_what_only_linux_has(python, tmp_path):
    (tmp_path / "runs.csv").write_text("depth,seed,accuracy\n1,0,80.5\n1,1,80.9\n2,0,90.5\n2,1,91.1\n")
    assert "Report: results" in python(*RECSTUDY, "judge", "runs.csv")


def test_a_function_is_studied_without_what_only_linux_has(python, tmp_path):
    (tmp_path / "depth.py").write_text(FUNCTION)
    assert "4 of 4 runs done" in python("depth.py", "--no-ray", "--seeds", "2")
    python(*RECSTUDY, "publish", "results", "bundle")
    assert "Nothing differs" in python(*RECSTUDY, "verify", "bundle.zip")


@pytest.mark.parametrize(("last_lines", "code"), [(METRICS, 0), ("time.sleep(600)", EXIT_CODES["hung"])])
def test_a_command_is_studied_and_stopped_without_what_only_linux_has(python, tmp_path, last_lines, code):
    """What it started is gone afterwards, although orphans are not adopted; after SIGTERM, it has time to save."""
    (tmp_path / "study.py").write_text(COMMAND)
    (tmp_path / "train.py").write_text(SCRIPT + last_lines)

    python("study.py", "--no-ray", "--seeds", "1", code=code)

    for process in json.loads((tmp_path / "processes.json").read_text()):
        status = Path(f"/proc/{process}/stat")
        assert not status.exists() or ") Z" in status.read_text()
    assert (tmp_path / "saved").exists() == (code != 0)
    for result in (tmp_path / "results/runs").glob("*/result.json"):
        peak_memory_mb = json.loads(result.read_text())["cost"]["peak_memory_mb"]
        assert peak_memory_mb < 1  # the guard took Linux's kilobytes for the bytes of macOS
