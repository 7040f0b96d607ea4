"""A group of Ray Train workers that serves one run after another, and the Tune trials that hand them to it.

    Tune's trial  <->  Coordinator  <->  WorkerMailbox  <->  first worker  <->  the other workers
                       a process that Tune uses again           processes of Ray Train, kept as long

One group is one `fit()` of Ray Train's: what starts with it, processes, imports, their process group, is there for all of its
runs. It ends with its last run, or with the first that harms it: out of memory, a worker that dies or hangs, a node that is
wanted back. Then another one takes its place, and goes on with the run from its checkpoint.

What is between Tune and the workers, Train's controller too, is in the Coordinator's process, and loads no torch where a run has
one worker: `worker.py` is for those that train.
"""

import asyncio
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import ray
import ray.train
from ray import cloudpickle, tune
from ray.train.v2._internal import constants
from ray.train.v2._internal.callbacks.datasets import DatasetsCallback
from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
from ray.train.v2._internal.execution.controller import TrainController
from ray.train.v2._internal.execution.scaling_policy.autoscaling_coordinator_client import get_or_create_autoscaling_coordinator
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
from ray.tune.execution import class_cache

from recstudy.cluster.mailbox import WorkerMailbox
from recstudy.config import Place
from recstudy.records import Json
from recstudy.train.work import Trial, Work

# Seconds that the workers of a group wait for each other: the first one alone computes the metrics of a test, and a group
# waits for its next run. One that dies or hangs ends the group by itself (watchdog.py), so that this need not be short.
PATIENCE_S = 86_400
RESTARTS = 2  # of a group of workers, or of a trial's process, that was killed
END_S = 10  # for a group to end by itself

# What a Tune process needs that only starts Ray Train workers: no core, and Tune wants something; every head node has this.
COORDINATOR: dict[str, float] = {"node:__internal_head__": 0.001}

Line = dict[str, Any]
Order = Trial | str | None  # to run this trial, whatever is under way; to go on; to end

# Of Train's own (2.60): each starts a process beside every group, seconds of two cores, for data sets of Ray Data, of which there
# are none, and to give room back, which `Groups` does.
NEEDLESS = (DatasetsCallback, PlacementGroupCleanerCallback)

GO_ON = "go on"
HERE: Line = {}  # the first line of workers that have just started
OVER = None  # the last line of a group


class Coordinator(tune.Trainable):
    """One Tune trial is one run: hands it to the group that this process has, and its lines to Tune. The last is its outcome."""

    load: bytes  # the same for each run: what workers do, and with which plug-ins

    def setup(self, config: dict[str, Trial]) -> None:
        self.group: Group | None = None
        self.reset_config(config)

    def reset_config(self, config: dict[str, Trial]) -> bool:
        """Return the next run. What the group was doing is left when it hears of it."""
        self.run, self.lost, self.warnings = config["trial"], 0, list[str]()
        self.order: Order = self.run
        return True

    def step(self) -> Line:
        line = self._next()
        if line.get("status") == "drained" or line.get("class") == "out of memory":
            self.cleanup()
        return {**line, "done": "status" in line}

    def _next(self) -> Line:
        """Return the run's next line; of another group, where this one dies."""
        while True:
            self.group = self.group or Group(self.run, self.load)
            line = self.group.next(self.order)
            if line:
                self.order, warnings, self.warnings = GO_ON, self.warnings, []
                return {**line, "warnings": [*warnings, *line.get("warnings", ())]} if warnings else line
            self.order = self.run
            if line is OVER:
                self._lose(self.group)

    def _lose(self, group: "Group") -> None:
        self.group, self.lost = None, self.lost + 1
        if self.lost > RESTARTS:
            raise group.error or RuntimeError("its group of workers ended")
        self.warnings = ["its workers were lost, and others go on from its checkpoint"]

    def cleanup(self) -> None:
        if self.group is not None:
            self.group.end()
            self.group = None


def coordinator(name: str, work: Work, plugins: Json) -> type[Coordinator]:
    """Return the trainable of a sweep, by whose name the dashboard's Actors page shows it."""
    return type(name, (Coordinator,), {"load": cloudpickle.dumps((work, plugins))})


class Group:
    """Workers that wait for runs, until they are told to end or die.

    Args:
        run: any of those that they are for, whose place says how many and how large they are.
        load: see `Coordinator`.
    """

    def __init__(self, run: Trial, load: bytes) -> None:
        self.error: Exception | None = None  # why it ended by itself
        get_or_create_autoscaling_coordinator()  # else Train's controller would, and wait a second and a half for it (2.60)
        self._mailbox = ray.remote(WorkerMailbox).options(num_cpus=0).remote()
        trainer = _trainer(run, {"mailbox": self._mailbox, "load": load})
        self._life = threading.Thread(target=self._live, args=(trainer,), daemon=True)
        self._life.start()

    def _live(self, trainer: DataParallelTrainer) -> None:
        try:
            trainer.fit()
        except Exception as error:
            self.error = error
        finally:
            self._mailbox.tell.remote(OVER)

    def next(self, order: Order) -> Line | None:
        """Tell the workers what to do, and wait for their next line: HERE, one of a run, or OVER."""
        with suppress(ray.exceptions.RayError):  # the mailbox is lost, and the group with it
            return ray.get(self._mailbox.next.remote(order))
        return OVER

    def end(self) -> None:
        """Let it end, and give back what it holds."""
        self._mailbox.next.remote(None)
        self._life.join(END_S)


def _trainer(run: Trial, settings: dict[str, Any]) -> DataParallelTrainer:
    without_environments()
    place = Place.model_validate(run.config["place"])
    gpus = place.gpus_per_run or 0
    scaling = ray.train.ScalingConfig(
        num_workers=(place.workers_per_run, place.most_workers) if place.max_workers_per_run else place.workers_per_run,
        use_gpu=gpus > 0,
        resources_per_worker={"CPU": place.cpus_per_run, **({"GPU": gpus} if gpus else {})},
    )
    named = ray.train.RunConfig(name=f"group-{uuid.uuid4().hex}", storage_path=run.scratch)
    given = {"train_loop_config": settings, "scaling_config": scaling, "run_config": named}
    if place.most_workers == 1:  # without a process group, neither this process nor Train's controller loads torch: seconds
        return _lean(DataParallelTrainer)(serve, **given)
    from ray.train.torch import TorchConfig, TorchTrainer

    # NCCL wants a GPU a worker; what is agreed on beside the gradients are tensors on the CPU.
    backend = "cpu:gloo,cuda:nccl" if gpus >= 1 else "gloo"
    return _lean(TorchTrainer)(serve, torch_config=TorchConfig(backend=backend, timeout_s=PATIENCE_S), **given)


def _lean(kind: type[DataParallelTrainer]) -> type[DataParallelTrainer]:
    """Return a trainer that starts no process beside its workers'."""

    class Lean(kind):
        def _create_default_callbacks(self) -> list[Any]:
            return [one for one in super()._create_default_callbacks() if not isinstance(one, NEEDLESS)]

        def _initialize_and_run_controller(self, **given: Any) -> ray.train.Result:
            controller = TrainController(**given)
            asyncio.run(controller.run())
            return controller.get_result()

    return Lean


# ----------------------------------------------------------------------------------------------------------- the workers


class Told(BaseException):
    """Ends what a worker is doing, as it is told to do something else."""

    def __init__(self, order: Order) -> None:
        self.order = order


def serve(settings: dict[str, Any]) -> None:
    """Live as a worker: one run after another, in step with the others of its group."""
    from recstudy.train.parallel import first_gives

    def tell(line: Line) -> Order:
        return first_gives(lambda: ray.get(settings["mailbox"].tell.remote(line)))

    work, plugins = cloudpickle.loads(settings["load"])
    order = tell(HERE)
    while isinstance(order, Trial):
        order = _serve(replace(order, plugins=plugins), work, tell)


def _serve(trial: Trial, work: Work, tell: Callable[[Line], Order]) -> Order:
    """Do one run; return the order that comes after it, or that ended it."""
    from recstudy.cluster.worker import beside_others

    try:
        beside_others(trial, work, partial(_report, tell))
    except Told as told:
        return told.order
    raise AssertionError("an outcome is answered by another order than to go on")


def _report(tell: Callable[[Line], Order], line: Line) -> None:
    if (order := tell(line)) != GO_ON:
        raise Told(order)


GIVEN = (class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE, constants.ENV_VARS_TO_PROPAGATE)


def without_environments() -> None:
    """Give what Tune or Train start from now on no variables of its own.

    Ray has begun processes before anybody asked for one, for whoever asks for no environment of its own. Tune and Train (2.60)
    give theirs one: variables of this process. On a cluster of our own they have them by its start, on a joined one by the job.
    Without it a process of Tune's takes one that is there, and Train's worker starts at once, not by way of another.
    """
    for variables in GIVEN:
        variables.clear()
