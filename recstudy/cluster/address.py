"""Check in a separate process whether a cluster can be joined, and whether it requires a token.

Ray reads the token mode when it is imported, so this module does not import Ray.
"""

import os
import socket
import subprocess
import sys
import threading

from recstudy.base.errors import ClusterError, ConfigError

ANSWER_S = 60  # time limit for an answer; an idle cluster answers in 2 to 4 s
MODE = "RAY_AUTH_MODE"  # `token` or `disabled`: whether this process sends a token and requires one


def check_address(address: str | None) -> None:
    """Check that the cluster can be joined, and set this process to its token mode.

    A process that sends a token also requires one. A cluster without tokens would then run its tasks but no
    actors (Ray 2.60).

    Args:
        address: The cluster to join; None if a cluster is started on this machine.

    Raises:
        ConfigError: The address is invalid.
        ClusterError: The cluster does not answer, or `RAY_AUTH_MODE` is not its mode.
    """
    if address is None:
        return
    if address.startswith("ray://"):
        raise ConfigError(
            f"--address {address}: the driver must run inside the cluster. From outside, submit a job:"
            f" ssh -fNL 8265:127.0.0.1:8265 {address.removeprefix('ray://').partition(':')[0] or 'HOST'}"
            " && ray job submit --address http://127.0.0.1:8265 --working-dir . -- python STUDY.py --address"
            " auto"
        )
    if address != "auto":
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(f"--address must be auto or HOST:PORT, but got {address!r}")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
        except (OSError, OverflowError) as error:
            raise ClusterError(no_cluster(address, f"TCP connection to {host}:{port}: {error}")) from None
    own_mode = os.environ.get(MODE, "").lower()
    needs_token = _refuses(address, "disabled")
    if needs_token and own_mode == "disabled":
        raise ClusterError(
            f"The Ray cluster at {address} requires a token, but {MODE}=disabled is set. Set {MODE}=token."
        )
    if needs_token and _refuses(address, "token"):
        raise ClusterError(no_cluster(address, "it requires a token, and yours is missing or wrong"))
    if own_mode == "token" and not needs_token:
        raise ClusterError(
            f"The Ray cluster at {address} uses no token, but {MODE}=token is set, so no run would start. Set"
            f" {MODE}=disabled, or start the cluster with {MODE}=token."
        )
    if needs_token and not own_mode and "ray" in sys.modules:
        raise ClusterError(
            f"The Ray cluster at {address} requires a token, but Ray was already imported without one. Set"
            f" {MODE}=token before Python starts."
        )
    os.environ[MODE] = "token" if needs_token else "disabled"


def no_cluster(address: str | None, reason: str) -> str:
    return (
        f"No Ray cluster answers at {address or 'this machine'} ({reason}). Start one with `ray start"
        " --head`, set the token (`ray get-auth-token`) if required, or remove --address to run on this"
        " machine."
    )


def _refuses(address: str, mode: str) -> bool:
    """Try to join in a separate process, and return whether the cluster refuses this token mode.

    Raises:
        ClusterError: The cluster does not answer, or it cannot be joined for another reason.
    """
    join = [sys.executable, "-c", "import ray, sys; ray.init(sys.argv[1], log_to_driver=False)", address]
    environment = os.environ | {MODE: mode}
    with subprocess.Popen(
        join, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, encoding="utf-8"
    ) as attempt:
        timer = threading.Timer(ANSWER_S, attempt.kill)
        timer.start()
        line, refused = "no reason given", False
        for line in attempt.stdout or ():
            if "Unauthenticated" in line or "AuthenticationError" in line:  # Ray retries forever
                refused = True
                attempt.kill()
        silent = timer.finished.is_set()
        timer.cancel()
    if refused:
        return True
    if silent:
        start = f"`ray start --address={address} --num-cpus=0`"
        reason = (
            f"no answer for {ANSWER_S} s; if this machine is not a node of the cluster, add it by {start}:"
            " docs/how-to/cluster.md"
        )
        raise ClusterError(no_cluster(address, reason))
    if attempt.returncode:
        raise ClusterError(no_cluster(address, line.strip()))
    return False
