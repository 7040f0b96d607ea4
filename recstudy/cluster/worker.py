"""A trial at work, in Tune's own process or on Ray Train's workers: what it tells Ray of, and what Ray asks
of it.

SIGTERM asks a sweep to end: its runs leave after the epoch under way, each with a checkpoint to go on from.
The driver tells it to an actor beside it (messages.py), which each run's process asks.

A run of several workers is one Tune trial that builds one `TorchTrainer` and passes the workers' lines on to
Tune:

    Tune's trial (TrainRun)  <-  Messages  <-  first worker  <->  the other workers

If Tune stops it early, its next line stops it, and its workers end by themselves. Ray Train (2.60) would free
the placement group of a trial that is killed only where the dashboard runs.
"""

import os
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ray
import ray.train
from ray import cloudpickle, tune
from ray.actor import ActorHandle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from recstudy.cluster.messages import ALL, Messages
from recstudy.programs.base import Group
from recstudy.programs.settings import Resources
from recstudy.programs.trial import Report, Trial, Work, with_warnings, worker_group
from recstudy.records import Json
from recstudy.terminal import Draining

# least time between two epochs that Ray hears of: the driver handles some hundred lines a second in all
REPORT_S = 0.1
ASK_S = 2.0  # between two questions whether to leave, of some 0.5 ms each
LOOK_S = 5.0  # between two looks for nodes that are wanted back, of some 3 ms each


# Seconds that the workers of a group wait for each other, as for the first one, which alone computes the
# metrics of a test. A worker that dies or hangs ends its group by itself (watchdog.py), so this need not be
# short.
PATIENCE_S = 86_400
END_S = 10  # for workers to end by themselves

# Resources of the Tune trial, which only starts workers. Tune wants some resource; every head node has this
# one.
COORDINATOR: dict[str, float] = {"node:__internal_head__": 0.001}


def inline(trial: Trial, work: Work, messages: "ActorHandle[Any]") -> None:
    """Do one run as one Tune trial, in Tune's own process. Its last report carries the outcome."""
    # A run that is stopped may need time to end. After two seconds Tune (2.60) would lose the next run,
    # without a callback.
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
    with with_warnings(report) as tell:
        tell(work(trial, throttled(tell, worker_group(trial)), leave))


def throttled(report: Report, group: Group) -> Report:
    """Return `report` for at most one epoch every `REPORT_S`, and for the last. The log on disk has all of
    them.

    A group's workers report the same epochs, as Train wants it.
    """
    reported = float("-inf")

    def report_some(line: dict[str, Any]) -> None:
        nonlocal reported
        last = line["epochs_done"] == line["epochs"]
        if group.broadcast_flag(last or time.monotonic() - reported >= REPORT_S):
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
            # a head node that does not answer has other ways to end this run
            with suppress(ray.exceptions.RayError):
                self._leaves, self.node = ray.get(answer, timeout=ASK_S)
        return self._leaves


class TrainRun(tune.Trainable):
    """One Tune trial is one run. Its last line is its outcome; the process is reused for the next run."""

    load: bytes  # the same for each run: the work, the plug-ins and the Messages actor

    def setup(self, config: dict[str, Trial]) -> None:
        self.workers: threading.Thread | None = None
        self.messages: ActorHandle[Any] = cloudpickle.loads(self.load)[-1]
        self.reset_config(config)

    def reset_config(self, config: dict[str, Trial]) -> bool:
        """Take the next run. False, and Tune starts a new process, where workers of the run before do not
        end.
        """
        if not self.cleanup():
            return False
        self.trial, self.attempt = config["trial"], uuid.uuid4().hex
        self.error: Exception = RuntimeError("its workers ended")
        return True

    def step(self) -> Json:
        if self.workers is None:
            self.workers = threading.Thread(target=self._work, args=(self.attempt,), daemon=True)
            self.workers.start()
        line = ray.get(self.messages.get.remote(self.attempt))
        if line is None:
            raise self.error
        return {**line, "done": "status" in line}

    def _work(self, attempt: str) -> None:
        """Have a trainer of Ray Train run the trial; each of its workers calls `work_in_group`."""
        try:
            # it loads torch, which the driver does not need
            from ray.train.torch import TorchConfig, TorchTrainer

            resources = Resources.model_validate(self.trial.config["resources"])
            gpus = resources.gpus or 0
            # NCCL wants a GPU a worker. What workers agree on beside gradients are tensors on the CPU.
            backend = "cpu:gloo,cuda:nccl" if gpus >= 1 else "gloo"
            TorchTrainer(
                work_in_group,
                train_loop_config={"load": self.load, "trial": self.trial, "attempt": attempt},
                torch_config=TorchConfig(backend=backend, timeout_s=PATIENCE_S),
                scaling_config=ray.train.ScalingConfig(
                    num_workers=resources.workers,
                    use_gpu=gpus > 0,
                    resources_per_worker={"CPU": resources.cpus, **({"GPU": gpus} if gpus else {})},
                ),
                run_config=ray.train.RunConfig(name=self.trial.run_id, storage_path=self.trial.scratch),
            ).fit()
        except Exception as error:
            self.error = error
        finally:
            self.messages.put.remote(attempt, None)

    def cleanup(self) -> bool:
        """Let the workers end, and return whether they have."""
        if self.workers is not None:
            self.messages.stop.remote(self.attempt)
            self.workers.join(END_S)
            if self.workers.is_alive():
                return False
            self.messages.forget.remote(self.attempt)
            self.workers = None
        return True


def train_run(name: str, work: Work, messages: "ActorHandle[Any]") -> type[TrainRun]:
    """Return the trainable of a sweep, under the name that the dashboard's Actors page shows."""
    return type(name, (TrainRun,), {"load": cloudpickle.dumps((work, messages))})


class Stopped(BaseException):
    """Ends a run on a worker because Tune stops its trial."""


def work_in_group(settings: dict[str, Any]) -> None:
    """Execute a run as one worker of its group. Any of the workers may be on a node that Ray is about to take
    away.
    """
    trial = settings["trial"]
    work, messages = cloudpickle.loads(settings["load"])
    group, leave = worker_group(trial), Leave(messages)

    def report(line: Json) -> None:
        if not group.broadcast_result(lambda: bool(ray.get(messages.put.remote(settings["attempt"], line)))):
            raise Stopped

    with suppress(Stopped):
        if group.any_true(leave()):
            report({"status": "drained"})
        else:
            execute(trial, work, report, leave)


class LeaveRequests(Draining):
    """The driver's side: asks runs to leave where the driver was asked to end, or a node is wanted back."""

    def __init__(self) -> None:
        super().__init__()
        on_this_node = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.messages = ray.remote(Messages).options(num_cpus=0, scheduling_strategy=on_this_node).remote()
        self._requests: set[str] = set()
        self._looked = float("-inf")

    def tell(self) -> bool:
        """Ask all runs to leave, where the driver was asked to end; return whether that is new."""
        return self.is_requested and self.request(ALL)

    def request(self, key: str) -> bool:
        """Ask the runs of a node, or all runs, to leave; return whether that is new."""
        is_new = key not in self._requests
        if is_new:
            self._requests.add(key)
            ray.get(self.messages.request.remote(key))
        return is_new

    def leave_draining_nodes(self) -> None:
        """Ask the runs of nodes that Ray is to give back, such as spot machines that end soon, every
        `LOOK_S`.
        """
        if time.monotonic() - self._looked < LOOK_S:
            return
        from ray.autoscaler.v2.sdk import get_cluster_status  # which workers do without

        self._looked = time.monotonic()
        with suppress(ray.exceptions.RayError):
            status = get_cluster_status(ray.get_runtime_context().gcs_address, timeout=3)
            for node in (*status.active_nodes, *status.idle_nodes):
                if node.node_status == "DRAINING":
                    self.request(node.node_id)
