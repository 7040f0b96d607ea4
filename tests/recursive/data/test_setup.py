"""`--check-setup` lists what a study needs, and its fix."""

import os
import subprocess
import sys
from pathlib import Path

from test_caption_sets import WHOLE_SETS, lay

from recstudy.recursive import CovCtr

ROOT = Path(__file__).parents[3]


def check_setup(folder: Path) -> tuple[int, str]:
    """Return the exit code and the output for a captioner on COV-CTR, with the files of `folder` only."""
    words = ["studies/micar_datasets.py", "--preset", "paper", "--only", "data=COVCTR, model=ST"]
    words += ["--check-setup", "--data", str(folder), "--results", str(folder / "results")]
    own = {"RECSTUDY_RATESCORE": str(folder / "rate"), "HF_HOME": str(folder / "hub"), "COLUMNS": "200"}
    environment = os.environ | own | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def test_each_missing_file_has_a_fix(tmp_path):
    code, output = check_setup(tmp_path)

    assert code == 2
    assert "docs/data/cov_ctr.md" in output
    assert "hf download timm/resnet101.tv2_in1k" in output
    assert "RaTEScore: see docs/data/tools.md" in output
    assert "MM-Retinal" not in output  # of a variant that is not selected
    assert not (tmp_path / "results").exists()


def test_files_that_are_there_are_ok(tmp_path):
    """The data set, and the files of RaTEScore, whose sizes are summed."""
    lay(tmp_path / "COV-CTR", *WHOLE_SETS[CovCtr])
    for name in ("entities/config.json", "meanings/config.json", "weights.json"):
        (tmp_path / "rate" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "rate" / name).write_bytes(b"x" * 100_000)
    _, output = check_setup(tmp_path)
    rows = {line.split()[0]: line.split()[1:4] for line in output.splitlines() if len(line.split()) > 3}

    assert rows["COV-CTR"][0] == "ok"
    assert rows["RaTEScore"][:3] == ["ok", "0.3", "MB"]
    assert "docs/data/cov_ctr.md" not in output
