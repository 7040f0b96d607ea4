"""The wheel and the sdist as a release builds them, and the wheel in an environment of its own: its command, its
studies, what `recstudy new` writes, and its base install.
"""

import email
import os
import re
import resource
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
    """Built from the sdist, which lies beside it."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
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


def test_an_index_takes_the_wheel_and_the_sdist_and_shows_readme_with_absolute_links(wheel):
    files = map(str, wheel.parent.glob("recstudy-*"))
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout.count("PASSED")) == (0, 2), checked.stdout

    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if re.fullmatch(r"recstudy-[^/]*/METADATA", name)]
        metadata = email.message_from_bytes(archive.read(name))
    page = metadata.get_payload()
    links = re.findall(r"\]\((.*?)\)", page) + re.findall(r'src="(.*?)"', page)
    assert len(links) > 30
    assert all(link.startswith("https://") for link in links)
    version, repository = (
        metadata["Version"],
        dict(url.split(", ") for url in metadata.get_all("Project-URL"))["Repository"],
    )
    assert f'src="{repository}/raw/v{version}/docs/pictures/judge.png"' in page
    assert f"]({repository}/blob/v{version}/docs/how-to/judge.md)" in page
    assert metadata["Keywords"]
    assert "Operating System :: POSIX :: Linux" in metadata.get_all("Classifier")


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


def cpu_seconds() -> float:
    """Those of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.whole
def test_the_base_install_reads_studies_and_runs_functions_without_torch_and_ray(wheel, tmp_path):
    base, start_seconds = wheel.parent / "base", cpu_seconds()
    subprocess.run([sys.executable, "-m", "venv", str(base)], check=True)
    subprocess.run([*PIP, "--python", str(base / "bin/python"), "install", str(wheel)], check=True)
    run(base / "bin", tmp_path, "recstudy", "new", "my_function")
    first_result = run(base / "bin", tmp_path, "python", "my_function.py", "--no-ray")
    assert "Supported: 500 examples are better" in first_result
    assert (tmp_path / first_result.split("Report: ")[1].strip()).exists()
    assert (
        cpu_seconds() - start_seconds < 60
    )  # from the wheel to the first page; wall time is that of a busy machine
    (tmp_path / "results").rename(tmp_path / "first_results")
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
