"""Nodes that come while a study runs: asked, and then counted on. The cluster is a real one."""

import pytest
from ray.util import remove_placement_group
from shell import until

from recstudy.cluster import nodes
from recstudy.cluster.nodes import concurrent_runs, versions
from recstudy.cluster.worker import CheckedNodes
from recstudy.programs.settings import Resources


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_a_node_that_has_come_is_counted_once_it_may_work_and_until_it_goes(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(nodes, "LOOK_S", 0.2)
    good = (versions(), "", str(tmp_path))
    other_versions = ({**versions(), "numpy": "1.26.4"}, "", str(tmp_path))
    missing_folder = (versions(), "", str(tmp_path / "elsewhere" / "probe"))
    checks, messages, bad = iter([good, other_versions, missing_folder]), [], set()
    plain_ask = nodes.call_on_node
    monkeypatch.setattr(
        nodes, "call_on_node", lambda node, function, *_: plain_ask(node, function, *next(checks))
    )
    capacity_now = nodes.ClusterCapacity(Resources(gpus=0), good, messages.append, bad)
    assert capacity_now() == 1

    new_node = cluster.add_node(num_cpus=2)
    until(lambda: capacity_now() == 3, "the new node's two capacity")
    for refused in (1, 2):
        cluster.add_node(num_cpus=4)
        until(lambda refused=refused: capacity_now() == 3 and len(messages) == refused, "a refusal")
    monkeypatch.setattr(CheckedNodes, "labels", capacity_now.labels)
    requests = [CheckedNodes([{"CPU": cpus}]).to_placement_group() for cpus in (2, 4)]
    assert [request.wait(5) for request in requests] == [True, False]  # four cores have the refused nodes
    for request in requests:
        remove_placement_group(request)
    # the sweep's next runs know them
    assert nodes.ClusterCapacity(Resources(gpus=0), (), messages.append, bad)() == 3
    cluster.remove_node(new_node)
    until(lambda: capacity_now() == 1, "the capacity without that node")

    assert next(checks, None) is None  # each was asked once
    assert messages[0].startswith("A new node gets no runs: node ")
    assert (
        ", but the driver has 1.26.4. Start Ray on the node from an environment with numpy 1.26."
        in messages[0]
    )
    assert (
        f" cannot write to the results folder {tmp_path / 'elsewhere'} (No such file or directory). Set --results to "
        in messages[1]
    )


@pytest.mark.parametrize(
    ("nodes", "place", "runs"),
    [
        ([{"CPU": 4.0}, {"CPU": 3.0}], {"cpus": 2}, 3),
        ([{"CPU": 4.0, "GPU": 1.0}, {"CPU": 4.0}], {"gpus": 0.25}, 4),
        ([{"CPU": 3.0, "GPU": 1.0}], {"gpus": 0.25}, 3),
        ([{"CPU": 9.0, "GPU": 5.0}], {"gpus": 1, "workers": 2}, 2),
        ([{"CPU": 1.0}], {"gpus": 1}, 0),
    ],
)
def test_runs_at_once_by_hand(nodes, place, runs):
    assert concurrent_runs([{"Resources": node} for node in nodes], Resources(**{"gpus": 0} | place)) == runs
