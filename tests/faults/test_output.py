"""Nowhere to print to, no letters but ASCII's, no home: a study's runs are made all the same, and its report."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny

import recstudy

pytestmark = pytest.mark.fault
STUDY = [sys.executable, tiny.__file__, "--smoke", "--only", "latent_steps=1*"]
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
HOMELESS = """
import pwd

def nobody(number):
    raise KeyError(f"getpwuid(): uid not found: {number}")

pwd.getpwuid = nobody
"""


@pytest.mark.parametrize("where", [">/dev/full 2>&1", "| true"])
def test_two_of_two_runs_wherever_the_output_goes(tmp_path, where):
    command = f'("$@" --no-ray; echo $? >code) {where}'
    subprocess.run(["bash", "-c", command, "bash", *STUDY], cwd=tmp_path, env=os.environ | ASCII, check=False)

    assert (tmp_path / "code").read_text() == "0\n"
    assert len(list(tmp_path.glob("results/runs/*/result.json"))) == 2
    assert list(tmp_path.glob("results/studies/tiny/*/report/report.html"))


def test_an_account_without_a_home_has_its_runs(tmp_path):
    """As in a container under a number: no HOME, and no entry in passwd, for any of its processes."""
    (tmp_path / "sitecustomize.py").write_text(HOMELESS)
    kept = {name: value for name, value in os.environ.items() if name not in ("HOME", "USER", "LOGNAME", "RECSTUDY_CACHE")}
    paths = f"{tmp_path}:{Path(recstudy.__file__).parents[1]}"
    environment = kept | ASCII | {"TMPDIR": str(tmp_path), "PYTHONPATH": paths}

    done = subprocess.run(STUDY, cwd=tmp_path, env=environment, capture_output=True, check=False)

    assert done.returncode == 0, done.stderr.decode()
    assert len(list(tmp_path.glob("results/runs/*/result.json"))) == 2
    assert (tmp_path / f".recstudy-cache-{os.getuid()}").is_dir()
    assert not list(tmp_path.glob("~*"))
