"""A trial at work, in Tune's own process or on a Ray Train worker: what it tells Ray of, and what Ray asks of it.

SIGTERM asks a sweep to end: its runs leave after the epoch under way, each with a checkpoint to go on from. The driver writes it
into the cluster's own table of keys, at which each run's process looks: so all of a cluster hear of it, on whatever node.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ray
from ray import tune

from recstudy.terminal import Draining
from recstudy.train.work import Report, Trial, Work, warning

REPORT_S = 0.1  # least time between two epochs that Ray hears of: the driver handles some hundred lines a second in all
ASK_S = 2.0  # between two questions whether to leave, of some 0.5 ms each
SPACE = b"recstudy"  # of the keys: a driver's job


def inline(trial: Trial, work: Work) -> None:
    """Do one run as one Tune trial, in Tune's own process. Its last report carries the outcome."""
    leave = Leave()
    if not leave():
        at_work(trial, work, tune.report, leave)
    elif leave.node:  # a warm process of a node that is wanted back: Tune starts another one elsewhere
        os._exit(0)
    else:
        tune.report({"status": "drained"})


def beside_others(trial: Trial, work: Work, report: Report) -> None:
    """Do the same on each worker of a group, of which any may be on a node that is wanted back."""
    from recstudy.train.parallel import any_says  # it loads torch, which the driver has no use for

    leave = Leave()
    if any_says(leave()):
        report({"status": "drained"})
    at_work(trial, work, report, leave)


def at_work(trial: Trial, work: Work, report: Report, leave: Callable[[], bool]) -> None:
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
    """Whether a run is to leave: its sweep is to end, or Ray wants its node back, as of a spot machine.

    Asked anew every `ASK_S`; `node` is whether it is for the node.
    """

    def __init__(self) -> None:
        self.node, self._told, self._asked = False, False, float("-inf")

    def __call__(self) -> bool:
        if time.monotonic() - self._asked >= ASK_S:
            self._asked = time.monotonic()
            with suppress(ray.exceptions.RayError):  # a head node that does not answer has other ways to end this run
                nodes = _keys().get_draining_nodes(timeout=ASK_S)
                self.node = ray.get_runtime_context().get_node_id() in nodes
                self._told = bool(_keys().internal_kv_exists(_key(), SPACE, timeout=ASK_S))
        return self.node or self._told


class Telling(Draining):
    """Of a driver: whether it was asked to end, and told its runs."""

    def __init__(self) -> None:
        super().__init__()
        self._told = False

    def tell(self) -> bool:
        """Tell all runs, where that is asked for and was not done."""
        if not self.asked or self._told:
            return False
        self._told = True
        _keys().internal_kv_put(_key(), b"", True, SPACE)
        return True


def _keys() -> Any:
    return ray._private.worker.global_worker.gcs_client  # not public in 2.60


def _key() -> bytes:
    """Return the key of this job."""
    return str(ray.get_runtime_context().get_job_id()).encode()
