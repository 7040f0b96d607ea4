"""The wheel, installed into an environment of its own: its command, its studies, what `recstudy new` writes,
and its base install.
"""

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import distributions
from pathlib import Path
from urllib.request import urlopen

import pytest

from recstudy.study.shipped import shipped

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
    """Those of an environment with the wheel; what recstudy needs it finds here, but not the recstudy that is
    installed here.
    """
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
        [str(programs / name), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_wheel_holds_only_the_package_and_its_studies(wheel):
    names = [Path(name) for name in zipfile.ZipFile(wheel).namelist()]

    assert {name.parts[0].partition("-")[0] for name in names} == {"recstudy"}
    studies = {name.name for name in names if name.parent.name == "studies"}
    assert studies == {file.name for file in shipped().values()}
    assert {"py.typed", "cli", "recursive"} <= {name.parts[1] for name in names}
    assert {"model.txt", "index.yaml"} <= {name.name for name in names}


@pytest.mark.whole
def test_shipped_and_new_studies_run_in_an_empty_folder(programs, tmp_path):
    """A study says how it goes on by its name, because nobody has its file."""
    module_path = run(programs, tmp_path, "python", "-c", "import recstudy; print(recstudy.__file__)")
    assert Path(module_path).is_relative_to(programs.parent)
    listed = run(programs, tmp_path, "recstudy", "studies")
    assert all(name in listed for name in shipped())

    options = ("--smoke", "--no-ray", "--only", "latent_steps=1*", "--seeds", "1")
    run(programs, tmp_path, "recstudy", "run", "vitrm_depth_sweep", *options)
    (page,) = tmp_path.glob("results/studies/vitrm_depth_sweep/*/report/report.html")
    assert "recstudy run vitrm_depth_sweep --smoke" in page.read_text()

    run(programs, tmp_path, "recstudy", "new", "mine", "--model")
    run(programs, tmp_path, "python", "mine.py", *options[:2])
    assert list(tmp_path.glob("results/studies/mine/*/report/tables/*.md"))


RECURSIVE = """
from recstudy import Claim, main
from recstudy.report import Table
from recstudy.recursive.testing import tiny_run
from recstudy.study.testing import tiny_study

claim = Claim("two steps help", lower={"latent_steps": 1}, higher={"latent_steps": 2}, margin=0.5)
study = tiny_study(base=tiny_run(epochs=1), seeds=2, claims=[claim], report=[Table("depths", metrics=("top1_accuracy",))])
if __name__ == "__main__":
    main(study)
"""
FUNCTION = """
from recstudy import Metric, Study, grid, main

def train(run):
    return {"accuracy": 80.0 + 3 * run.settings["depth"] + run.seed}

study = Study("depth", program=train, settings={"depth": 2}, metrics={"accuracy": Metric("%")}, variants=grid({"depth": [1, 2]}))
if __name__ == "__main__":
    main(study)
"""


def size(packages: Path) -> int:
    """Bytes of the installed packages, without pip and without the bytecode that Python writes of them."""
    files = [
        file
        for distribution in distributions(path=[str(packages)])
        if distribution.name not in ("pip", "setuptools")
        for file in distribution.files
    ]
    return sum(Path(file.locate()).stat().st_size for file in files if file.suffix != ".pyc")


@pytest.mark.whole
def test_the_base_install_reads_studies_and_runs_functions_without_torch_and_ray(wheel, tmp_path):
    base = wheel.parent / "base"
    subprocess.run([sys.executable, "-m", "venv", str(base)], check=True)
    subprocess.run([*PIP, "--python", str(base / "bin/python"), "install", str(wheel)], check=True)
    (packages,) = base.glob("lib/*/site-packages")
    assert size(packages) < 400e6
    assert not [
        name for name in ("torch", "ray", "optuna", "sklearn", "pyarrow") if (packages / name).exists()
    ]

    (tmp_path / "tiny.py").write_text(RECURSIVE)
    subprocess.run([sys.executable, "tiny.py", "--no-ray"], cwd=tmp_path, check=True, capture_output=True)
    publish = "from recstudy.cli import main; main(['publish', 'results', 'bundle'])"
    subprocess.run([sys.executable, "-c", publish], cwd=tmp_path, check=True, capture_output=True)

    assert "Report: results" in run(base / "bin", tmp_path, "recstudy", "report", "results", "--trust")
    assert "2 latent steps" in run(base / "bin", tmp_path, "recstudy", "explain", "depths:2:1", "results")
    assert "tiny (quick): " in run(base / "bin", tmp_path, "recstudy", "audit", "results")
    assert "Nothing differs" in run(base / "bin", tmp_path, "recstudy", "verify", "bundle.zip")
    with subprocess.Popen(
        [base / "bin/recstudy", "board", "results", "--port", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as board:
        address = re.search(r"http\S+", board.stdout.readline()).group()
        with urlopen(f"{address}/study/tiny/quick") as page:
            assert b"two steps help" in page.read()
        board.terminate()

    (tmp_path / "sweep.csv").write_text("depth,seed,accuracy\n1,0,80.5\n1,1,80.9\n2,0,90.5\n2,1,91.1\n")
    assert "Report: " in run(base / "bin", tmp_path, "recstudy", "judge", "sweep.csv")

    (tmp_path / "depth.py").write_text(FUNCTION)
    assert "6 to run" in run(base / "bin", tmp_path, "python", "depth.py", "--no-ray", "--seeds", "3")
    for words, package in (
        (["depth.py", "--seeds", "4"], "ray"),
        (["tiny.py", "--no-ray", "--seeds", "3"], "scikit-learn"),
    ):
        process = subprocess.run([base / "bin/python", *words], cwd=tmp_path, capture_output=True, text=True)
        line = f'{package} is not installed. In the clone of recstudy: pip install ".[train]"'
        line += ". Without Ray: --no-ray (in Python: ray=False)\n" if package == "ray" else "\n"
        assert (process.returncode, process.stderr) == (2, line)
