"""`tests/benchmarks/gpu_day.sh`: its steps are commands that exist."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import tyro

ROOT = Path(__file__).parents[1]
BENCH = ROOT / "tests" / "benchmarks"
STEPS = ["contract", "resume", "trm", "fast", "hrm", "vitrm", "small-images", "sudoku"]


def day(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": "", **environment}
    return subprocess.run(
        [str(BENCH / "gpu_day.sh"), *words], env=variables, capture_output=True, text=True, timeout=120
    )


def commands(**environment: str) -> dict[str, list[str]]:
    """The command of each step, by its name, behind the interpreter."""
    lines = day("list", **environment).stdout.splitlines()
    return {line.partition(",")[0]: shlex.split(line.partition(":  ")[2])[1:] for line in lines}


@pytest.mark.parametrize("toy", ["", "1"])
def test_steps_are_commands_that_exist(tmp_path, toy, monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    import gpu

    for name in ("MNIST", "cifar-10-batches-py"):
        (tmp_path / name).mkdir()
    steps = commands(DATA=str(tmp_path), TOY=toy)

    assert list(steps) == STEPS
    for name, (script, *words) in steps.items():
        if script == "tests/benchmarks/gpu.py":
            options = tyro.cli(gpu.Options, args=words)
            assert (options.part, options.toy) == (name, bool(toy))
        else:
            assert (ROOT / script).exists()
            assert ("--smoke" in words) == bool(toy)


def test_a_machine_without_a_gpu_is_refused(tmp_path):
    done = day("1", str(tmp_path))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "gpu_day.sh: torch sees no GPU here. TOY=1 does every step in small on a CPU.\n"
