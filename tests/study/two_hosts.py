"""Two hosts on this machine, each a network namespace with its own address and host name, and the link
between them.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

# Ray notices a silent node in 6 s and a node its silent head in 10 s, instead of a minute each.
IMPATIENT = {
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
}
NAMES = {1: f"recstudy-{os.getpid()}-a", 2: f"recstudy-{os.getpid()}-b"}
HEAD = "10.77.0.1:6379"


@contextmanager
def two_hosts() -> Iterator[None]:
    """Make both, which needs root, `ip` and `unshare`."""
    try:
        for name in NAMES.values():
            ip("netns", "add", name)
        ip(
            "link",
            "add",
            "link1",
            "netns",
            NAMES[1],
            "type",
            "veth",
            "peer",
            "name",
            "link2",
            "netns",
            NAMES[2],
        )
        for host, name in NAMES.items():
            ip("-n", name, "addr", "add", f"10.77.0.{host}/24", "dev", f"link{host}")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", f"link{host}", "up")
        yield
    finally:
        for name in NAMES.values():
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def link(state: str) -> None:
    """The second host's end of it: up or down."""
    ip("-n", NAMES[2], "link", "set", "link2", state)


def on(host: int, *command: str) -> list[str]:
    """`command`, on one of the two hosts."""
    renamed_shell = ["unshare", "--uts", "sh", "-c", f'hostname host{host} && exec "$@"', "sh"]
    return ["ip", "netns", "exec", NAMES[host], *renamed_shell, *command]


def node(host: int, folder: str, cpus: int) -> list[str]:
    """The arguments of `ray start` there: the first host is the head. A socket's path may have 107
    letters.
    """
    kind = ["--head", "--port=6379", "--dashboard-port=0"] if host == 1 else [f"--address={HEAD}"]
    return [*kind, f"--node-ip-address=10.77.0.{host}", f"--num-cpus={cpus}", f"--temp-dir={folder}/{host}"]
