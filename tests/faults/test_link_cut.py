"""Two hosts, each a network namespace with its own address, host name and temporary folder; the link between them is cut."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny
from ray_nodes import TOKEN, started
from two_hosts import HEAD, IMPATIENT, NoNetworkError, link, node, on, two_hosts

EPOCHS = 200


@pytest.fixture
def hosts() -> Iterator[None]:
    try:
        with two_hosts():
            yield
    except NoNetworkError as why:
        pytest.skip(str(why))


@pytest.fixture
def short() -> Iterator[str]:
    """A folder with a short name: that of a socket in it may have 107 letters."""
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        yield folder


def begun_on(host: str, results: Path) -> int:
    """How many runs have an attempt there that has told of epochs."""
    begun = [log for log in results.glob("runs/*/attempts.jsonl") if f'"host": "{host}"' in log.read_text()]
    return sum((log.parent / "epochs.jsonl").exists() for log in begun)


@pytest.mark.fault
def test_runs_on_a_host_that_is_cut_off_move_and_finish_once(hosts, tmp_path, short):
    results, environment = tmp_path / "results", {**TOKEN, **IMPATIENT}
    command = [sys.executable, tiny.__file__, "--results", str(results), "--address", HEAD]
    chosen = ["--only", "latent_steps=1*", "--only", "latent_steps=2*", "--set", f"train.epochs={EPOCHS}"]
    with (
        started(tmp_path / "1.log", *node(1, short, cpus=1), inside=on(1), environment=environment),
        started(tmp_path / "2.log", *node(2, short, cpus=2), inside=on(2), environment=environment),
        subprocess.Popen(on(1, *command, *chosen), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as driver,
    ):
        deadline = time.monotonic() + 600
        while begun_on("host2", results) < 2:
            assert time.monotonic() < deadline, "no two runs begin on the other host"
            time.sleep(0.05)
        link("down")
        moving = {log.parent.name for log in results.glob("runs/*/attempts.jsonl") if "host2" in log.read_text()}
        finished = set(results.glob("runs/*/result.json"))
        output, _ = driver.communicate(timeout=900)

    assert not finished
    assert driver.returncode == 0, output.decode()
    assert len(list(results.glob("runs/*/result.json"))) == 4
    assert output.decode().count(": top-1 ") == 4  # each is said to end once
    for run in results.glob("runs/*"):
        epochs = [json.loads(line)["epoch"] for line in (run / "epochs.jsonl").read_text().splitlines()]
        assert epochs == list(range(EPOCHS))
        hosts_of_it = [json.loads(line)["host"] for line in (run / "attempts.jsonl").read_text().splitlines()]
        assert hosts_of_it[-1] == "host1" if run.name in moving else set(hosts_of_it) == {"host1"}
