"""A cluster that was there before: joined with the right token, and asked whether it can do the work."""

import subprocess
from collections.abc import Iterator

import pytest
from ray_nodes import RAY, TOKEN, answers, free_port, head_of, namespace, started

from recstudy.cluster.connection import check_packing
from recstudy.cluster.nodes import check_nodes
from recstudy.errors import ClusterError, StorageError
from recstudy.records import Results

GB = 10**9


@pytest.fixture(scope="module")
def head(tmp_path_factory) -> Iterator[int]:
    """The port of a Ray cluster of one node with one core, which has an old recstudy of its own, one that breaks."""
    folder = tmp_path_factory.mktemp("head")
    (folder / "recstudy").mkdir()
    (folder / "recstudy/__init__.py").write_text("raise ImportError('the node has an old recstudy')")
    port = free_port()
    subprocess.run([RAY, "get-auth-token", "--generate"], capture_output=True, check=True)
    environment = {**TOKEN, "PYTHONPATH": str(folder)}
    with started(folder / "log", "--num-cpus=1", *head_of(port), port=port, environment=environment):
        yield port


def last_line(errors: str) -> str:
    return errors.strip().splitlines()[-1]


def test_who_has_no_token_is_turned_away(head, shell, tmp_path, monkeypatch):
    """In a home without Ray's token file; the tests' own token opens it for all others here."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)

    line = last_line(shell.run("--address", f"127.0.0.1:{head}", code=2))

    assert line.startswith(f"ClusterError: no Ray cluster answers at 127.0.0.1:{head} (it asks for a token, and ours is ")
    assert "give it the token of `ray get-auth-token`" in line
    assert shell.records() == {}


@pytest.mark.whole
def test_runs_use_all_nodes(head, shell, tmp_path):
    """With recstudy's code of here, one at a time on each. Runs of some ten seconds: shorter ones are all done by the first node's warm process before the
    second's has started.
    """
    second = [*namespace("--uts"), "sh", "-c", 'hostname second && exec "$@"', "sh"]
    with started(tmp_path / "log", f"--address=127.0.0.1:{head}", "--num-cpus=1", inside=second):
        shell.run("--address", f"127.0.0.1:{head}", "--only", "*supervision_steps=2", "--set", "train.epochs=100")

    assert shell.attempts() == [1] * 3
    hosts = [result["provenance"]["hardware"]["host"] for result in shell.records().values()]
    assert len(set(hosts)) == 2
    assert 1 <= hosts.count("second") <= 2
    assert answers(head)  # the cluster is left running


@pytest.mark.whole
def test_results_that_another_node_does_not_see_are_refused(head, shell, tmp_path):
    """A second node in a mount namespace of its own, where the results folder is an empty file system."""
    shell.results.mkdir()
    second = [*namespace("--mount"), "sh", "-c", f'mount -t tmpfs none {shell.results} && exec "$@"', "sh"]
    with started(tmp_path / "log", f"--address=127.0.0.1:{head}", "--num-cpus=1", inside=second):
        line = last_line(shell.run("--address", f"127.0.0.1:{head}", code=2))

    assert line.startswith("StorageError: node ")
    assert f"cannot use the results folder {shell.results} (No such file or directory)" in line
    assert line.endswith("Give a folder that every node shares with --results.")
    assert not list(shell.results.glob(".probe*"))
    assert shell.records() == {}


def test_a_results_folder_without_room_is_refused(small_disk, monkeypatch):
    monkeypatch.setattr("recstudy.records.files.PAUSES", (0.1,))
    small_disk.fill()

    with pytest.raises(StorageError, match=r"cannot write .*: No space left on device"):
        check_nodes(Results(small_disk.path))

    assert [path.name for path in small_disk.path.iterdir()] == ["filler"]


def test_more_runs_than_a_gpu_holds_are_refused():
    check_packing(0.25, needed=5 * GB, memory=24 * GB)  # 4 x 5.6 GB

    with pytest.raises(ClusterError, match=r"--gpus-per-run 0.125 packs 8 runs on a GPU, but one needs about 5.6 GB") as refused:
        check_packing(0.125, needed=5 * GB, memory=24 * GB)

    assert str(refused.value).endswith(
        "and the smallest GPU has 24.0 GB. --gpus-per-run 0.25 packs 4; or lower train.batch_size."
    )
    with pytest.raises(ClusterError, match=r"--gpus-per-run 1 gives each its own"):
        check_packing(0.5, needed=15 * GB, memory=24 * GB)


@pytest.mark.parametrize("fit", range(2, 32))
def test_the_fraction_that_is_named_packs_as_many_as_it_says(fit):
    memory = fit * 2 * GB

    with pytest.raises(ClusterError, match=rf"packs {fit};") as refused:
        check_packing(0.02, needed=2 * GB - 600 * 10**6, memory=memory)

    named = float(str(refused.value).split("--gpus-per-run ")[2].split()[0])
    assert int(1 / named) == fit
    check_packing(named, needed=2 * GB - 600 * 10**6, memory=memory)
