"""The wheel, installed into an environment of its own: its command, its studies, and what `recstudy new` writes."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from recstudy.shipped import shipped

ROOT = Path(__file__).parents[1]
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([*build, str(ROOT)], check=True)
    (wheel,) = folder.glob("recstudy-*.whl")
    return wheel


@pytest.fixture(scope="module")
def programs(wheel) -> Path:
    """Those of an environment with the wheel; what recstudy needs it finds here, but not the recstudy that is installed here."""
    environment = wheel.parent / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    install = ["--python", str(environment / "bin/python"), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*PIP, *install], check=True)
    (packages,) = environment.glob("lib/*/site-packages")
    # it comes last, and its own .pth files, such as that of a recstudy in a checkout, are not read
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib"))
    return environment / "bin"


def run(programs: Path, folder: Path, name: str, *words: str) -> str:
    environment = {variable: value for variable, value in os.environ.items() if variable != "PYTHONPATH"}
    return subprocess.run(
        [str(programs / name), *words], cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_it_holds_the_package_and_its_studies_and_nothing_else(wheel):
    names = [Path(name) for name in zipfile.ZipFile(wheel).namelist()]

    assert {name.parts[0].partition("-")[0] for name in names} == {"recstudy"}
    studies = {name.name for name in names if name.parent.name == "studies"}
    assert studies == {file.name for file in shipped().values()}
    assert {"py.typed", "starter.txt", "papers"} <= {name.parts[1] for name in names}


@pytest.mark.whole
def test_its_studies_and_one_that_it_writes_run_in_an_empty_folder(programs, tmp_path):
    """A study says how it goes on by its name, because nobody has its file."""
    where = run(programs, tmp_path, "python", "-c", "import recstudy; print(recstudy.__file__)")
    assert Path(where).is_relative_to(programs.parent)
    listed = run(programs, tmp_path, "recstudy", "studies")
    assert all(name in listed for name in shipped())

    few = ("--smoke", "--no-ray", "--only", "latent_steps=1*", "--seeds", "1")
    output = run(programs, tmp_path, "recstudy", "run", "vitrm_depth_sweep", *few)
    assert "recstudy run vitrm_depth_sweep --smoke" in " ".join(output.split())
    assert list(tmp_path.glob("results/studies/vitrm_depth_sweep/*/report/report.html"))

    run(programs, tmp_path, "recstudy", "new", "mine")
    run(programs, tmp_path, "python", "mine.py", *few[:2])
    assert list(tmp_path.glob("results/studies/mine/*/report/tables/*.md"))
