"""An actor that passes messages between the driver, Tune's trials and Ray Train's workers.

The driver requests runs to end early (`LeaveRequests`), and the process of each run asks for requests
(`Leave`). Workers send their lines to the trial that has started them.
"""

import asyncio
import time
from collections import defaultdict
from contextlib import suppress
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from recstudy.base.terminal import Draining

ALL = ""  # the key of a request to every run
WORKERS_ENDED = {"status": "workers ended"}  # the last line of an attempt, after those of its workers
ASK_S = 2.0  # time between two requests whether the run should end, which take about 0.5 ms
LOOK_S = 5.0  # time between two checks for drained nodes, which take about 3 ms


class Messages:
    """An actor on the driver's node. It imports few modules, so its process starts fast and stays small."""

    def __init__(self) -> None:
        self._requests: set[str] = set()  # node ids, or ALL
        self._lines: dict[str, asyncio.Queue[Any]] = defaultdict(asyncio.Queue)  # by attempt
        self._stopped: set[str] = set()  # attempts

    async def request(self, key: str) -> None:
        """Request the runs of a node, or all runs, to end early."""
        self._requests.add(key)

    async def requested(self, node_id: str) -> tuple[bool, bool]:
        """Return whether the runs of a node should end early, and whether the node itself is drained."""
        return bool(self._requests & {ALL, node_id}), node_id in self._requests

    async def add_line(self, attempt: str, line: Any) -> bool:
        """Add a line of an attempt, and return whether the attempt may continue."""
        self._lines[attempt].put_nowait(line)
        return attempt not in self._stopped

    async def get(self, attempt: str) -> Any:
        """Wait for the next line of an attempt."""
        return await self._lines[attempt].get()

    async def stop(self, attempt: str) -> None:
        """Stop an attempt at its next line."""
        self._stopped.add(attempt)

    async def discard_lines(self, attempt: str) -> None:
        """Discard the lines of a finished attempt."""
        self._lines.pop(attempt, None)
        self._stopped.discard(attempt)


class Leave:
    """Returns whether a run should end early, because its sweep ends or its node is drained.

    The answer is updated every `ASK_S` seconds.

    Attributes:
        node: Whether the node is drained, such as a spot machine.
    """

    def __init__(self, messages: "ActorHandle[Any]") -> None:
        self.messages, self.node = messages, False
        self._should_leave, self._request_time = False, float("-inf")

    def __call__(self) -> bool:
        if time.monotonic() - self._request_time >= ASK_S:
            self._request_time = time.monotonic()
            answer = self.messages.requested.remote(ray.get_runtime_context().get_node_id())
            # Ray itself ends the run if the head node is lost
            with suppress(ray.exceptions.RayError):
                self._should_leave, self.node = ray.get(answer, timeout=ASK_S)
        return self._should_leave


class LeaveRequests(Draining):
    """Requests of the driver that runs end early, because the driver ends or a node is drained."""

    def __init__(self) -> None:
        super().__init__()
        on_this_node = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.messages = ray.remote(Messages).options(num_cpus=0, scheduling_strategy=on_this_node).remote()
        self._requests: set[str] = set()
        self._look_time = float("-inf")

    def tell(self) -> bool:
        """If the driver should end, request all runs to end. Return whether the request is new."""
        return self.is_requested and self.request(ALL)

    def request(self, key: str) -> bool:
        """Request the runs of a node, or all runs, to end. Return whether the request is new."""
        is_new = key not in self._requests
        if is_new:
            self._requests.add(key)
            ray.get(self.messages.request.remote(key))
        return is_new

    def leave_draining_nodes(self) -> None:
        """Request the runs of drained nodes, such as spot machines, to end. Checks every `LOOK_S` seconds."""
        if time.monotonic() - self._look_time < LOOK_S:
            return
        from ray.autoscaler.v2.sdk import get_cluster_status  # imported late: workers do not need it

        self._look_time = time.monotonic()
        with suppress(ray.exceptions.RayError):
            status = get_cluster_status(ray.get_runtime_context().gcs_address, timeout=3)
            for node in (*status.active_nodes, *status.idle_nodes):
                if node.node_status == "DRAINING":
                    self.request(node.node_id)
