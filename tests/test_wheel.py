"""The wheel, unpacked into an environment's packages: it has the studies, and what `recstudy new` writes."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from recstudy.shipped import shipped

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    """A folder of installed packages with the wheel's content."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([*build, str(ROOT)], check=True)
    (wheel,) = folder.glob("recstudy-*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site-packages")
    return folder / "site-packages"


def run(packages: Path, folder: Path, *words: str) -> str:
    start = [] if words[0].endswith(".py") else ["-c", "from recstudy.command import main; main()"]
    environment = os.environ | {"PYTHONPATH": str(packages)}
    return subprocess.run(
        [sys.executable, *start, *words], cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_it_holds_the_package_and_its_studies_and_nothing_else(packages):
    top = {path.name for path in packages.iterdir()}

    assert {name.partition("-")[0] for name in top} == {"recstudy"}
    assert {file.name for file in (packages / "recstudy/studies").iterdir()} == {file.name for file in shipped().values()}
    assert {"py.typed", "starter.txt", "papers"} <= {path.name for path in (packages / "recstudy").iterdir()}


def test_its_studies_are_listed_and_planned_by_name(packages, tmp_path):
    assert all(name in run(packages, tmp_path, "studies") for name in shipped())
    assert run(packages, tmp_path, "run", "vitrm_depth_sweep", "--dry-run").startswith("vitrm_depth_sweep, preset quick: 12 runs")


@pytest.mark.smoke
def test_a_study_of_it_runs_in_an_empty_folder(packages, tmp_path):
    """And says of itself how it goes on: by its name, since nobody has its file."""
    output = run(packages, tmp_path, "run", "vitrm_depth_sweep", "--smoke", "--only", "latent_steps=1*", "--seeds", "1")

    assert "recstudy run vitrm_depth_sweep --smoke" in " ".join(output.split())
    assert list(tmp_path.glob("results/studies/vitrm_depth_sweep/*/report/report.html"))


@pytest.mark.smoke
def test_a_study_that_it_writes_runs(packages, tmp_path):
    run(packages, tmp_path, "new", "mine")
    run(packages, tmp_path, "mine.py", "--smoke")

    assert list(tmp_path.glob("results/studies/mine/*/report/tables/*.md"))
