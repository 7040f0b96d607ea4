"""The address of a cluster to join: whether one answers there, and whether it asks for a token."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import ray

from recstudy.errors import ClusterError, ConfigError

ANSWER_S = 60  # an address that is silent for so long is refused: one that idles answers in 2 to 4 s
QUIET_S = 10  # without an answer, before it is said that there is none yet
MODE = "RAY_AUTH_MODE"  # `token` or `disabled`: whether this process shows a token, and asks for one
# Ends with 3 on a machine that is none of the cluster's nodes, whose sockets a driver looks for.
IS_NODE = """
import os, sys, ray
nodes = ray._raylet.GcsClient(address=sys.argv[1]).get_all_node_info().values()
sys.exit(0 if any(os.path.exists(node.raylet_socket_name) for node in nodes) else 3)
"""

Told = Callable[[str, float], None]


def check_address(address: str | None, on_silence: Told) -> None:
    """Refuse an address where no cluster answers, instead of waiting for one, and before anything is written.

    From then on this process speaks as the cluster does, with the user's token or without one. Who shows a token asks for one
    too, so that a cluster without any would run our tasks, but no actor (Ray 2.60).

    Args:
        address: to join; None starts a cluster on this machine.
        on_silence: called, with the address and how many seconds it is given in all, where it takes long to answer.

    Raises:
        ConfigError, ClusterError: it is no address, nobody answers, or `RAY_AUTH_MODE` is set to what the cluster does not speak.
    """
    if address is None:
        return
    if address != "auto":
        _listens(address)
    given = os.environ.get(MODE, "").lower()
    asks = _refuses(address, "disabled", on_silence)
    if asks and given == "disabled":
        raise ClusterError(f"the Ray cluster at {address} asks for a token, but {MODE}=disabled is set here. Set {MODE}=token.")
    if asks and _refuses(address, "token", on_silence):
        raise ClusterError(no_cluster(address, "it asks for a token, and ours is missing or wrong"))
    if given == "token" and not asks:
        raise ClusterError(
            f"the Ray cluster at {address} asks for no token, but {MODE}=token is set here, with which no run would start. "
            f"Set {MODE}=disabled, or start the cluster with {MODE}=token."
        )
    os.environ[MODE] = "token" if asks else "disabled"
    ray._raylet.Config.initialize("")  # Ray has read the variable when it was imported


def no_cluster(address: str | None, why: str) -> str:
    return (
        f"no Ray cluster answers at {address or 'this machine'} ({why}). Start one with `ray start --head`, give it the token "
        "of `ray get-auth-token` if it asks for one, or leave --address out to run on this machine."
    )


def _refuses(address: str, mode: str, on_silence: Told) -> bool:
    """Whether the cluster turns away who speaks so.

    Raises:
        ClusterError: it does not answer, or cannot be joined for another reason.
    """
    command = [sys.executable, "-c", "import ray, sys; ray.init(sys.argv[1], log_to_driver=False)", address]
    with TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        environment = os.environ | {MODE: mode}
        with open(said, "wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as attempt:
            try:
                code = _ended(attempt, said, QUIET_S)
                if code is None and not _refused(said):
                    _check_node(address, environment)
                    on_silence(address, ANSWER_S)
                    code = _ended(attempt, said, ANSWER_S - QUIET_S)
            finally:
                attempt.kill()
        refused, lines = _refused(said), said.read_text(errors="replace").strip().splitlines() or ["no reason given"]
    if code is None and not refused:
        raise ClusterError(no_cluster(address, f"tried to join for {ANSWER_S} s"))
    if code and not refused:
        raise ClusterError(no_cluster(address, lines[-1]))
    return refused


def _check_node(address: str, environment: dict[str, str]) -> None:
    """Refuse a machine that is no node of the cluster, where Ray (2.60) would wait without a word."""
    command = [sys.executable, "-c", IS_NODE, address]
    with suppress(subprocess.TimeoutExpired):  # nobody answers
        asked = subprocess.run(command, env=environment, capture_output=True, timeout=QUIET_S, check=False)
        if asked.returncode == 3:
            raise ClusterError(
                f"this machine is no node of the Ray cluster at {address}. `ray start --address={address} --num-cpus=0` makes it "
                "one on which no run is placed; or submit a job (docs/how-to/cluster.md)."
            )


def _ended(attempt: subprocess.Popen[bytes], said: Path, patience: float) -> int | None:
    """Its exit code; None where it goes on after so many seconds, or after it was refused, which Ray tries again without end."""
    deadline = time.monotonic() + patience
    while (code := attempt.poll()) is None and time.monotonic() < deadline and not _refused(said):
        time.sleep(0.1)
    return code


def _refused(said: Path) -> bool:
    text = said.read_text(errors="replace")
    return "Unauthenticated" in text or "AuthenticationError" in text


def _listens(address: str) -> None:
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if address.startswith("ray://"):
        raise ConfigError(
            f"--address {address}: a study is driven from within its cluster. From outside, submit it as a job: "
            f"ssh -fNL 8265:127.0.0.1:8265 {host or 'HOST'} && "
            "ray job submit --address http://127.0.0.1:8265 --working-dir . -- python STUDY.py --address auto"
        )
    if not host or not port:
        raise ConfigError(f"--address must be auto or HOST:PORT, but got {address!r}")
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError as error:
        raise ClusterError(no_cluster(address, f"TCP connection to {host}:{port}: {error}")) from None
