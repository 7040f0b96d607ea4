"""Nodes that come while a study runs: asked, and then counted on. The cluster is a real one."""

import pytest
from shell import until

from recstudy.cluster import nodes
from recstudy.cluster.connection import fitting
from recstudy.cluster.nodes import versions
from recstudy.config import Place, RunConfig, TrainConfig
from recstudy.data import Cifar10
from recstudy.errors import ClusterError
from recstudy.models import ViTRM
from recstudy.testing import tiny_run


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_a_node_that_has_come_is_counted_once_it_may_work_and_until_it_goes(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(nodes, "LOOK_S", 0.2)
    good = (versions(), "", str(tmp_path))
    other = ({**versions(), "numpy": "1.26.4"}, "", str(tmp_path))
    away = (versions(), "", str(tmp_path / "elsewhere" / "probe"))
    checks, said, bad = iter([good, other, away]), [], set()
    plain_ask = nodes.ask
    monkeypatch.setattr(nodes, "ask", lambda node, function, *_: plain_ask(node, function, *next(checks)))
    at_once = nodes.ClusterCapacity(Place(gpus_per_run=0), good, said.append, bad)
    assert at_once() == 1

    comes = cluster.add_node(num_cpus=2)
    until(lambda: at_once() == 3, "the new node's two capacity")
    for refused in (1, 2):
        cluster.add_node(num_cpus=4)
        until(lambda refused=refused: at_once() == 3 and len(said) == refused, "a refusal")
    assert nodes.ClusterCapacity(Place(gpus_per_run=0), None, said.append, bad)() == 3  # the sweep's next runs know them
    cluster.remove_node(comes)
    until(lambda: at_once() == 1, "the capacity without that node")

    assert next(checks, None) is None  # each was asked once
    assert said[0].startswith("node ")
    assert ", but this process has 1.26.4. Start Ray there from an environment with numpy 1.26, as everywhere." in said[0]
    assert f" cannot use the results folder {tmp_path / 'elsewhere'} (No such file or directory). Give a folder that " in said[1]


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_four_runs_share_a_gpu_that_has_the_memory_for_them(cluster, monkeypatch):
    """A node that declares a GPU, of which Ray hands out quarters; what is free on it is made up."""
    cluster.add_node(num_cpus=4, num_gpus=1)
    until(lambda: len(nodes.alive()) == 2, "the node with the GPU")
    monkeypatch.setattr(nodes, "_free_memory", lambda: 8 * 10**9)
    quarter = Place(gpus_per_run=0.25)

    place = fitting(quarter, [tiny_run()])

    assert place == quarter
    assert nodes.ClusterCapacity(place, None, [].append, set())() == 4
    large = RunConfig(data=Cifar10(), model=ViTRM(), train=TrainConfig(batch_size=512))
    with pytest.raises(ClusterError, match=r"--gpus-per-run 0.25 packs 4 runs on a GPU, but one needs about .* GB"):
        fitting(quarter, [large])
