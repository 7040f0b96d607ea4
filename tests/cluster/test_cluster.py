"""A cluster that was there before: joined with the right token, and asked whether it can do the work."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from ray_nodes import TOKEN, answers, free_port, head_of, namespace, started
from shell import Shell

from recstudy.base.errors import ClusterError
from recstudy.cluster import connection
from recstudy.cluster.connection import check_packing, resolve_gpus
from recstudy.programs.settings import Resources

GB = 10**9


@pytest.fixture(scope="module")
def head(tmp_path_factory) -> Iterator[int]:
    """The port of a Ray cluster of one node with one core, which has an old recstudy of its own, one that
    breaks.
    """
    folder = tmp_path_factory.mktemp("head")
    (folder / "recstudy").mkdir()
    (folder / "recstudy/__init__.py").write_text("raise ImportError('the node has an old recstudy')")
    port = free_port()
    environment = {**TOKEN, "PYTHONPATH": str(folder)}
    with started(folder / "log", "--num-cpus=1", *head_of(port), port=port, environment=environment):
        yield port


def last_line(errors: str) -> str:
    return errors.strip().splitlines()[-1]


def test_client_without_a_token_is_refused(head, shell, tmp_path, monkeypatch):
    """In a home without Ray's token file; the tests' own token opens it for all others here."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)

    line = last_line(shell.run("--address", f"127.0.0.1:{head}", code=2))

    assert line.startswith(
        f"ClusterError: No Ray cluster answers at 127.0.0.1:{head} (it requires a token, and yours is "
    )
    assert "set the token (`ray get-auth-token`)" in line
    assert shell.records() == {}


@pytest.mark.whole
def test_runs_use_all_nodes_if_all_see_the_results(head, shell, tmp_path):
    """With recstudy's code of here, one at a time on each. Runs of some ten seconds: shorter ones are all
    done by the first node's warm process before the second's has started. The second node has a mount
    namespace of its own, where one folder is an empty file system.
    """
    hidden = Shell(tmp_path / "hidden")
    hidden.results.mkdir(parents=True)
    mounts = f'hostname second && mount -t tmpfs none {hidden.results} && exec "$@"'
    second = [*namespace("--mount"), "--uts", "sh", "-c", mounts, "sh"]
    with started(tmp_path / "log", f"--address=127.0.0.1:{head}", "--num-cpus=1", inside=second):
        line = last_line(hidden.run("--address", f"127.0.0.1:{head}", code=2))
        shell.run(
            "--address", f"127.0.0.1:{head}", "--only", "*supervision_steps=2", "--set", "train.epochs=100"
        )

    assert line.startswith("StorageError: node ")
    assert f"cannot write to the results folder {hidden.results} (No such file or directory)" in line
    assert line.endswith("Set --results to a folder that all nodes share.")
    assert not list(hidden.results.glob(".probe*"))
    assert hidden.records() == {}
    assert shell.attempts() == [1] * 3
    hosts = [result["provenance"]["hardware"]["host"] for result in shell.records().values()]
    assert len(set(hosts)) == 2
    assert 1 <= hosts.count("second") <= 2
    assert answers(head)  # the cluster is left running


def test_a_run_that_the_cluster_cannot_hold_is_refused(monkeypatch):
    monkeypatch.setattr(connection, "live_nodes", lambda: [{"Resources": {"CPU": 1}}])
    assert resolve_gpus(Resources(), []).gpus == 0

    with pytest.raises(
        ClusterError, match=r"^A run needs 1 x \(1 CPU, 8 GPU\), but the cluster has 1 node: 1 CPU, 0 GPU\. "
    ):
        resolve_gpus(Resources(gpus=8), [])


def test_more_runs_than_a_gpu_holds_are_refused():
    check_packing(0.25, run_bytes=5 * GB, gpu_bytes=24 * GB)  # 4 x 5.6 GB

    with pytest.raises(
        ClusterError, match=r"--gpus 0.125 packs 8 runs on a GPU, but a run needs about 5.6 GB"
    ) as refused:
        check_packing(0.125, run_bytes=5 * GB, gpu_bytes=24 * GB)

    assert str(refused.value).endswith(
        "and the smallest GPU has 24.0 GB. --gpus 0.25 packs 4; or decrease train.batch_size."
    )
    with pytest.raises(ClusterError, match=r"--gpus 1 gives each run a GPU"):
        check_packing(0.5, run_bytes=15 * GB, gpu_bytes=24 * GB)


@pytest.mark.parametrize("fit", range(2, 32))
def test_the_fraction_that_is_named_packs_as_many_as_it_says(fit):
    memory = fit * 2 * GB

    with pytest.raises(ClusterError, match=rf"packs {fit};") as refused:
        check_packing(0.02, run_bytes=2 * GB - 600 * 10**6, gpu_bytes=memory)

    share = float(str(refused.value).split("--gpus ")[2].split()[0])
    assert int(1 / share) == fit
    check_packing(share, run_bytes=2 * GB - 600 * 10**6, gpu_bytes=memory)


@pytest.mark.whole
@pytest.mark.parametrize(("gpus", "preset"), [(2, "standard"), (0, "quick")])
def test_a_cluster_with_gpus_takes_the_preset_for_gpus(tmp_path, gpus, preset):
    port, study = free_port(), Path(__file__).parents[2] / "studies/vitrm_depth_sweep.py"
    with started(tmp_path / "log", "--num-cpus=1", f"--num-gpus={gpus}", *head_of(port), port=port):
        output = Shell(tmp_path, study).run("--address", f"127.0.0.1:{port}", "--dry-run")

    first, *_ = output.splitlines()
    assert f"vitrm_depth_sweep, preset {preset}: " in output
    if gpus:
        assert first.startswith(
            "Preset standard, as the cluster has 2 GPUs; --preset chooses another. Price: 12 runs, at most "
        )
        assert "latent_steps=6, supervision_steps=4" in output
        assert ", on 2 " in output.splitlines()[-1]
