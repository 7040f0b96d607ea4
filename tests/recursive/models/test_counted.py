"""What a model costs is counted once, and anew where its code changes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recstudy import cli
from recstudy.recursive import CNN, Digits, RunConfig
from recstudy.recursive.models.costs import cached_count, cost, training_memory

ROOT = Path(__file__).parents[3]
ASKING = """
import sys
from recstudy.recursive import RunConfig
from recstudy.recursive import Digits
from recstudy.recursive import CNN
from recstudy.recursive.models.costs import cost
from recstudy.recursive.models.costs import training_memory

for width in (8, 16):
    config = RunConfig(data=Digits(), model=CNN(width=width))
    print(cost(config), training_memory(config), "torch" in sys.modules)
"""


@pytest.fixture
def python(tmp_path, monkeypatch):
    """The output of a new process, whose cache is the test's, as ours is now."""
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))

    def run(*words: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, *words],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    return run


def count_here():
    """The same of width 8, in this process, which has what a process remembers no more."""
    cached_count.cache_clear()
    config = RunConfig(data=Digits(), model=CNN(width=8))
    return f"{cost(config)} {training_memory(config)}"


@pytest.mark.whole
def test_the_second_process_counts_nothing_and_loads_no_torch(python, tmp_path):
    """The first is ours."""
    first = count_here()
    second, is_loaded = (line.rsplit(maxsplit=1) for line in python("-c", ASKING).splitlines())

    assert second == [first, "False"]
    assert (is_loaded[0] != first, is_loaded[1]) == (True, "True")

    (tmp_path / "cache/counted.json").write_text('{"torn')
    assert count_here() == first
    assert len(json.loads((tmp_path / "cache/counted.json").read_bytes())) == 2


@pytest.mark.whole
def test_changed_network_is_counted_again(python, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="0"):
        cli.main(["new", "mine", "--model"])

    def parameters() -> int:
        return json.loads(python("mine.py", "--json", "--only", "loops=1"))[0]["params"]

    old_count = parameters()
    study = tmp_path / "mine.py"
    assert "2 * config.width" in study.read_text()
    study.write_text(study.read_text().replace("2 * config.width", "4 * config.width"))

    assert old_count < parameters()
