"""The Ray cluster a study runs on: started here or joined, and asked beforehand whether it can do the work.

Whatever would otherwise end in an endless wait is refused with one line: an address where nobody answers, more GPUs
than there are, a results folder that the other nodes do not see.
"""

import logging
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from recstudy.config import Place
from recstudy.errors import ClusterError, ConfigError, StorageError
from recstudy.terminal import stop_on_sigterm

ANSWER_S = 12  # an address that is silent for so long is refused

# Tune's own tables, loggers and signal handler are ours to do; Train notices a lost worker in a fifth of a second.
SETTINGS = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "0",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@contextmanager
def cluster(address: str | None) -> Iterator[str]:
    """A connection for as long as the block runs; gives a line that says where the dashboard is."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    if address is not None:
        _answers(address)
    local: dict[str, Any] = {} if address else {"include_dashboard": True, "object_store_memory": 256 * 2**20}
    try:
        context = ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": {"RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2", "PYTHONWARNINGS": "ignore"}},
            **local,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ClusterError(_silent(address, str(error).splitlines()[0])) from None
    stop_on_sigterm()
    try:
        yield f"http://{context.dashboard_url}" if context.dashboard_url else ""
    finally:
        ray.shutdown()


def _answers(address: str) -> None:
    """Refuse an address where no cluster answers, instead of waiting for one."""
    if address != "auto":
        _listens(address)
    command = [sys.executable, "-c", "import ray, sys; ray.init(sys.argv[1], log_to_driver=False)", address]
    try:
        tried = subprocess.run(command, timeout=ANSWER_S, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        raise ClusterError(_silent(address, f"tried to join for {ANSWER_S} s")) from None
    if tried.returncode:
        raise ClusterError(_silent(address, (tried.stderr.strip().splitlines() or ["no reason given"])[-1]))


def _listens(address: str) -> None:
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise ConfigError(f"--address must be auto, HOST:PORT or ray://HOST:PORT, but got {address!r}")
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError as error:
        raise ClusterError(_silent(address, f"TCP connection to {host}:{port}: {error}")) from None


def _silent(address: str | None, tried: str) -> str:
    return (
        f"no Ray cluster answers at {address or 'this machine'} ({tried}). Start one with `ray start --head`, give it the token "
        "of `ray get-auth-token` if it asks for one, or leave --address out to run on this machine."
    )


def fitting(place: Place) -> Place:
    """`place` with the GPUs decided, or a ClusterError that says what the cluster has instead."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if place.gpus_per_run is None:
        place = place.model_copy(update={"gpus_per_run": 1.0 if any(node.get("GPU", 0) >= 1 for node in nodes) else 0.0})
    gpus = place.gpus_per_run or 0.0
    rooms = sum(_rooms(node, place.cpus_per_run, gpus) for node in nodes)
    if rooms < place.workers_per_run:
        asked = f"{place.workers_per_run} x ({place.cpus_per_run} CPU, {gpus:g} GPU)"
        has = "; ".join(f"{node.get('CPU', 0):g} CPU, {node.get('GPU', 0):g} GPU" for node in nodes)
        raise ClusterError(
            f"a run needs {asked} but the cluster has {len(nodes)} node{'s' * (len(nodes) > 1)}: {has}. "
            "Lower --gpus-per-run, --cpus-per-run or --workers-per-run."
        )
    return place


def concurrent_runs(place: Place) -> int:
    """How many runs the cluster holds at once."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    rooms = sum(_rooms(node, place.cpus_per_run, place.gpus_per_run or 0.0) for node in nodes)
    return max(1, rooms // place.workers_per_run)


def _rooms(node: dict[str, float], cpus: int, gpus: float) -> int:
    """Workers that fit on a node. Several GPUs a worker must be whole; a fraction shares one."""
    by_cpu = int(node.get("CPU", 0) // cpus)
    if not gpus:
        return by_cpu
    return min(by_cpu, int(node.get("GPU", 0)) * int(1 / gpus) if gpus < 1 else int(node.get("GPU", 0) // gpus))


def check_storage(folder: Path, address: str | None) -> None:
    """Refuse a results folder that some node of the cluster does not see or cannot write."""
    if address is None:  # this machine alone
        return
    nodes = [node for node in ray.nodes() if node["Alive"]]
    token = uuid.uuid4().hex
    probe = folder / f".probe-{token}"
    probe.write_text(token)
    try:
        for node in nodes:
            strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            error = ray.get(_touch.options(scheduling_strategy=strategy).remote(str(probe), token), timeout=60)
            if error:
                raise StorageError(
                    f"node {node['NodeManagerAddress']} cannot use the results folder {folder} ({error}). "
                    "Give a folder that every node shares with --results."
                )
    finally:
        probe.unlink(missing_ok=True)


@ray.remote(num_cpus=0)
def _touch(probe: str, token: str) -> str:
    """Why this node cannot read and write beside `probe`; nothing if it can."""
    try:
        if Path(probe).read_text() != token:
            return "it sees another folder under this name"
        mine = Path(f"{probe}-{os.getpid()}")
        mine.write_text(token)
        mine.unlink()
    except OSError as error:
        return str(error.strerror)
    return ""
