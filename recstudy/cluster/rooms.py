"""How many runs a cluster holds at once, while its nodes come and go."""

import time
from collections.abc import Callable
from typing import Any

from recstudy.cluster.nodes import Asked, alive
from recstudy.config import Place
from recstudy.errors import RecstudyError

LOOK_S = 5.0  # between two looks at the cluster's nodes


class Rooms:
    """Called, it says how many runs the cluster holds now. Nodes that have come are counted once they were asked, and may work.

    Args:
        place: of every run.
        ask: puts its question to a node that has come; None where none can come.
        refuse: is told why a node may not work.
        refused: the ids of nodes that may not, of a sweep's earlier runs too.
    """

    def __init__(
        self,
        place: Place,
        ask: Callable[[dict[str, Any]], Asked] | None,
        refuse: Callable[[str], None],
        refused: set[str],
    ) -> None:
        self.place, self.ask, self.refuse, self._refused = place, ask, refuse, refused
        nodes = [node for node in alive() if node["NodeID"] not in refused]
        self._may_work = {node["NodeID"] for node in nodes}
        self._asked: dict[str, Asked] = {}
        self._count, self._looked = concurrent_runs(nodes, place), time.monotonic()

    def __call__(self) -> int:
        if self.ask is not None and time.monotonic() - self._looked >= LOOK_S:
            nodes = alive()
            self._meet(nodes, self.ask)
            self._count = concurrent_runs([node for node in nodes if node["NodeID"] in self._may_work], self.place)
            self._looked = time.monotonic()
        return self._count

    def _meet(self, nodes: list[dict[str, Any]], ask: Callable[[dict[str, Any]], Asked]) -> None:
        for node in nodes:
            if node["NodeID"] not in self._may_work | self._refused | set(self._asked):
                self._asked[node["NodeID"]] = ask(node)
        for node_id in [node_id for node_id, asked in self._asked.items() if asked.over]:
            try:
                self._asked.pop(node_id).answer()
                self._may_work.add(node_id)
            except RecstudyError as error:
                self._refused.add(node_id)
                self.refuse(str(error))


def concurrent_runs(nodes: list[dict[str, Any]], place: Place) -> int:
    """How many runs these nodes hold at once; an elastic one takes as many workers as it may have, the last what is left."""
    rooms = sum(rooms_of(node["Resources"], place.cpus_per_run, place.gpus_per_run or 0.0) for node in nodes)
    return max(1, min(rooms // place.workers_per_run, -(-rooms // place.most_workers)))


def rooms_of(node: dict[str, float], cpus: int, gpus: float) -> int:
    """Workers that fit on a node, by its resources. Several GPUs a worker must be whole; a fraction shares one."""
    by_cpu = int(node.get("CPU", 0) // cpus)
    if not gpus:
        return by_cpu
    return min(by_cpu, int(node.get("GPU", 0)) * int(1 / gpus) if gpus < 1 else int(node.get("GPU", 0) // gpus))
