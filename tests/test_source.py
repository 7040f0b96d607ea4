"""What counts as a change of code, and what does not."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from recstudy.config import DATASETS, FAMILIES
from recstudy.metrics import METRICS
from recstudy.source import IDLE, ROOT, Code, _Files, code_of

MODEL = '''
"""A model."""
from parts.layers import scale
import helpers
from late import *

WIDTH = 8

class Base:
    def width(self):
        return WIDTH

class Net(Base):
    """What it is."""
    network = "drawn:Drawing"

    def forward(self, x: int) -> int:
        from parts import deep
        return scale(helpers.twice(x)) + deep.level + star()  # a sum

def other():
    return 1
'''
FILES = {
    "model.py": MODEL,
    "helpers.py": "def twice(x):\n    return 2 * x\n\ndef unused(x):\n    return x\n",
    "late.py": "def star():\n    return 3\n",
    "drawn.py": "class Drawing:\n    lines = 4\n",
    "parts/layers.py": "from parts.deep import level\n\ndef scale(x):\n    return level * x\n",
    "parts/deep.py": "level = 5\nlevel += 1\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def change(folder: Path, file: str, old: str, new: str) -> Code:
    path = folder / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return code_of("model:Net")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("model.py", "WIDTH = 8", "WIDTH = 9"),
        ("model.py", "return WIDTH", "return 0 * WIDTH"),
        ("helpers.py", "2 * x", "3 * x"),
        ("late.py", "3", "4"),
        ("drawn.py", "lines = 4", "lines = 5"),
        ("parts/layers.py", "level * x", "level + x"),
        ("parts/deep.py", "+= 1", "+= 2"),
    ],
)
def test_a_change_of_what_is_computed_is_one_of_its_file(folder, file, old, new):
    before = code_of("model:Net")

    after = change(folder, file, old, new)

    assert after.digest != before.digest
    assert [name for name in after.files if after.files[name] != before.files[name]] == [file]


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("model.py", "  # a sum", ""),
        ("model.py", "WIDTH = 8", "WIDTH = (\n    8\n)"),
        ("model.py", '    """What it is."""\n', ""),
        ("model.py", "x: int) -> int", "x: float) -> float"),
        ("model.py", "return 1", "return 2"),
        ("helpers.py", "    return x\n", "    return -x\n"),
        ("model.py", '"""A model."""', '"""Another."""\nif __name__ == "__main__":\n    print(Net)'),
    ],
)
def test_comments_formatting_and_what_is_not_used_are_no_change(folder, file, old, new):
    before = code_of("model:Net")

    assert change(folder, file, old, new) == before


def test_the_digest_of_a_definition_and_what_it_uses_is_the_same_for_every_version_of_python(folder):
    """A digest that was written down: records are compared with it for years."""
    assert set(code_of("model:Net").files) == set(FILES)
    assert code_of("model:Net").digest == "ae8cbc332c62ebbf"


def test_the_file_that_is_run_has_the_digest_of_the_module_elsewhere(folder, tmp_path):
    """A worker imports the study file under its own name, maybe from a copy."""
    study = MODEL + "\nfrom recstudy.source import code_of\nif __name__ == '__main__':\n    print(code_of(Net).digest)\n"
    (folder / "study.py").write_text(study)
    copy = tmp_path / "copy"
    for name in ("study.py", *FILES):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text((folder / name).read_text())

    run = [sys.executable, "-c", "from study import Net; from recstudy.source import code_of; print(code_of(Net).digest)"]
    there = subprocess.run(run, cwd=copy, capture_output=True, text=True, check=True).stdout
    here = subprocess.run([sys.executable, folder / "study.py"], capture_output=True, text=True, check=True).stdout

    assert here == there
    assert here.strip() == code_of("model:Net").digest


def test_what_nobody_has_a_file_of_has_no_digest():
    namespace = {"__name__": "prompt"}
    exec("class Net: ...", namespace)

    assert code_of(namespace["Net"]) == Code({})
    assert code_of(namespace["Net"]).digest == ""


def test_a_family_is_its_config_and_its_network_and_a_user_s_follows_ours(folder):
    vitrm = code_of(FAMILIES["vitrm"])
    (folder / "mine.py").write_text("from recstudy.models.networks.layers import Attention\n\nclass Net:\n    part = Attention\n")

    mine = code_of("mine:Net")

    assert {"recstudy/models/classifiers.py", "recstudy/models/networks/vitrm.py", "recstudy/models/networks/layers.py"} <= set(
        vitrm.files
    )
    assert not any(name.startswith(("recstudy/config", "recstudy/data")) for name in vitrm.files)
    assert "recstudy/tasks/captioning/scores.py" in code_of(METRICS["bleu_4"].of).files  # wherever a metric's code lies
    assert set(mine.files) == {"mine.py", "recstudy/models/networks/layers.py"}


def test_what_is_said_to_compute_nothing_is_there():
    """So that no moved module is left out of digests, or counted, in silence."""
    assert [name for name in IDLE if importlib.util.find_spec(name) is None] == []


OURS = [kind for kind in (*FAMILIES.values(), *DATASETS.values()) if kind.__module__.startswith("recstudy.")]  # no other test's


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_everything_of_ours_has_a_digest(kind):
    file = Path(importlib.util.find_spec(kind.__module__).origin).relative_to(ROOT).as_posix()

    assert file in code_of(kind).files


@pytest.mark.parametrize("content", ["5", "[]", "null", "{torn", '{"by": 5}'])
def test_digests_that_were_kept_and_are_damaged_are_computed_again(tmp_path, monkeypatch, content):
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path))
    (tmp_path / "code.json").write_text(content)

    assert _Files()._kept() == {}


def test_digests_cost_less_than_50_ms_a_command(tmp_path, monkeypatch):
    """Of all that computes a run, in a new process, where nothing was edited since the last one."""
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path))
    script = """
import time
from recstudy.config import RunConfig
from recstudy.models import ViTRM
from recstudy.data import Digits
from recstudy.train.code import codes
run = RunConfig(model=ViTRM(patch=2), data=Digits())
began = time.process_time()
codes(run)
print(time.process_time() - began)
"""
    taken = [float(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout) for _ in range(4)]

    assert min(taken[1:]) < 0.05, taken
