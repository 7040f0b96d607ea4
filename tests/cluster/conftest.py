"""A cluster for what knows Ray."""

from collections.abc import Iterator

import pytest
import ray
from ray.cluster_utils import Cluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A head node with one core, which this process has joined."""
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    ray.init(cluster.address, log_to_driver=False, runtime_env={"env_vars": {"PYTHONWARNINGS": "ignore"}})
    yield cluster
    ray.shutdown()
    cluster.shutdown()
