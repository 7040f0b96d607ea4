"""Where a trial meets Ray: inside Tune's own process, or on Ray Train workers that Tune's process starts."""

from dataclasses import asdict
from typing import Any

import ray.train
from ray import tune
from ray.train.torch import TorchConfig, TorchTrainer
from ray.tune.integration.ray_train import TuneReportCallback

from recstudy.config import Place
from recstudy.train.trial import Report, Trial, run_trial

RESTARTS = 2  # of a group of workers, or of a trial's process, that was killed


def tune_trial(settings: dict[str, Trial]) -> None:
    """The trainable: one Tune trial is one run. Its last report carries the outcome."""
    trial = settings["trial"]
    place = Place.model_validate(trial.config["place"])
    if place.uses_train:
        _on_train_workers(trial, place)
    else:
        tune.report(run_trial(trial, titled(trial.title, tune.report)))


def _on_train_workers(trial: Trial, place: Place) -> None:
    gpus = place.gpus_per_run or 0
    scaling = ray.train.ScalingConfig(
        num_workers=place.workers_per_run,
        use_gpu=gpus > 0,
        resources_per_worker={"CPU": place.cpus_per_run, **({"GPU": gpus} if gpus else {})},
    )
    trainer = TorchTrainer(
        _train_worker,
        train_loop_config=asdict(trial),
        scaling_config=scaling,
        # NCCL wants a GPU a worker; what is agreed on beside the gradients are tensors on the CPU.
        torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if gpus >= 1 else "gloo"),
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
    ray.train.report(run_trial(trial, titled(trial.title, ray.train.report)))


def titled(title: str, report: Report) -> Report:
    """`report`, with the process titled before it and after: Ray puts its own title back at every call."""
    show = ray._raylet.setproctitle  # the setproctitle package has no effect in a Ray worker (2.60)
    show(title)

    def report_and_show(line: dict[str, Any]) -> None:
        report(line)
        show(title)

    return report_and_show
