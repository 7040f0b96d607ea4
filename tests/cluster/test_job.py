"""A study that is submitted from outside of its cluster, as a job of Ray's: the head node drives it."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from ray_nodes import RAY, TOKEN, free_port, head_of, started
from shell import TINY


@pytest.mark.whole
def test_a_study_runs_as_a_job(tmp_path):
    """On a cluster of one node with one core, which asks for a token."""
    (tmp_path / "mine").mkdir()
    shutil.copy(TINY, tmp_path / "mine")
    port, door = free_port(), free_port()
    study = [sys.executable, TINY.name, "--address", "auto", "--results", str(tmp_path / "results")]
    command = [
        RAY,
        "job",
        "submit",
        "--address",
        f"http://127.0.0.1:{door}",
        "--working-dir",
        str(tmp_path / "mine"),
    ]
    command += ["--runtime-env-json", json.dumps({"env_vars": {"RECSTUDY_COMMIT": "0123abc"}}), "--", *study]
    command += ["--only", "latent_steps=1, supervision_steps=1"]

    with started(tmp_path / "log", "--num-cpus=1", *head_of(port, door), port=port):
        job = subprocess.run(
            command, env={**os.environ, **TOKEN}, capture_output=True, text=True, timeout=900, check=False
        )

    assert job.returncode == 0, job.stdout + job.stderr
    assert "1 run: 0 finished before, 1 to run" in job.stdout
    assert (tmp_path / "results/studies/tiny/quick/report/report.html").exists()
    commits = [
        json.loads(file.read_text())["provenance"]["commit"]
        for file in tmp_path.glob("results/runs/*/result.json")
    ]
    assert commits == ["0123abc"]
