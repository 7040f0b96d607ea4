"""A run on Ray Train's workers: one Tune trial builds one `TorchTrainer` and passes the workers' lines on to Tune.

    Tune's trial (TrainRun)  <-  Messages  <-  first worker  <->  the other workers

A run that Tune stops early is stopped by its next line, and its workers end by themselves. Ray Train (2.60) would free the
placement group of a trial that is killed only where the dashboard runs.
"""

import threading
import uuid
from contextlib import suppress
from typing import Any

import ray
import ray.train
from ray import cloudpickle, tune
from ray.actor import ActorHandle

from recstudy.cluster.view import Outcome
from recstudy.programs.settings import Place
from recstudy.programs.trial import Trial, Work, worker_group

# Seconds that the workers of a group wait for each other, as for the first one, which alone computes the metrics of a test. A
# worker that dies or hangs ends its group by itself (watchdog.py), so this need not be short.
PATIENCE_S = 86_400
END_S = 10  # for workers to end by themselves

# Resources of the Tune trial, which only starts workers. Tune wants some resource; every head node has this one.
COORDINATOR: dict[str, float] = {"node:__internal_head__": 0.001}


class TrainRun(tune.Trainable):
    """One Tune trial is one run. Its last line is its outcome; the process is reused for the next run."""

    load: bytes  # the same for each run: the work, the plug-ins and the Messages actor

    def setup(self, config: dict[str, Trial]) -> None:
        self.workers: threading.Thread | None = None
        self.messages: ActorHandle[Any] = cloudpickle.loads(self.load)[-1]
        self.reset_config(config)

    def reset_config(self, config: dict[str, Trial]) -> bool:
        """Take the next run. False, and Tune starts a new process, where workers of the run before do not end."""
        if not self.cleanup():
            return False
        self.trial, self.attempt = config["trial"], uuid.uuid4().hex
        self.error: Exception = RuntimeError("its workers ended")
        return True

    def step(self) -> Outcome:
        if self.workers is None:
            self.workers = threading.Thread(target=self._work, args=(self.attempt,), daemon=True)
            self.workers.start()
        line = ray.get(self.messages.get.remote(self.attempt))
        if line is None:
            raise self.error
        return {**line, "done": "status" in line}

    def _work(self, attempt: str) -> None:
        try:
            make_trainer(self.trial, {"load": self.load, "trial": self.trial, "attempt": attempt}).fit()
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


def make_trainer(trial: Trial, settings: dict[str, Any]) -> Any:
    """Return the trainer of a run; each of its workers calls `work_in_group`."""
    from ray.train.torch import TorchConfig, TorchTrainer  # it loads torch, which the driver does not need

    place = Place.model_validate(trial.config["place"])
    gpus = place.gpus_per_run or 0
    # NCCL wants a GPU a worker. What workers agree on beside gradients are tensors on the CPU.
    backend = "cpu:gloo,cuda:nccl" if gpus >= 1 else "gloo"
    return TorchTrainer(
        work_in_group,
        train_loop_config=settings,
        torch_config=TorchConfig(backend=backend, timeout_s=PATIENCE_S),
        scaling_config=ray.train.ScalingConfig(
            num_workers=place.workers_per_run,
            use_gpu=gpus > 0,
            resources_per_worker={"CPU": place.cpus_per_run, **({"GPU": gpus} if gpus else {})},
        ),
        run_config=ray.train.RunConfig(name=trial.run_id, storage_path=trial.scratch),
    )


class Stopped(BaseException):
    """Ends a run on a worker because Tune stops its trial."""


def work_in_group(settings: dict[str, Any]) -> None:
    """Do one run as one worker, in step with the others of its group, of which any may be on a node that is wanted back."""
    from recstudy.cluster.worker import Leave, execute

    trial = settings["trial"]
    work, messages = cloudpickle.loads(settings["load"])
    group, leave = worker_group(trial), Leave(messages)

    def report(line: Outcome) -> None:
        if not group.first_gives(lambda: bool(ray.get(messages.put.remote(settings["attempt"], line)))):
            raise Stopped

    with suppress(Stopped):
        if group.any_says(leave()):
            report({"status": "drained"})
        else:
            execute(trial, work, report, leave)
