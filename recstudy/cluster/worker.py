"""Execute a trial in Tune's process or on Ray Train's workers, and report its lines to Ray.

After the first SIGTERM, each run saves a checkpoint at the end of its epoch and ends. The driver sends this
request to an actor (messages.py), which the process of each run polls. Ctrl-C ends the driver, and with it
the runs, at once.

A run with several workers is a Tune trial that starts a `TorchTrainer` and passes the workers' lines to Tune:

    Tune's trial (TrainRun)  <-  Messages  <-  first worker  <->  the other workers

If Tune stops the trial early, its workers end at their next line. They are not killed, because Ray Train
(2.60) frees the placement group of a killed trial only if the dashboard runs.
"""

import os
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import ray
import ray.train
from ray import cloudpickle, tune
from ray.actor import ActorHandle
from ray.util.placement_group import PlacementGroup, placement_group

from recstudy.cluster.messages import WORKERS_ENDED, Leave
from recstudy.programs.attempt import Group, Report, Trial
from recstudy.programs.settings import Resources
from recstudy.programs.trial import WorkerFailed, run_trial, with_warnings, worker_group
from recstudy.records import Json

# least time between two reported epochs of a run: the driver handles about a hundred lines per second
REPORT_S = 0.1


# Time limit in seconds for the workers of a group to wait for each other. It is long, because the first
# worker computes the test metrics while the others wait. The watchdog (programs/watchdog.py) ends a group
# that hangs.
PATIENCE_S = 86_400
END_S = 10  # time for workers to end

# Resources of a Tune trial that only starts workers. Tune needs a resource; each head node has this one.
COORDINATOR: dict[str, float] = {"node:__internal_head__": 0.001}


class CheckedNodes(tune.PlacementGroupFactory):
    """The resources of a trial, on nodes that have not failed the checks when Tune places it."""

    labels: ClassVar[Callable[[], dict[str, str]]] = dict  # of the running sweep

    def to_placement_group(self) -> PlacementGroup:
        return placement_group(self.bundles, bundle_label_selector=[CheckedNodes.labels()])


def inline(trial: Trial, messages: "ActorHandle[Any]") -> None:
    """Execute a run as a Tune trial in Tune's process. The last report contains the outcome."""
    # A stopped run may need time to end. By default, Tune (2.60) would lose the next run after two seconds
    # without a callback.
    os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = "86400"
    leave = Leave(messages)
    if not leave():
        # a value named `done` would end the trial
        execute(trial, lambda line: tune.report({**line, "done": False}), leave)
    elif leave.node:
        # Tune starts a process for the run on another node once this one, of a drained node, has ended. An
        # exception would not end it, because Tune runs the trial in a thread.
        os._exit(0)
    else:
        tune.report({"status": "drained"})  # the run left early and can resume


def execute(trial: Trial, report: Report, leave: Callable[[], bool]) -> None:
    """Execute a run. `report` receives its lines and then its outcome."""
    with with_warnings(report) as tell:
        tell(run_trial(trial, throttled(tell, worker_group(trial)), leave))


def throttled(report: Report, group: Group) -> Report:
    """Return a `report` that drops epochs within `REPORT_S` of the last one, except for the last epoch.

    `epochs.jsonl` contains all epochs. The workers of a group report the same epochs, as Train requires.
    """
    report_time = float("-inf")

    def report_some(line: Json) -> None:
        nonlocal report_time
        last = line["epochs_done"] == line["epochs"]
        if group.broadcast_flag(last or time.monotonic() - report_time >= REPORT_S):
            report(line)
            report_time = time.monotonic()

    return report_some


class TrainRun(tune.Trainable):
    """A Tune trial that executes a run on several workers. Its process is reused for the next run."""

    load: bytes  # pickled Messages actor, the same for each run

    def setup(self, config: dict[str, Trial]) -> None:
        self.workers: threading.Thread | None = None
        self.messages: ActorHandle[Any] = cloudpickle.loads(self.load)
        self.reset_config(config)

    def reset_config(self, config: dict[str, Trial]) -> bool:
        """Prepare the next run. Return False if old workers do not end, so that Tune starts a new process."""
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
        if line == WORKERS_ENDED:
            raise self.error
        return {**line, "done": "status" in line}

    def _work(self, attempt: str) -> None:
        """Execute the trial with Ray Train. Each worker calls `work_in_group`."""
        try:
            # imports torch, which the driver does not need
            from ray.train.torch import TorchConfig, TorchTrainer

            resources = Resources.model_validate(self.trial.config["resources"])
            gpus = resources.gpus or 0
            # NCCL needs a GPU per worker. Gradients use NCCL; flags of the group are CPU tensors (gloo).
            backend = "cpu:gloo,cuda:nccl" if gpus >= 1 else "gloo"
            TorchTrainer(
                work_in_group,
                train_loop_config={"load": self.load, "trial": self.trial, "attempt": attempt},
                torch_config=TorchConfig(backend=backend, timeout_s=PATIENCE_S),
                scaling_config=ray.train.ScalingConfig(
                    num_workers=resources.workers,
                    use_gpu=gpus > 0,
                    label_selector=dict(self.trial.labels) or None,
                    resources_per_worker={"CPU": resources.cpus, **({"GPU": gpus} if gpus else {})},
                ),
                run_config=ray.train.RunConfig(name=self.trial.run_id, storage_path=self.trial.scratch),
            ).fit()
        except Exception as error:
            self.error = error
        finally:
            self.messages.add_line.remote(attempt, WORKERS_ENDED)

    def cleanup(self) -> bool:
        """Stop the workers, and return whether they have ended."""
        if self.workers is not None:
            self.messages.stop.remote(self.attempt)
            self.workers.join(END_S)
            if self.workers.is_alive():
                return False
            self.messages.discard_lines.remote(self.attempt)
            self.workers = None
        return True


def train_run(name: str, messages: "ActorHandle[Any]") -> type[TrainRun]:
    """Return the trainable of a sweep. Its name is shown on the Actors page of the dashboard."""
    return type(name, (TrainRun,), {"load": cloudpickle.dumps(messages)})


class TrialStopped(BaseException):
    """Raised in a worker if Tune stops its trial."""


def work_in_group(settings: Json) -> None:
    """Execute a run as a worker of its group. The run ends early if the node of any worker is drained."""
    trial = settings["trial"]
    messages = cloudpickle.loads(settings["load"])
    group, leave = worker_group(trial), Leave(messages)

    def report(line: Json) -> None:
        if not group.broadcast_result(
            lambda: bool(ray.get(messages.add_line.remote(settings["attempt"], line)))
        ):
            raise TrialStopped

    with suppress(TrialStopped):
        if group.any_true(leave()):
            report({"status": "drained"})
        else:
            try:
                execute(trial, report, leave)
            except WorkerFailed as failed:  # without the other workers, which may wait for this one
                ray.get(messages.add_line.remote(settings["attempt"], failed.outcome))
                raise
