"""Whether an address can be joined, and whether its cluster asks for a token: decided in a process of its
own.

Ray reads the token mode when it is imported, so this module does not import it.
"""

import os
import socket
import subprocess
import sys
import threading

from recstudy.errors import ClusterError, ConfigError

ANSWER_S = 60  # an address that is silent for so long is refused; an idle one answers in 2 to 4 s
MODE = "RAY_AUTH_MODE"  # `token` or `disabled`: whether this process shows a token, and asks for one


def check_address(address: str | None) -> None:
    """Refuse an address that cannot be joined, and take over the cluster's token mode, before anything is
    written.

    A process that shows a token asks for one too, so a cluster without tokens would run its tasks, but no
    actor (Ray 2.60).

    Args:
        address: A cluster to join; None starts one on this machine.

    Raises:
        ConfigError: It is no address.
        ClusterError: Nobody answers, or `RAY_AUTH_MODE` is not the cluster's mode.
    """
    if address is None:
        return
    if address.startswith("ray://"):
        raise ConfigError(
            f"--address {address}: a study is driven from within its cluster. From outside, submit it as a"
            f" job: ssh -fNL 8265:127.0.0.1:8265 {address.removeprefix('ray://').partition(':')[0] or 'HOST'}"
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
    given = os.environ.get(MODE, "").lower()
    asks = _refuses(address, "disabled")
    if asks and given == "disabled":
        raise ClusterError(
            f"the Ray cluster at {address} asks for a token, but {MODE}=disabled is set here. Set"
            f" {MODE}=token."
        )
    if asks and _refuses(address, "token"):
        raise ClusterError(no_cluster(address, "it asks for a token, and ours is missing or wrong"))
    if given == "token" and not asks:
        raise ClusterError(
            f"the Ray cluster at {address} asks for no token, but {MODE}=token is set here, with which no run"
            f" would start. Set {MODE}=disabled, or start the cluster with {MODE}=token."
        )
    if asks and not given and "ray" in sys.modules:
        raise ClusterError(
            f"the Ray cluster at {address} asks for a token, and Ray was imported before that was known. Set"
            f" {MODE}=token before Python starts."
        )
    os.environ[MODE] = "token" if asks else "disabled"


def no_cluster(address: str | None, why: str) -> str:
    return (
        f"no Ray cluster answers at {address or 'this machine'} ({why}). Start one with `ray start --head`,"
        " give it the token of `ray get-auth-token` if it asks for one, or leave --address out to run on"
        " this machine."
    )


def _refuses(address: str, mode: str) -> bool:
    """Join in a process of its own, and return whether the cluster turns away this token mode.

    Raises:
        ClusterError: It does not answer, or cannot be joined for another reason.
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
            if "Unauthenticated" in line or "AuthenticationError" in line:  # Ray tries again without end
                refused = True
                attempt.kill()
        silent = timer.finished.is_set()
        timer.cancel()
    if refused:
        return True
    if silent:
        start = f"`ray start --address={address} --num-cpus=0`"
        why = (
            f"tried to join for {ANSWER_S} s; a machine that is no node of it becomes one by {start}:"
            " docs/how-to/cluster.md"
        )
        raise ClusterError(no_cluster(address, why))
    if attempt.returncode:
        raise ClusterError(no_cluster(address, line.strip()))
    return False
