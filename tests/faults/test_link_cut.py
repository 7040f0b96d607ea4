"""Two hosts, each a network namespace with its own address, host name and temporary folder; the link between them is cut."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny
from ray_nodes import TOKEN, started

# Ray notices a silent node in 6 s and a node its silent head in 10 s, instead of a minute each.
IMPATIENT = {
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
}
NAMES = {1: f"recstudy-{os.getpid()}-a", 2: f"recstudy-{os.getpid()}-b"}
EPOCHS = 200


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def on(host: int, *command: str) -> list[str]:
    """`command`, on one of the two hosts."""
    named = ["unshare", "--uts", "sh", "-c", f'hostname host{host} && exec "$@"', "sh"]
    return ["ip", "netns", "exec", NAMES[host], *named, *command]


@pytest.fixture
def hosts() -> Iterator[None]:
    if os.geteuid() or not shutil.which("ip") or not shutil.which("unshare"):
        pytest.skip("network namespaces need root, ip and unshare")
    try:
        for name in NAMES.values():
            ip("netns", "add", name)
        ip("link", "add", "link1", "netns", NAMES[1], "type", "veth", "peer", "name", "link2", "netns", NAMES[2])
        for host, name in NAMES.items():
            ip("-n", name, "addr", "add", f"10.77.0.{host}/24", "dev", f"link{host}")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", f"link{host}", "up")
        yield
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this machine lets us make no network: {error.stderr.decode().strip()}")
    finally:
        for name in NAMES.values():
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


@pytest.fixture
def short() -> Iterator[str]:
    """A folder with a short name: that of a socket in it may have 107 letters."""
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        yield folder


def begun_on(host: str, results: Path) -> int:
    """How many runs have an attempt there that has told of epochs."""
    begun = [log for log in results.glob("runs/*/attempts.jsonl") if f'"host": "{host}"' in log.read_text()]
    return sum((log.parent / "epochs.jsonl").exists() for log in begun)


@pytest.mark.slow
@pytest.mark.timeout(900)  # 3 minutes here, most of them until Ray gives the other host up
def test_runs_on_a_host_that_is_cut_off_move_and_finish_once(hosts, tmp_path, short):
    head = ["--head", "--node-ip-address=10.77.0.1", "--port=6379", "--num-cpus=1", "--dashboard-port=0"]
    joins = ["--address=10.77.0.1:6379", "--node-ip-address=10.77.0.2", "--num-cpus=2"]
    results, environment = tmp_path / "results", {**TOKEN, **IMPATIENT}
    command = [sys.executable, tiny.__file__, "--results", str(results), "--address", "10.77.0.1:6379"]
    chosen = ["--only", "latent_steps=1*", "--only", "latent_steps=2*", "--set", f"train.epochs={EPOCHS}"]
    with (
        started(tmp_path / "1.log", *head, f"--temp-dir={short}/1", inside=on(1), environment=environment),
        started(tmp_path / "2.log", *joins, f"--temp-dir={short}/2", inside=on(2), environment=environment),
        subprocess.Popen(on(1, *command, *chosen), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as driver,
    ):
        deadline = time.monotonic() + 200
        while begun_on("host2", results) < 2:
            assert time.monotonic() < deadline, "no two runs begin on the other host"
            time.sleep(0.05)
        ip("-n", NAMES[2], "link", "set", "link2", "down")
        moving = {log.parent.name for log in results.glob("runs/*/attempts.jsonl") if "host2" in log.read_text()}
        finished = set(results.glob("runs/*/result.json"))
        output, _ = driver.communicate(timeout=400)

    assert not finished
    assert driver.returncode == 0, output.decode()
    assert len(list(results.glob("runs/*/result.json"))) == 4
    assert output.decode().count("top-1 ") == 4  # each is said to end once
    for run in results.glob("runs/*"):
        epochs = [json.loads(line)["epoch"] for line in (run / "epochs.jsonl").read_text().splitlines()]
        assert epochs == list(range(EPOCHS))
        hosts_of_it = [json.loads(line)["host"] for line in (run / "attempts.jsonl").read_text().splitlines()]
        assert hosts_of_it[-1] == "host1" if run.name in moving else set(hosts_of_it) == {"host1"}
