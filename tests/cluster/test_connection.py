"""Whether a cluster answers, starts, and stays: what is decided of each answer. The same with clusters: `slow`, here and in tests/faults."""

import os
import threading
from types import SimpleNamespace

import pytest
import ray

from recstudy.cluster import connection
from recstudy.cluster.connection import check_address, cluster, watch
from recstudy.errors import EXIT_CODES, ClusterError


@pytest.fixture
def speaks(monkeypatch):
    """Have the cluster at every address answer those only who speak so."""

    def those(*modes: str) -> None:
        monkeypatch.setattr(connection, "_refuses", lambda address, mode, told: mode not in modes)

    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    return those


def silent(address: str, seconds: float) -> None:
    raise AssertionError


def test_a_study_speaks_as_its_cluster_does(speaks, monkeypatch):
    """A cluster without tokens takes those of who shows one, and starts none of its actors."""
    for modes, spoken in ((["disabled", "token"], "disabled"), (["token"], "token")):
        speaks(*modes)
        for given in ("", spoken):
            monkeypatch.setenv("RAY_AUTH_MODE", given)
            check_address("auto", silent)
            assert os.environ["RAY_AUTH_MODE"] == spoken


@pytest.mark.parametrize(
    ("modes", "given", "line"),
    [
        (["disabled", "token"], "token", r"at auto asks for no token, but .*=token is set here.*Set RAY_AUTH_MODE=disabled, or "),
        (["token"], "disabled", r"at auto asks for a token, but RAY_AUTH_MODE=disabled is set here. Set RAY_AUTH_MODE=token.$"),
        ([], "", r"no Ray cluster answers at auto \(it asks for a token, and ours is missing or wrong\)"),
    ],
)
def test_what_a_cluster_does_not_speak_is_refused(speaks, monkeypatch, modes, given, line):
    speaks(*modes)
    monkeypatch.setenv("RAY_AUTH_MODE", given)

    with pytest.raises(ClusterError, match=line):
        check_address("auto", silent)


@pytest.fixture
def starts(monkeypatch):
    """Have Ray take too long to start so many times, in its own words, and then start."""

    def after(failures: int) -> list[str]:
        tries: list[str] = []

        def init(address: str, **_: object) -> SimpleNamespace:
            tries.append(address)
            if len(tries) <= failures:
                raise Exception("The current node timed out during startup. This could\nhappen")
            return SimpleNamespace(dashboard_url="127.0.0.1:8265")

        monkeypatch.setattr(ray, "init", init)
        return tries

    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address="127.0.0.1:1"))
    monkeypatch.setattr(ray._raylet, "GcsClient", lambda address: SimpleNamespace(check_alive=lambda nodes, timeout: []))
    monkeypatch.setattr(connection, "stop_on_sigterm", lambda: None)
    return after


@pytest.mark.parametrize(("mode", "token"), [("disabled", ""), ("token", " (its token: ray get-auth-token)")])
def test_ray_is_started_once_more_and_a_token_named_where_there_is_one(starts, monkeypatch, mode, token):
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    tries = starts(1)

    with cluster(None, "tiny", pytest.fail) as dashboard:
        assert dashboard == f"http://127.0.0.1:8265{token}"

    assert tries == ["local", "local"]


def test_a_ray_that_does_not_start_is_one_line(starts):
    tries = starts(2)

    with pytest.raises(ClusterError, match=r"^Ray does not start on this machine \(The current node .* happen\)\. Where"):
        cluster(None, "tiny", pytest.fail).__enter__()

    assert tries == ["local", "local"]


def test_a_head_is_lost_after_a_silence_without_an_answer_between(monkeypatch):
    """With answers at 0, 2 and 3 tenths: lost three tenths after the last."""
    monkeypatch.setattr(connection, "PAUSE_S", 0.1)
    asked, lost, over = [], [], threading.Event()

    def ask() -> None:
        asked.append(len(asked))
        if asked[-1] not in (0, 2, 3):
            raise RuntimeError("Deadline Exceeded")

    watch(ask, 0.25, over, lambda: lost.append(len(asked)))
    assert lost == [7]

    over.set()
    watch(ask, 0.25, over, lambda: lost.append(0))
    assert lost == [7]


def test_a_lost_head_ends_the_process_with_the_command_that_goes_on(monkeypatch):
    said: list[object] = []
    monkeypatch.setattr("sys.argv", ["tiny.py", "--only", "a=1", "--address", "here:1"])
    monkeypatch.setattr(os, "_exit", said.append)

    connection._leave("here:1", said.append)

    line, code = said
    assert str(line).startswith("the head node of the Ray cluster, here:1, does not answer any more.")
    assert str(line).endswith(": python tiny.py --only a=1 --address here:1")
    assert code == EXIT_CODES["lost node"] == 9
