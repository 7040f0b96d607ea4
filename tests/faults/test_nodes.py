"""Faults 3, 4 and 6: a node that dies, one that is wanted back, and the head node lost with all that ran
there.
"""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ray_nodes import RAY, TOKEN, free_port, head_of, lose, namespace, started
from shell import Shell, processes, until
from twice import curve

pytestmark = pytest.mark.fault

# Ray notices a silent node in 6 s and a driver its silent head in 16 s, before Ray does in 20, instead of a
# minute each.
IMPATIENT = {
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",
}
EPOCHS = 300
FOUR = ("--only", "latent_steps=1*", "--only", "latent_steps=2*", "--set", f"train.epochs={EPOCHS}")


@contextmanager
def head(log: Path, port: int, cpus: int) -> Iterator[subprocess.Popen[bytes]]:
    with started(
        log, f"--num-cpus={cpus}", *head_of(port, free_port()), port=port, environment={**TOKEN, **IMPATIENT}
    ) as node:
        yield node


@contextmanager
def second(log: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A node with two cores and a host name of its own."""
    command = [*namespace("--uts"), "sh", "-c", 'hostname second && exec "$@"', "sh"]
    environment = {**TOKEN, **IMPATIENT}
    with started(
        log, f"--address=127.0.0.1:{port}", "--num-cpus=2", inside=command, environment=environment
    ) as node:
        yield node


def runs_on_second_node(shell: Shell) -> set[str]:
    """The runs under way on the second node that have told of ten epochs."""
    running, finished = shell.running_runs(), shell.records()
    return {
        run
        for run, attempts in shell.lines("attempts.jsonl").items()
        if hosts(attempts)[-1:] == ["second"] and run in running and run not in finished
    }


def hosts(attempts: list[dict]) -> list[str]:
    """Where a run was begun; the other host has the machine's own name."""
    return [
        attempt["host"] if attempt["host"] == "second" else "head"
        for attempt in attempts
        if "started" in attempt
    ]


def drain(address: str) -> None:
    """Announce the end of the node that is not the head, as of a spot machine."""
    script = (
        "import sys, ray; ray.init(sys.argv[1], log_to_driver=False, logging_level='ERROR')\n"
        "print(*(node['NodeID'] for node in ray.nodes() if 'node:__internal_head__' not in node['Resources']))"
    )
    environment = {**os.environ, **TOKEN}
    listed = subprocess.run(
        [sys.executable, "-c", script, address], env=environment, check=True, capture_output=True, text=True
    )
    command = [
        RAY,
        "drain-node",
        f"--node-id={listed.stdout.strip()}",
        f"--address={address}",
        "--reason-message=spot",
    ]
    command += ["--reason=DRAIN_NODE_REASON_PREEMPTION", "--deadline-remaining-seconds=120"]
    subprocess.run(command, env=environment, check=True, timeout=100)


@pytest.mark.parametrize("fault", ["killed", "drained"])
def test_3_4_the_runs_of_a_node_that_goes_move_and_finish_once(shell, tmp_path, fault):
    port = free_port()
    address = f"127.0.0.1:{port}"
    with (
        head(tmp_path / "head.log", port, 1),
        second(tmp_path / "second.log", port) as node,
        shell.start("--address", address, *FOUR) as driver,
    ):
        until(lambda: runs_on_second_node(shell), "a run on the second node")
        moving = runs_on_second_node(shell)
        if fault == "killed":
            (raylet,) = [
                process for process, title in processes(node.pid).items() if "raylet/raylet" in title
            ]
            os.kill(raylet, signal.SIGKILL)
        else:
            drain(address)
        output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 0, output + errors
    results = shell.records()
    assert len(results) == 4
    assert output.count(": top-1 ") == 4  # each is said to end once
    for run, attempts in shell.lines("attempts.jsonl").items():
        assert [epoch for epoch, *_ in curve(shell.results / "runs" / run)] == list(range(EPOCHS))
        were = hosts(attempts)
        assert (
            were == ["second", "head"]
            if run in moving
            else were in (["head"], ["second"], ["second", "head"])
        )
        assert sum(attempt["drained"] for attempt in attempts) == (len(were) - 1 if fault == "drained" else 0)
        assert results[run]["attempts"] == (1 if fault == "drained" else len(were))


@pytest.mark.parametrize("fault", ["killed", "frozen"])
def test_6_new_head_resumes_from_disk_alone(shell, tmp_path, fault):
    port = free_port()
    shell.environment = IMPATIENT
    chosen = ("--address", f"127.0.0.1:{port}")
    with head(tmp_path / "head.log", port, 2) as node, shell.start(*chosen) as driver:
        until(lambda: len(shell.records()) >= 2, "two results")
        if fault == "killed":
            lose(node)
        else:
            (server,) = [
                process for process, title in processes(node.pid).items() if "gcs/gcs_server" in title
            ]
            os.kill(server, signal.SIGSTOP)
        _, errors = driver.communicate(timeout=900)
    assert driver.returncode == 9
    (line,) = errors.splitlines()
    assert line.startswith("ClusterError: the head node of the Ray cluster, ")
    assert line.endswith(
        f"Resume with: python {shell.study.name} --results {shell.place} {shlex.join(chosen)}"
    )
    finished = shell.records()
    assert 2 <= len(finished) < 6

    with head(tmp_path / "head2.log", port, 2):
        shell.run(*chosen)

    assert len(shell.records()) == 6
    assert all(shell.records()[run] == result for run, result in finished.items())
    assert all([epoch for epoch, *_ in curve(run)] == list(range(8)) for run in shell.results.glob("runs/*"))
