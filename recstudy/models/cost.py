"""Parameters and FLOPs of a model.

FLOPs are those of the matrix products and convolutions, 2 a multiply-add, of the model as its paper writes it: every token of
every layer, although ours skips outputs that nobody reads. A frozen backbone is not in them: its features are computed once a
data set.
"""

from dataclasses import dataclass

from recstudy.config import RunConfig
from recstudy.models.kept_counts import counted


@dataclass(frozen=True)
class Cost:
    """Of one model on one data set."""

    params: int  # of everything that takes part
    trained_params: int  # without a frozen backbone
    gflops: float  # forward pass in evaluation, an image
    train_gflops: float  # forward and backward passes of all supervision steps on a batch, an image of it


def cost(config: RunConfig) -> Cost:
    """What `config`'s model costs, without early halting."""
    model, train = config.model, config.train
    params, trained_params, forward, blind, step = counted("recstudy.models.counting:count", model, config.data)
    silent = model.silent_steps if train.detach_carry else 0
    steps = steps_a_batch(config)
    trained = silent * blind + (steps - silent) * step
    if model.bootstraps and train.halting == "sample":
        trained += steps * blind  # the halting target looks one step ahead
    return Cost(params + model.frozen_params, trained_params, forward * train.evaluation_steps / 1e9, trained / 1e9)


def steps_a_batch(config: RunConfig) -> int:
    """Supervision steps that a batch is given, without early halting: one, where each sample halts by itself."""
    return 1 if config.train.halting == "sample" else config.train.supervision_steps


def total_pflop(config: RunConfig) -> float | None:
    """Training a run from start to end, without early halting, in PFLOP; None where only the files tell how many images."""
    images = config.training_images
    return None if images is None else cost(config).train_gflops * images * config.train.epochs / 1e6
