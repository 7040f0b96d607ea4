"""Optimisers, losses and learning-rate schedules by name, and what can be set about each.

    optimiser   (groups, config, *, options) -> torch.optim.Optimizer
                groups: of parameters, as torch's optimisers take them, some with an `lr` of their own; config: a TrainConfig.
                One whose `step(closure)` demands a closure is given one, which computes loss and gradients anew (SAM)
    loss        (logits, targets, smoothing, *, options) -> one number a sample, (N,)
                logits (N, V) float32; targets: labels (N,) of int64, or shares (N, V) that sum to 1, where labels are mixed;
                smoothing: of the labels. `recstudy.train.losses.shares` makes smoothed shares of either
    schedule    (config, done, length, *, options) -> the learning rate of the weights after `done` of `length` updates; other
                groups train at the same share of their own rate

Options are keywords, which `train.optimizer_options`, `train.loss_options` and `train.schedule_options` set. recstudy's own
are computed in `recstudy.train`, so that a config knows their names without torch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict

from recstudy.config.base import Config
from recstudy.errors import choices, nearest
from recstudy.plugins import Registry, named

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

    from recstudy.config.train import TrainConfig

OPTIMIZERS: "Registry[Callable[..., Optimizer]]" = Registry("optimizer")
LOSSES: "Registry[Callable[..., Tensor]]" = Registry("loss")
SCHEDULES: Registry[Callable[..., float]] = Registry("schedule")


@dataclass(frozen=True, eq=False)
class OneOf:
    """Says of a field that its values are the names of a registry."""

    registry: Registry[Any]


class Options(Config):
    """Any settings by name."""

    model_config = ConfigDict(extra="allow")

    __pydantic_extra__: dict[str, bool | int | float | str]

    def check(self, registry: Registry[Any], name: str) -> None:
        """Refuse (ValueError) what the registered function of this name does not take."""
        function = registry[name]
        taken = signature(function).parameters.values() if self.__pydantic_extra__ else ()  # of 10,000 configs few have options
        known = [one.name for one in taken if one.kind is Parameter.KEYWORD_ONLY]
        for option in self.__pydantic_extra__:
            if option not in known and not any(one.kind is Parameter.VAR_KEYWORD for one in taken):
                raise ValueError(
                    f"no option {option!r}: the {registry.kind} {name!r} has {choices(known) or 'none'}.{nearest(option, known)}"
                )


@OPTIMIZERS.add("adamw")
def adamw(groups: list[dict[str, Any]], config: "TrainConfig") -> "Optimizer":
    """AdamW."""
    return named("recstudy.train.optim:adamw")(groups, config)


@OPTIMIZERS.add("adam_atan2")
def adam_atan2(groups: list[dict[str, Any]], config: "TrainConfig") -> "Optimizer":
    """Adam whose step is an arctangent, without an epsilon (HRM, TRM)."""
    return named("recstudy.train.optim:adam_atan2")(groups, config)


@OPTIMIZERS.add("adam")
def adam(groups: list[dict[str, Any]], config: "TrainConfig") -> "Optimizer":
    """Plain Adam, whose weight decay is a part of the gradient."""
    return named("recstudy.train.optim:adam")(groups, config)


@OPTIMIZERS.add("sgd")
def sgd(groups: list[dict[str, Any]], config: "TrainConfig", *, momentum: float = 0.9, nesterov: bool = False) -> "Optimizer":
    """Stochastic gradient descent with momentum, whose weight decay is a part of the gradient."""
    return named("recstudy.train.optim:sgd")(groups, config, momentum=momentum, nesterov=nesterov)


@OPTIMIZERS.add("lion")
def lion(groups: list[dict[str, Any]], config: "TrainConfig") -> "Optimizer":
    """The sign of an interpolated momentum (Chen et al. 2023)."""
    return named("recstudy.train.optim:lion")(groups, config)


@LOSSES.add("softmax")
def softmax(logits: "Tensor", targets: "Tensor", smoothing: float = 0.0) -> "Tensor":
    """The cross-entropy of softmax's probabilities."""
    return named("recstudy.train.losses:softmax")(logits, targets, smoothing)


@LOSSES.add("stablemax")
def stablemax(logits: "Tensor", targets: "Tensor", smoothing: float = 0.0) -> "Tensor":
    """The cross-entropy of stablemax's probabilities (HRM, TRM)."""
    return named("recstudy.train.losses:stablemax")(logits, targets, smoothing)


@SCHEDULES.add("epoch")
def epoch(config: "TrainConfig", done: int, length: int) -> float:
    """The cosine after a warm-up, of epochs (ViTRM)."""
    return named("recstudy.train.optim:cosine")(config, done, length)


@SCHEDULES.add("update")
def update(config: "TrainConfig", done: int, length: int) -> float:
    """The cosine after a warm-up, of optimiser updates, from 1 (HRM, TRM)."""
    return named("recstudy.train.optim:cosine")(config, done + 1, length)


@SCHEDULES.add("batch")
def batch(config: "TrainConfig", done: int, length: int) -> float:
    """The cosine of updates, against a length in batches, all of it after the warm-up (HRM-Small-Images)."""
    return named("recstudy.train.optim:cosine")(config, done, length, over=length)


@SCHEDULES.add("step")
def step(config: "TrainConfig", done: int, length: int) -> float:
    """A tenth of the rate from the middle epoch on, in place of the cosine (MicarVLMoE)."""
    return named("recstudy.train.optim:halves")(config, done, length)
