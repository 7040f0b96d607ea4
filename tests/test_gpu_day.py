"""`studies/bench/gpu_day.sh`: its steps are commands that exist, and it goes on where it stopped."""

import os
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import tyro

ROOT = Path(__file__).parents[1]
BENCH = ROOT / "studies" / "bench"
STEPS = ["contract", "resume", "trm", "hrm", "vitrm", "small-images", "sudoku"]
STUB = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$*" in
  *" trm") exit 3;;
  *" hrm") exit 124;;  # of timeout, where it ends a command
esac
"""


def day(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": "", **environment}
    return subprocess.run([str(BENCH / "gpu_day.sh"), *words], env=given, capture_output=True, text=True, timeout=120)


def commands(**environment: str) -> dict[str, list[str]]:
    """The command of each step, by its name, behind the interpreter."""
    lines = day("list", **environment).stdout.splitlines()
    return {line.partition(",")[0]: shlex.split(line.partition(":  ")[2])[1:] for line in lines}


@pytest.fixture
def images(tmp_path) -> str:
    for name in ("MNIST", "cifar-10-batches-py"):
        (tmp_path / "data" / name).mkdir(parents=True)
    return str(tmp_path / "data")


@pytest.mark.parametrize("toy", ["", "1"])
def test_steps_are_commands_that_exist(images, toy, monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    import gpu

    steps = commands(DATA=images, TOY=toy)

    assert list(steps) == STEPS
    for name, (script, *words) in steps.items():
        if script == "studies/bench/gpu.py":
            options = tyro.cli(gpu.Options, args=words)
            assert (options.part, options.toy) == (name, bool(toy))
        else:
            assert (ROOT / script).exists()
            assert ("--smoke" in words) == bool(toy)


def test_a_machine_without_a_gpu_is_refused(tmp_path):
    done = day("1", str(tmp_path))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "gpu_day.sh: torch sees no GPU here. TOY=1 does every step in small on a CPU.\n"


def test_steps_that_are_done_are_not_done_again(images, tmp_path):
    """Nor does one that fails, or that is out of time, keep those behind it from their turn."""
    stub, calls, folder = tmp_path / "python", tmp_path / "calls", tmp_path / "day"
    stub.write_text(STUB)
    stub.chmod(0o755)
    given = {"PYTHON": str(stub), "CALLS": str(calls), "TOY": "1", "DATA": images}

    first = day("100", str(folder), **given).stdout.splitlines()
    again = day("100", str(folder), **given).stdout.splitlines()

    outcomes = [line.partition(": ")[2].partition(",")[0] for line in first]
    assert outcomes == ["done", "done", "FAILED with 3", "out of time; it goes on the next time", "done", "done", "done"]
    assert [line for line in again if "done before" in line] == [f"{name}: done before" for name in STEPS if name[1:] != "rm"]
    assert len(calls.read_text().splitlines()) == len(STEPS) + 2
    with tarfile.open(folder / "records.tar.gz") as packed:
        assert "done/contract" in packed.getnames()
