"""Every study of the project as a user would type it: the whole path with --smoke, and each preset's plan."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from recstudy.study.study import Study, make_plan

STUDIES = sorted(Path(__file__).parents[2].glob("studies/*_*.py"))


def load(path: Path) -> Study:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.study


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_smoke(path, tmp_path):
    done = subprocess.run(
        [sys.executable, str(path), "--smoke"], cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    study = load(path)
    folder = tmp_path / f"results/studies/{study.name}/{next(iter(study.presets))}-smoke"
    assert "smoke run: 2 epochs on 32 images; the numbers mean nothing" in (folder / "report/report.html").read_text()
    results = [json.loads(file.read_text()) for file in tmp_path.glob("results/runs/*/result.json")]
    assert len(results) == len({run.id for run in make_plan(study, smoke=True).runs})
    assert {result["status"] for result in results} == {"done"}


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_preset_makes_a_plan(path):
    study = load(path)
    for preset in study.presets:
        plan = make_plan(study, preset)
        assert plan.runs
        assert study.by_preset(study.report, preset)


def test_synthetic_data_is_called_so_everywhere(tmp_path):
    """The chest X-ray study's quick preset is on drawn images: plan, records, table files and the page say it."""
    path = next(path for path in STUDIES if path.stem == "hrm_chest_xray")
    command = [sys.executable, str(path), "--smoke", "--only", "model=HRM, halves", "--set", "train.epochs=1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    assert "synthetic" in done.stdout, done.stdout + done.stderr
    folder = tmp_path / "results/studies/hrm_chest_xray/quick-smoke"
    for file in (
        "plan.json",
        "report/report.html",
        "report/tables/models.md",
        "report/tables/models.tex",
        "report/tables/models.csv",
    ):
        assert "synthetic" in (folder / file).read_text(), file
    (result,) = (json.loads(file.read_text()) for file in tmp_path.glob("results/runs/*/result.json"))
    assert result["provenance"]["synthetic"] is True
