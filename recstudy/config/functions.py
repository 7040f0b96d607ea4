"""Optimisers, losses and learning-rate schedules by name, and what can be set about each.

    optimiser   (groups, config, *, options) -> torch.optim.Optimizer
                groups: of parameters, as torch's optimisers take them, some with an `lr` of their own;
                    config: a TrainConfig.
                Its `step` is called without a closure, so SAM and L-BFGS cannot be used
    loss        (logits, targets, smoothing, *, options) -> one number a sample, (N,)
                logits (N, V) float32; targets: labels (N,) of int64, or shares (N, V) that sum to 1, where
                labels are mixed; smoothing: of the labels. `recstudy.train.losses.shares` makes smoothed
                shares of either
    schedule    (config, done, length, *, options) -> the learning rate of the weights after `done` of `length` updates; other
                groups train at the same share of their own rate

Options are keywords, which `train.optimizer_options`, `train.loss_options` and `train.schedule_options` set.
recstudy's own are computed in `recstudy.train`, so that a config knows their names without torch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict

from recstudy.errors import choices, nearest
from recstudy.plugins import Registry, check_call, named
from recstudy.programs.settings import Config

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

OPTIMIZERS: "Registry[Callable[..., Optimizer]]" = Registry("optimizer")
LOSSES: "Registry[Callable[..., Tensor]]" = Registry("loss")
SCHEDULES: Registry[Callable[..., float]] = Registry("schedule")


# Kind of a registered function -> what it is called with, apart from its options.
CALLED = {
    "optimizer": ("groups", "config"),
    "loss": ("logits", "targets", "smoothing"),
    "schedule": ("config", "done", "length"),
}


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
        if not isinstance(function, Imported):
            check_call(function, *CALLED[registry.kind])
        # of 10,000 configs few have options
        taken = signature(function).parameters.values() if self.__pydantic_extra__ else ()
        known = [one.name for one in taken if one.kind is Parameter.KEYWORD_ONLY]
        for option in self.__pydantic_extra__:
            if option not in known and not any(one.kind is Parameter.VAR_KEYWORD for one in taken):
                raise ValueError(
                    f"no option {option!r}: the {registry.kind} {name!r} has"
                    f" {choices(known) or 'none'}.{nearest(option, known)}"
                )


class Imported:
    """A function of recstudy's own at `module:name`, imported where it is called or its options are asked
    for.
    """

    def __init__(self, place: str) -> None:
        self.place = place

    def __call__(self, *given: Any, **options: Any) -> Any:
        return named(self.place)(*given, **options)

    @property
    def __signature__(self) -> Signature:
        return signature(named(self.place))


for name in ("adamw", "adam_atan2", "adam", "sgd", "lion", "muon"):
    OPTIMIZERS.add(name)(Imported(f"recstudy.train.optim:{name}"))
for name in ("epoch", "update", "batch", "step"):
    SCHEDULES.add(name)(Imported(f"recstudy.train.optim:by_{name}"))
for name in ("softmax", "stablemax"):
    LOSSES.add(name)(Imported(f"recstudy.train.losses:{name}"))
