"""What a model costs is counted once, and anew where its code changes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ASKING = """
import sys
from recstudy.config import RunConfig
from recstudy.data import Digits
from recstudy.models import CNN
from recstudy.models.costs import cost
from recstudy.models.costs import training_memory

config = RunConfig(data=Digits(), model=CNN(width={width}))
print(cost(config), training_memory(config), "torch" in sys.modules)
"""


@pytest.fixture
def python(tmp_path):
    """The output of a new process, whose cache is the test's."""

    def run(*words: str) -> str:
        environment = os.environ | {"RECSTUDY_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, *words], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    return run


@pytest.mark.whole
def test_the_second_process_counts_nothing_and_loads_no_torch(python, tmp_path):
    first, second, other = (python("-c", ASKING.format(width=width)).rsplit(maxsplit=1) for width in (8, 8, 16))

    assert first == [second[0], "True"]
    assert second[1] == "False"
    assert (other[0] != first[0], other[1]) == (True, "True")

    (tmp_path / "cache/counted.json").write_text('{"torn')
    assert python("-c", ASKING.format(width=8)).rsplit(maxsplit=1) == first


@pytest.mark.whole
def test_a_changed_network_is_counted_anew(python, tmp_path):
    python("-c", "from recstudy.command import main; main()", "new", "mine")

    def parameters() -> int:
        return json.loads(python("mine.py", "--json"))[0]["params"]

    before, again = parameters(), parameters()
    study = tmp_path / "mine.py"
    assert "2 * config.width" in study.read_text()
    study.write_text(study.read_text().replace("2 * config.width", "4 * config.width"))

    assert before == again < parameters()
