"""A study started from a machine outside the cluster (`ray://HOST:PORT`): its driver runs as a task on the head node.

Tune's driver cannot run through Ray Client, whose callbacks and actors stay on the cluster. So the task runs it, and what
it would show travels back through a queue to the view here; Ctrl-C here ends it there.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import ray
from ray import cloudpickle
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.queue import Empty, Queue

from recstudy.errors import ClusterError, RecstudyError
from recstudy.records import Results
from recstudy.study.cluster import cluster
from recstudy.study.nodes import by_value, check_storage
from recstudy.study.sweep import COORDINATOR, Where
from recstudy.study.view import View

T = TypeVar("T")
Work = Callable[[Where, View], T]

POLL_S = 0.5  # between two looks at whether the driver still runs
STOP_S = 30  # for it to end its runs after a Ctrl-C


def run_at(work: Work[T], results: Results, where: Where, view: View) -> T:
    """What `work(where, view)` gives: called here, or on the head node of a cluster that is reached from outside."""
    if where.address is not None and where.address.startswith("ray://"):
        return on_head(work, results, where, view)
    return work(where, view)


def on_head(work: Work[T], results: Results, where: Where, view: View) -> T:
    """What `work(where, view)` gives, called on the cluster's head node.

    Raises:
        ClusterError: the connection is lost. What was finished is kept.
        RecstudyError: whatever `work` raises.
    """
    results.create()
    with cluster(where.address, view.silent) as dashboard:
        view.connected(dashboard)
        check_storage(results)
        queue = Queue(actor_options={"num_cpus": 0, "resources": COORDINATOR})
        there = replace(where, data=where.data.absolute())
        task = ray.remote(num_cpus=0, resources=COORDINATOR, max_retries=0)(by_value(_drive))
        driver = task.remote(cloudpickle.dumps((work, there, sys.argv, Path.cwd())), queue)
        try:
            _show(driver, queue, view)
            value, error = cloudpickle.loads(ray.get(driver))
        except KeyboardInterrupt:
            _stop(driver)
            raise
        except (RayTaskError, RecstudyError):
            raise
        except (RayError, ConnectionError) as lost:
            raise ClusterError(
                f"the cluster at {where.address} was lost ({type(lost).__name__}). "
                "What was finished is kept: give the same command again."
            ) from None
        if error is not None:
            raise error
        return cast(T, value)


def _show(driver: Any, queue: Queue, view: View) -> None:
    """Replay on `view` what the driver tells its own, until it has ended and all is told."""
    while True:
        ended = bool(ray.wait([driver], timeout=0)[0])
        try:
            while True:
                method, values = cloudpickle.loads(queue.get(timeout=POLL_S))
                getattr(view, method)(*values)
        except Empty:
            if ended:
                return


def _stop(driver: Any) -> None:
    """Ctrl-C, there."""
    ray.cancel(driver, recursive=False)
    with suppress(RayError, GetTimeoutError):
        ray.get(driver, timeout=STOP_S)


# ------------------------------------------------------------------------------------------------------- on the head


def _drive(packed: bytes, queue: Queue) -> bytes:
    """Does the work in a process that looks like the one outside: the plan records its command.

    What passes the Ray Client server is packed, as in `by_value`.
    """
    work, where, command, folder = cloudpickle.loads(packed)
    sys.argv[:] = command
    with suppress(OSError):
        os.chdir(folder)
    try:
        return cloudpickle.dumps((work(where, cast(View, _Told(queue))), None))
    except RecstudyError as error:
        return cloudpickle.dumps((None, error))


class _Told:
    """A view that hands on what it is told."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def __getattr__(self, method: str) -> Callable[..., None]:
        def tell(*values: Any) -> None:
            self._queue.put(cloudpickle.dumps((method, values)))

        return tell
