"""A trial at work, in Tune's own process or on a Ray Train worker: what it tells Ray of, and what Ray asks of it.

SIGTERM asks a sweep to end: its runs leave after the epoch under way, each with a checkpoint to go on from. An order to stop or
to pause asks them to leave at once. The driver writes it into the cluster's own table of keys, at which each run's process looks:
so all of a cluster hear of it, on whatever node.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ray
from ray import tune

from recstudy.terminal import Draining
from recstudy.train.work import AT_ONCE, Leaving, Report, Trial, Work, warning

REPORT_S = 0.1  # least time between two epochs that Ray hears of: the driver handles some hundred lines a second in all
ASK_S = 2.0  # between two questions whether to leave, of some 0.5 ms each
SPACE = b"recstudy"  # of the keys: JOB for all of a driver's runs, JOB/ID for one


def inline(trial: Trial, work: Work) -> None:
    """Do one run as one Tune trial, in Tune's own process. Its last report carries the outcome."""
    leave = Leave(trial.run_id)
    if not leave():
        at_work(trial, work, tune.report, leave)
    elif leave.node:  # a warm process of a node that is wanted back: Tune starts another one elsewhere
        os._exit(0)
    else:
        tune.report({"status": "drained"})


def beside_others(trial: Trial, work: Work, report: Report) -> None:
    """Do the same on each worker of a group, of which any may be on a node that is wanted back."""
    from recstudy.train.parallel import any_says  # it loads torch, which the driver has no use for

    leave = Leave(trial.run_id)
    if any_says(bool(leave())):
        report({"status": "drained"})
    at_work(trial, work, report, leave)


def at_work(trial: Trial, work: Work, report: Report, leave: Callable[[], Leaving]) -> None:
    """Do the work of a run; `report` gets its lines, and then its outcome."""
    with warning(report) as tell:
        tell(work(trial, throttled(titled(trial.title, tell)), leave))


def titled(title: str, report: Report) -> Report:
    """Return `report`, with the process titled before it and after: Ray puts its own title back at every call."""
    show = ray._raylet.setproctitle  # the setproctitle package has no effect in a Ray worker (2.60)
    show(title)

    def report_and_show(line: dict[str, Any]) -> None:
        report(line)
        show(title)

    return report_and_show


def throttled(report: Report) -> Report:
    """Return `report` for at most one epoch every `REPORT_S`, and for the last. The log on disk has all of them.

    A group's workers report the same epochs, as Train wants it.
    """
    from recstudy.train.parallel import first_says

    reported = float("-inf")

    def report_some(line: dict[str, Any]) -> None:
        nonlocal reported
        last = line["epochs_done"] >= line["epochs"]
        if first_says(last or time.monotonic() - reported >= REPORT_S):
            report(line)
            reported = time.monotonic()

    return report_some


class Leave:
    """Whether a run is to leave: its sweep is to end, somebody has ordered so, or Ray wants its node back, as of a spot machine.

    Asked anew every `ASK_S`; `node` is whether it is for the node.
    """

    def __init__(self, run_id: str = "") -> None:
        self.run_id, self.node, self._asked = run_id, False, float("-inf")
        self._told: Leaving = False

    def __call__(self) -> Leaving:
        if time.monotonic() - self._asked >= ASK_S:
            self._asked = time.monotonic()
            with suppress(ray.exceptions.RayError):  # a head node that does not answer has other ways to end this run
                nodes = _keys().get_draining_nodes(timeout=ASK_S)
                self.node = ray.get_runtime_context().get_node_id() in nodes
                told = _keys().internal_kv_keys(_key(), SPACE, timeout=ASK_S)
                self._told = AT_ONCE if self.run_id and _key(self.run_id) in told else _key() in told
        return AT_ONCE if self._told == AT_ONCE else self.node or self._told


class Telling(Draining):
    """Of a driver: whether it was asked to end, and told its runs; and which of them were told to leave."""

    def __init__(self) -> None:
        super().__init__()
        self._told: set[str] = set()

    def tell(self) -> bool:
        """Tell all runs, where that is asked for and was not done."""
        if not self.asked or "" in self._told:
            return False
        self.told("", True)
        return True

    def told(self, run_id: str, leave: bool) -> None:
        """Tell a run to leave at once, or that it need not."""
        if leave and run_id not in self._told:
            self._told.add(run_id)
            _keys().internal_kv_put(_key(run_id), b"", True, SPACE)
        elif not leave and run_id in self._told:
            self._told.remove(run_id)
            _keys().internal_kv_del(_key(run_id), False, SPACE)


def _keys() -> Any:
    return ray._private.worker.global_worker.gcs_client  # not public in 2.60


def _key(run_id: str = "") -> bytes:
    """Return the key of a run of this job, or of all of them."""
    job = ray.get_runtime_context().get_job_id()
    return f"{job}/{run_id}".removesuffix("/").encode()
