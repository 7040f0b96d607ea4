"""A study that is submitted from outside of its cluster, as a job of Ray's: the head node drives it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray_nodes import RAY, TOKEN, free_port, head_of, started
from shell import TINY

pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory) -> Iterator[str]:
    """Where jobs are submitted to a cluster of one node with one core, which asks for a token."""
    port, door = free_port(), free_port()
    subprocess.run([RAY, "get-auth-token", "--generate"], capture_output=True, check=True)
    with started(tmp_path_factory.mktemp("head") / "log", "--num-cpus=1", *head_of(port, door), port=port):
        yield f"http://127.0.0.1:{door}"


def submitted(dashboard: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The study in this folder, as a job."""
    environment = json.dumps({"env_vars": {"RECSTUDY_COMMIT": "0123abc"}})
    study = [sys.executable, TINY.name, "--address", "auto", "--results", str(folder / "results"), *arguments]
    command = [RAY, "job", "submit", "--address", dashboard, "--working-dir", str(folder / "mine")]
    command += ["--runtime-env-json", environment, "--", *study]
    return subprocess.run(command, env={**os.environ, **TOKEN}, capture_output=True, text=True, timeout=900, check=False)


def test_a_study_runs_as_a_job(dashboard, tmp_path):
    (tmp_path / "mine").mkdir()
    shutil.copy(TINY, tmp_path / "mine")

    job = submitted(dashboard, tmp_path, "--only", "latent_steps=1, supervision_steps=1")

    assert job.returncode == 0, job.stdout + job.stderr
    assert "1 run: 0 finished before, 1 to run" in job.stdout
    assert (tmp_path / "results/studies/tiny/quick/report/report.html").exists()
    made = [json.loads(file.read_text())["provenance"]["commit"] for file in tmp_path.glob("results/runs/*/result.json")]
    assert made == ["0123abc"]

    refused = submitted(dashboard, tmp_path, "--gpus-per-run", "8")
    assert refused.returncode == 1
    assert "ClusterError: a run needs 1 x (1 CPU, 8 GPU) but the cluster has 1 node: 1 CPU, 0 GPU. " in refused.stdout
