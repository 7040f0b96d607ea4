"""A study that was really trained, with claims, published values and kept answers, and its bundle."""

import shutil
from pathlib import Path

import pytest

import recstudy
from recstudy import Claim
from recstudy.papers import published
from recstudy.publishing.publish import publish
from recstudy.records import Results
from recstudy.recursive.testing import tiny_run
from recstudy.report import Curve, LearningCurves, Table
from recstudy.study.testing import tiny_study


@pytest.fixture(scope="session")
def trained_results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two variants of two seeds, trained in three seconds."""
    root = tmp_path_factory.mktemp("trained") / "results"
    table = root.parent / "paper.csv"  # of these digits, so that the report prints its value
    table.write_text("metric,value,unit,model.latent_steps\ntop1_accuracy,61.9,percent,1\n")
    targets = (*published(table), *published("002_ablation_fig2_fig3"))
    study = tiny_study(
        base=tiny_run(epochs=2),
        seeds=2,
        claims=[
            Claim("two latent steps help", lower={"latent_steps": 1}, higher={"latent_steps": 2}, margin=0.5)
        ],
        report=[
            Table("depths", metrics=("top1_accuracy", "nll", "params"), targets=targets),
            Curve("curve", x="latent_steps", y="top1_accuracy"),
            LearningCurves("learning"),
        ],
    )
    with pytest.MonkeyPatch.context() as patched:
        # the plan keeps the command, which is that of the tests here
        patched.setattr("sys.argv", ["tiny.py"])
        # and what other tests of this process have registered
        patched.setattr("recstudy.plugins.loading.outsiders", list)
        recstudy.run(study, seeds=2, results=root, ray=False)
    return Results(root)


@pytest.fixture(scope="session")
def published_once(trained_results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return its bundle's folder, beside which the zip lies; nobody changes it."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "tiny.py").write_text("study = ...\n")
    bundle_folder = folder / "tiny_bundle"
    study = folder / "tiny.py"
    publish(
        trained_results,
        "tiny",
        "quick",
        bundle_folder,
        study=study,
        authors=("A. Author", "B. Author"),
        licence="CC-BY-4.0",
    )
    return bundle_folder


@pytest.fixture
def bundle(published_once: Path, tmp_path: Path) -> Path:
    """Return a copy of it that a test may change."""
    return Path(shutil.copytree(published_once, tmp_path / "bundle"))


@pytest.fixture(autouse=True)
def _command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans keep the command, which is that of the tests here, and may name one of their files."""
    monkeypatch.setattr("sys.argv", ["tiny.py"])
