"""Ray nodes as `ray start` makes them, in processes of their own."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

RAY = str(Path(sys.executable).with_name("ray"))
ANY_PORTS = ("--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0")
TOKEN = {"RAY_AUTH_MODE": "token"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def head_of(port: int, dashboard: int = 0) -> tuple[str, ...]:
    """Options of `ray start` for a head node that is reached there; of a dashboard without a port nobody
    asks.
    """
    return (
        "--head",
        f"--port={port}",
        f"--dashboard-port={dashboard}",
        f"--ray-client-server-port={free_port()}",
    )


def answers(port: int, timeout_s: float = 180) -> bool:
    """Whether a head node answers whoever has the token."""
    deadline = time.monotonic() + timeout_s
    command = [sys.executable, "-c", f"import ray; ray.init('127.0.0.1:{port}')"]
    while time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            if not subprocess.run(
                command, capture_output=True, check=False, env={**os.environ, **TOKEN}, timeout=90
            ).returncode:
                return True
    return False


def namespace(kind: str) -> list[str]:
    """The command that runs another in a namespace of its own, or a skipped test."""
    command = ["unshare", kind]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*command, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip(f"this machine lets us make no namespace (unshare {kind})")
    return command


@contextlib.contextmanager
def started(
    log: Path,
    *arguments: str,
    port: int = 0,
    inside: Sequence[str] = (),
    environment: Mapping[str, str] = TOKEN,
) -> Iterator[subprocess.Popen[bytes]]:
    """A node that runs as long as the block. Ray's own start hangs now and then (seen once in some twenty):
    then it is tried again.

    Args:
        log: what it prints.
        arguments: of `ray start`.
        port: of a head node: the block begins when it answers here.
        inside: a command that runs the rest of its arguments elsewhere, such as `unshare --uts`.
        environment: variables beside our own.
    """
    subprocess.run([RAY, "get-auth-token", "--generate"], capture_output=True, check=False)  # once a machine
    command = [*inside, RAY, "start", *arguments, *ANY_PORTS, "--block"]
    for _ in range(3):
        with open(log, "wb") as output:
            node = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, **environment},
            )
        try:
            if until_started(node, log) and (not port or answers(port)):
                yield node
                return
        finally:
            stop(node)
    raise AssertionError(f"no node that answers in three tries: {log.read_text()}")


def until_started(node: subprocess.Popen[bytes], log: Path) -> bool:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and node.poll() is None:
        if b"Ray runtime started" in log.read_bytes():
            return True
        time.sleep(0.2)
    return False


def stop(node: subprocess.Popen[bytes]) -> None:
    """As `ray stop` does, for this node alone; then whatever is left of it."""
    node.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        node.wait(20)
    lose(node)


def lose(node: subprocess.Popen[bytes]) -> None:
    """As a power cut does."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(node.pid, signal.SIGKILL)
    node.wait(20)
