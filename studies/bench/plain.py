"""What Ray itself needs for one run: a cluster with its dashboard, a trial of Tune's or one of Train's workers in it, its end.

The run is a step of AdamW on a layer of three weights, so that nearly all of it is what starts: Ray, Tune, Train and torch.
Written as their documentation has it.

    python studies/bench/plain.py tune|train FILE      FILE is written when the step is done
"""

import logging
import sys
import tempfile
from pathlib import Path


def step(done: str) -> None:
    import torch

    layer = torch.nn.Linear(3, 3)
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    Path(done).write_text("done", encoding="utf-8")


def on_tune(settings: dict[str, str]) -> None:
    from ray import tune

    step(settings["done"])
    tune.report({"loss": 0.0})


def on_train(settings: dict[str, str]) -> None:
    from ray import train, tune
    from ray.train.torch import TorchTrainer

    scaling = train.ScalingConfig(num_workers=1, resources_per_worker={"CPU": 1})
    named = train.RunConfig(name="one", storage_path=settings["folder"])
    TorchTrainer(trained, train_loop_config=settings, scaling_config=scaling, run_config=named).fit()
    tune.report({"loss": 0.0})


def trained(settings: dict[str, str]) -> None:
    from ray import train

    step(settings["done"])
    train.report({"loss": 0.0})


def main(kind: str, done: str) -> None:
    import ray
    from ray import tune

    trainable = tune.with_resources(on_tune if kind == "tune" else on_train, {"cpu": 1 if kind == "tune" else 0.5})
    ray.init(address="local", include_dashboard=True, log_to_driver=False, logging_level=logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        space = {"done": done, "folder": folder}
        tune.Tuner(trainable, param_space=space, run_config=tune.RunConfig(storage_path=folder)).fit()
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
