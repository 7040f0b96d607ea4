"""A study on a cluster that is reached through Ray Client: its driver is a task on the head node."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
from ray_nodes import RAY, TOKEN, free_port, started, until_healthy
from shell import until

pytestmark = [pytest.mark.smoke, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def outside(tmp_path_factory) -> Iterator[str]:
    """The address, for those outside, of a Ray cluster of one node with two cores, which has an old recstudy of its own."""
    folder = tmp_path_factory.mktemp("head")
    (folder / "recstudy").mkdir()
    (folder / "recstudy/__init__.py").write_text("raise ImportError('the node has an old recstudy')")
    port, door = free_port(), free_port()
    subprocess.run([RAY, "get-auth-token", "--generate"], capture_output=True, check=True)
    ports = f"--port={port}", f"--ray-client-server-port={door}", "--dashboard-port=0"
    environment = {**TOKEN, "PYTHONPATH": str(folder)}
    with started(folder / "log", "--head", "--num-cpus=2", *ports, environment=environment):
        until_healthy(port)
        yield f"ray://127.0.0.1:{door}"


def test_a_study_from_outside_looks_like_one_from_inside(outside, shell):
    output = shell.run("--address", outside, "--only", "latent_steps=1*")

    assert "2 runs: 0 finished before, 2 to run" in output
    assert output.count("top-1 ") == 2
    assert "Report: results/studies/tiny/quick/report/report.html" in output
    assert shell.attempts() == [1, 1]
    assert f"--address {outside}" in (shell.results / "studies/tiny/quick/plan.json").read_text()


def test_what_the_driver_refuses_there_is_one_line_here(outside, shell):
    errors = shell.run("--address", outside, "--gpus-per-run", "8", code=2)

    line = errors.strip().splitlines()[-1]
    assert line.startswith("ClusterError: a run needs 1 x (1 CPU, 8 GPU) but the cluster has 1 node: 2 CPU, 0 GPU. ")
    assert "Traceback" not in errors


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_stop_here_ends_the_driver_there(outside, shell, sign):
    with shell.start("--address", outside) as client:
        until(shell.records, "a result", 200)
        os.kill(client.pid, sign)
        _, errors = client.communicate(timeout=200)
    kept = shell.records()

    assert client.returncode == 130
    assert errors.splitlines()[-1] == "Stopped. What was finished is kept; the same command goes on from there."
    time.sleep(3)
    assert shell.records() == kept
    shell.run("--address", outside)
    assert all(shell.records()[run] == result for run, result in kept.items())
