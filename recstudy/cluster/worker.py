"""Where a trial meets Ray: inside Tune's own process, or on Ray Train workers that Tune's process starts."""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

import ray
import ray.train
from ray import tune
from ray.train.torch import TorchConfig, TorchTrainer
from ray.train.v2._internal.constants import ENV_VARS_TO_PROPAGATE
from ray.tune.integration.ray_train import TuneReportCallback

from recstudy.config import Place
from recstudy.train.parallel import first_says
from recstudy.train.trial import Report, Trial, run_trial

# Seconds that the workers of a group wait for each other: the first one alone computes the metrics of a test. One that dies
# or hangs ends the group by itself (watchdog.py), so that this need not be short.
PATIENCE_S = 86_400
RESTARTS = 2  # of a group of workers, or of a trial's process, that was killed
REPORT_S = 0.1  # least time between two epochs that Ray hears of: the driver handles some hundred lines a second in all
ASK_S = 5.0  # between two questions whether the node is drained; notices come a minute or more ahead


def tune_trial(settings: dict[str, Trial]) -> None:
    """The trainable: one Tune trial is one run. Its last report carries the outcome."""
    trial = settings["trial"]
    place = Place.model_validate(trial.config["place"])
    if place.uses_train:
        _on_train_workers(trial, place)
    else:
        leave = Draining()
        if leave():  # a warm process of a node that is wanted back: Tune starts another one elsewhere
            os._exit(0)
        with warning(tune.report) as report:
            report(run_trial(trial, throttled(titled(trial.title, report)), leave))


def _on_train_workers(trial: Trial, place: Place) -> None:
    # Who gives the group's room back after an early stop asks some cluster of this machine otherwise (Ray 2.60).
    os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
    ENV_VARS_TO_PROPAGATE.add("RAY_ADDRESS")
    gpus = place.gpus_per_run or 0
    scaling = ray.train.ScalingConfig(
        num_workers=(place.workers_per_run, place.most_workers) if place.max_workers_per_run else place.workers_per_run,
        use_gpu=gpus > 0,
        resources_per_worker={"CPU": place.cpus_per_run, **({"GPU": gpus} if gpus else {})},
    )
    trainer = TorchTrainer(
        _train_worker,
        train_loop_config=asdict(trial),
        scaling_config=scaling,
        # NCCL wants a GPU a worker; what is agreed on beside the gradients are tensors on the CPU.
        torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if gpus >= 1 else "gloo", timeout_s=PATIENCE_S),
        run_config=ray.train.RunConfig(
            name=f"train-{trial.run_id}",
            storage_path=trial.scratch,
            callbacks=[TuneReportCallback()],
            failure_config=ray.train.FailureConfig(max_failures=RESTARTS),
        ),
    )
    trainer.fit()


def _train_worker(values: dict[str, Any]) -> None:
    """One worker of a group: reports in step with the others, as Train wants it."""
    trial = Trial(**values)
    with warning(ray.train.report) as report:
        report(run_trial(trial, throttled(titled(trial.title, report)), Draining()))


@contextmanager
def warning(report: Report) -> Iterator[Report]:
    """`report`, which takes along what our code has warned of in this process since the report before."""
    told: list[str] = []
    handler, logger = logging.Handler(logging.WARNING), logging.getLogger("recstudy")
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]

    def report_and_warn(line: dict[str, Any]) -> None:
        report({**line, "warnings": told.copy()} if told else line)
        told.clear()

    logger.addHandler(handler)
    try:
        yield report_and_warn
    finally:
        logger.removeHandler(handler)


def titled(title: str, report: Report) -> Report:
    """`report`, with the process titled before it and after: Ray puts its own title back at every call."""
    show = ray._raylet.setproctitle  # the setproctitle package has no effect in a Ray worker (2.60)
    show(title)

    def report_and_show(line: dict[str, Any]) -> None:
        report(line)
        show(title)

    return report_and_show


def throttled(report: Report) -> Report:
    """`report` for at most one epoch every `REPORT_S`, and for the last. The log on disk has all of them.

    A group's workers report the same epochs, as Train wants it.
    """
    reported = float("-inf")

    def report_some(line: dict[str, Any]) -> None:
        nonlocal reported
        last = line["epochs_done"] >= line["epochs"]
        if first_says(last or time.monotonic() - reported >= REPORT_S):
            report(line)
            reported = time.monotonic()

    return report_some


class Draining:
    """Whether Ray wants this node back, such as a spot machine before it goes; asked anew every `ASK_S`."""

    def __init__(self) -> None:
        self._answer, self._asked = False, float("-inf")

    def __call__(self) -> bool:
        if time.monotonic() - self._asked >= ASK_S:
            self._asked = time.monotonic()
            with suppress(ray.exceptions.RayError):  # a head node that does not answer has other ways to end this run
                nodes = ray._private.worker.global_worker.gcs_client.get_draining_nodes(timeout=ASK_S)  # not public in 2.60
                self._answer = ray.get_runtime_context().get_node_id() in nodes
        return self._answer
