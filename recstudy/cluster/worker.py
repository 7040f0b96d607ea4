"""A trial at work, in Tune's own process or on a Ray Train worker: what it tells Ray of, and what Ray asks of it.

SIGTERM asks a sweep to end: its runs leave after the epoch under way, each with a checkpoint to go on from. The driver tells it
to an actor beside it (messages.py), which each run's process asks.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ray
from ray import tune
from ray.actor import ActorHandle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from recstudy.cluster.messages import ALL, Messages
from recstudy.programs.base import Group
from recstudy.programs.trial import Report, Trial, Work, warning, worker_group
from recstudy.terminal import Draining

REPORT_S = 0.1  # least time between two epochs that Ray hears of: the driver handles some hundred lines a second in all
ASK_S = 2.0  # between two questions whether to leave, of some 0.5 ms each
LOOK_S = 5.0  # between two looks for nodes that are wanted back, of some 3 ms each


def inline(trial: Trial, work: Work, messages: "ActorHandle[Any]") -> None:
    """Do one run as one Tune trial, in Tune's own process. Its last report carries the outcome."""
    # A run that is stopped may need time to end. After two seconds Tune (2.60) would lose the next run, without a callback.
    os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = "86400"
    leave = Leave(messages)
    if not leave():
        execute(trial, work, tune.report, leave)
    elif leave.node:  # a warm process of a node that is wanted back: Tune starts another one elsewhere
        os._exit(0)
    else:
        tune.report({"status": "drained"})


def execute(trial: Trial, work: Work, report: Report, leave: Callable[[], bool]) -> None:
    """Do the work of a run; `report` gets its lines, and then its outcome."""
    with warning(report) as tell:
        tell(work(trial, throttled(tell, worker_group(trial)), leave))


def throttled(report: Report, group: Group) -> Report:
    """Return `report` for at most one epoch every `REPORT_S`, and for the last. The log on disk has all of them.

    A group's workers report the same epochs, as Train wants it.
    """
    reported = float("-inf")

    def report_some(line: dict[str, Any]) -> None:
        nonlocal reported
        last = line["epochs_done"] == line["epochs"]
        if group.first_says(last or time.monotonic() - reported >= REPORT_S):
            report(line)
            reported = time.monotonic()

    return report_some


class Leave:
    """Whether a run is to leave: its sweep is to end, or Ray wants its node back, as of a spot machine.

    Asked anew every `ASK_S`; `node` is whether it is for the node.
    """

    def __init__(self, messages: "ActorHandle[Any]") -> None:
        self.messages, self.node, self._leaves, self._asked = messages, False, False, float("-inf")

    def __call__(self) -> bool:
        if time.monotonic() - self._asked >= ASK_S:
            self._asked = time.monotonic()
            answer = self.messages.requested.remote(ray.get_runtime_context().get_node_id())
            with suppress(ray.exceptions.RayError):  # a head node that does not answer has other ways to end this run
                self._leaves, self.node = ray.get(answer, timeout=ASK_S)
        return self._leaves


class LeaveRequests(Draining):
    """The driver's side: asks runs to leave where the driver was asked to end, or a node is wanted back."""

    def __init__(self) -> None:
        super().__init__()
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.messages = ray.remote(Messages).options(num_cpus=0, scheduling_strategy=here).remote()
        self._requests: set[str] = set()
        self._looked = float("-inf")

    def tell(self) -> bool:
        """Ask all runs to leave, where the driver was asked to end; return whether that is new."""
        return self.asked and self.request(ALL)

    def request(self, key: str) -> bool:
        """Ask the runs of a node, or all runs, to leave; return whether that is new."""
        is_new = key not in self._requests
        if is_new:
            self._requests.add(key)
            ray.get(self.messages.request.remote(key))
        return is_new

    def leave_draining_nodes(self) -> None:
        """Ask the runs of nodes that Ray is to give back, such as spot machines that end soon, every `LOOK_S`."""
        if time.monotonic() - self._looked < LOOK_S:
            return
        from ray.autoscaler.v2.sdk import get_cluster_status  # which workers do without

        self._looked = time.monotonic()
        with suppress(ray.exceptions.RayError):
            status = get_cluster_status(ray.get_runtime_context().gcs_address, timeout=3)
            for node in (*status.active_nodes, *status.idle_nodes):
                if node.node_status == "DRAINING":
                    self.request(node.node_id)
