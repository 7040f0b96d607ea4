"""Whether a cluster answers, starts, and stays: what is decided of each answer. The same with clusters:
`slow`, here and in tests/faults.
"""

import os
import socket
import time
from types import SimpleNamespace

import pytest
import ray
from processes import run_python

from recstudy.base.errors import ClusterError
from recstudy.cluster import address, connection
from recstudy.cluster.address import check_address
from recstudy.cluster.connection import PATIENCE_SHARE, RECONNECT_TIMEOUT, cluster, watched_head


@pytest.fixture
def speaks(monkeypatch):
    """Have the cluster at every address answer those only who speak so."""

    def set_modes(*modes: str) -> None:
        monkeypatch.setattr(address, "_refuses", lambda _, mode: mode not in modes)

    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    return set_modes


def test_a_study_speaks_as_its_cluster_does(speaks, monkeypatch):
    """A cluster without tokens takes those of who shows one, and starts none of its actors."""
    for modes, env_mode, expected_mode in (
        (["disabled", "token"], "", "disabled"),
        (["disabled", "token"], "disabled", "disabled"),
        (["token"], "token", "token"),
    ):
        speaks(*modes)
        monkeypatch.setenv("RAY_AUTH_MODE", env_mode)
        check_address("auto")
        assert os.environ["RAY_AUTH_MODE"] == expected_mode


@pytest.mark.parametrize(
    ("modes", "env_mode", "line"),
    [
        (
            ["disabled", "token"],
            "token",
            r"at auto uses no token, but .*=token is set.*Set RAY_AUTH_MODE=disabled, or ",
        ),
        (
            ["token"],
            "disabled",
            r"at auto requires a token, but RAY_AUTH_MODE=disabled is set. Set RAY_AUTH_MODE=token.$",
        ),
        (
            ["token"],
            "",
            r"Ray was already imported without one. Set RAY_AUTH_MODE=token before Python starts.$",
        ),
        ([], "", r"No Ray cluster answers at auto \(it requires a token, and yours is missing or wrong\)"),
    ],
)
def test_auth_mode_that_a_cluster_does_not_support_is_refused(speaks, monkeypatch, modes, env_mode, line):
    speaks(*modes)
    monkeypatch.setenv("RAY_AUTH_MODE", env_mode)

    with pytest.raises(ClusterError, match=line):
        check_address("auto")


def test_an_address_where_something_else_listens_is_refused(monkeypatch):
    """It takes the connection, and says nothing; so do we, after a while."""
    monkeypatch.setattr(address, "ANSWER_S", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent_server:
        port = silent_server.getsockname()[1]
        with pytest.raises(
            ClusterError, match=rf"No Ray cluster answers at 127\.0\.0\.1:{port} \(no answer for 2 s"
        ):
            check_address(f"127.0.0.1:{port}")


@pytest.fixture
def starts(monkeypatch, tmp_path):
    """Have Ray take too long to start so many times, in its own words, and then start."""

    def connect_after(failures: int) -> list[str]:
        tries: list[str] = []

        def init(address: str, **_: object) -> SimpleNamespace:
            tries.append(address)
            if len(tries) <= failures:
                raise Exception("The current node timed out during startup. This could\nhappen")
            return SimpleNamespace(
                dashboard_url="127.0.0.1:8265", address_info={"session_dir": str(tmp_path)}
            )

        monkeypatch.setattr(ray, "init", init)
        return tries

    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address="127.0.0.1:1"))
    monkeypatch.setattr("ray.autoscaler.v2.sdk.get_cluster_status", lambda address, timeout: None)
    monkeypatch.setattr(connection, "stop_on_sigterm", lambda: None)
    return connect_after


@pytest.mark.parametrize(("mode", "token"), [("disabled", ""), ("token", " (token: ray get-auth-token)")])
def test_ray_is_started_once_more_and_a_token_named_where_there_is_one(starts, monkeypatch, mode, token):
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    tries = starts(1)

    with cluster(None, "tiny", pytest.fail) as dashboard:
        assert dashboard == f"http://127.0.0.1:8265{token}"

    assert tries == ["local", "local"]


def test_a_ray_that_does_not_start_is_one_line(starts):
    tries = starts(2)

    with pytest.raises(
        ClusterError, match=r"^Ray does not start on this machine \(The current node .* happen\)\. Free"
    ):
        cluster(None, "tiny", pytest.fail).__enter__()

    assert tries == ["local", "local"]


def asked_for_status(monkeypatch, answers: int) -> None:
    """Have the head answer so many times."""
    left = iter(range(answers))
    monkeypatch.setattr("ray.autoscaler.v2.sdk.get_cluster_status", lambda address, timeout: next(left))


def losses_within(seconds: float, is_own: bool) -> list[str]:
    """Return why the cluster is lost in this time."""
    losses: list[str] = []
    with watched_head("here:1", is_own, losses.append):
        deadline = time.monotonic() + seconds
        while not losses and time.monotonic() < deadline:
            time.sleep(0.01)
    return losses


def test_a_head_is_lost_after_a_silence_without_an_answer_between(monkeypatch):
    monkeypatch.setattr(connection, "PAUSE_S", 0.05)
    monkeypatch.setenv(RECONNECT_TIMEOUT, str(1 / PATIENCE_SHARE))
    asked_for_status(monkeypatch, 10)
    started = time.monotonic()

    assert losses_within(60, is_own=False) == ["the head node of the Ray cluster, here:1, does not answer"]
    assert time.monotonic() - started > 1.4  # ten answers, and a second of silence

    asked_for_status(monkeypatch, 1000)
    assert losses_within(1.5, is_own=False) == []


def test_permanent_end_of_a_cluster_is_reported_at_once(monkeypatch):
    monkeypatch.setattr(connection, "PAUSE_S", 0.001)
    monkeypatch.setattr(connection, "_vital_processes", lambda: lambda: "raylet")
    asked_for_status(monkeypatch, 10**6)

    assert losses_within(60, is_own=True) == ["Ray's raylet on this machine has ended"]


def test_a_cluster_that_is_shut_down_is_not_lost(starts, monkeypatch):
    """On a busy machine its processes take seconds to end, and the driver's watch must not take that for a
    loss.
    """
    stopped: list[object] = []
    losses: list[object] = []
    starts(0)
    monkeypatch.setattr(connection, "PAUSE_S", 0.001)
    monkeypatch.setattr(connection, "_vital_processes", lambda: lambda: "raylet" * bool(stopped))
    monkeypatch.setattr(os, "_exit", losses.append)
    monkeypatch.setattr(ray, "shutdown", lambda: (stopped.append("raylet"), time.sleep(0.2)))

    with cluster(None, "tiny", losses.append):
        pass

    assert stopped
    assert losses == []


@pytest.mark.parametrize("variable", ["TMPDIR", "RAY_TMPDIR"])
def test_a_folder_for_temporary_files_that_is_too_long_for_sockets_is_named(variable, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/tmp")
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    connection._check_sockets()

    monkeypatch.setenv(variable, f"/tmp/{'x' * 40}")
    with pytest.raises(
        ClusterError,
        match=f"^{variable} is too long for Ray.s sockets: .* has 45 bytes, .* Set {variable}=",
    ):
        connection._check_sockets()


@pytest.mark.parametrize(("hard", "refused"), [(64, True), (4096, False)])
def test_a_limit_of_open_files_that_is_too_low_is_raised_or_refused(hard, refused):
    """In a process of its own: a limit that was lowered cannot be raised again."""
    code = (
        "import resource, sys\nfrom recstudy.cluster import connection\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (64, {hard}))\n"
        "try:\n    connection._check_files()\nexcept Exception as error:\n    sys.exit(str(error))\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    done = run_python("-c", code, code=refused)

    assert (done.stdout == "") if refused else (int(done.stdout) >= 256)
    assert ("This process may open 64 files (ulimit -n), but Ray needs" in done.stderr) == refused
