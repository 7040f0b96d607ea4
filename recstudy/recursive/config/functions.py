"""Registries of optimisers, losses and learning-rate schedules, and the options that each of them takes.

    optimiser   (groups, config, *, options) -> torch.optim.Optimizer
                groups: parameter groups as torch's optimisers take them, some with an `lr` of their own
                config: a TrainConfig
                `step` is called without a closure, so SAM and L-BFGS cannot be used
    loss        (logits, targets, smoothing) -> one number a sample, (N,)
                logits: (N, V) float32
                targets: labels (N,) int64, or shares (N, V) that sum to 1 if labels are mixed
                smoothing: the label smoothing; `recstudy.recursive.train.losses.shares` applies it to either
                kind
    schedule    (config, done, length, *, options) -> the learning rate after `done` of `length` updates
                Groups with a rate of their own are scaled by the same factor

Options are keyword-only arguments. `train.optimizer_options` and `train.schedule_options` set them. The
built-in functions are in `recstudy.recursive.train` and are imported on their first call, so that a config
can be checked without torch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict

from recstudy.base.errors import choices, nearest
from recstudy.plugins import Registry, check_call, import_object
from recstudy.programs.settings import Config

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

OPTIMIZERS: "Registry[Callable[..., Optimizer]]" = Registry("optimizer")
LOSSES: "Registry[Callable[..., Tensor]]" = Registry("loss")
SCHEDULES: Registry[Callable[..., float]] = Registry("schedule")


# Kind of a registered function -> its positional arguments.
CALLED = {
    "optimizer": ("groups", "config"),
    "loss": ("logits", "targets", "smoothing"),
    "schedule": ("config", "done", "length"),
}


@dataclass(frozen=True, eq=False)
class OneOf:
    """Field metadata: the allowed values are the names in a registry."""

    registry: Registry[Any]


class Options(Config):
    """Options of a registered function, by name."""

    model_config = ConfigDict(extra="allow")

    __pydantic_extra__: dict[str, bool | int | float | str]

    def check(self, registry: Registry[Any], name: str) -> None:
        """Check that a registered function takes these options.

        Args:
            registry: The registry of the function.
            name: The function's name there.

        Raises:
            ValueError: An option is not a keyword-only argument of the function.
        """
        function = registry[name]
        # A built-in function is not imported to check its positional arguments: that would load torch.
        if not isinstance(function, LazyFunction):
            check_call(function, *CALLED[registry.kind])
        # Few of the 10,000 configs of a large study have options, so the signature is read only for those.
        parameters = signature(function).parameters.values() if self.__pydantic_extra__ else ()
        option_names = [
            parameter.name for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY
        ]
        takes_any_option = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters)
        for option in self.__pydantic_extra__:
            if option not in option_names and not takes_any_option:
                raise ValueError(
                    f"no option {option!r}: the {registry.kind} {name!r} has"
                    f" {choices(option_names) or 'none'}.{nearest(option, option_names)}"
                )


class LazyFunction:
    """A built-in function that is imported when it is called or its signature is read.

    Args:
        place: Its location as `module:name`.
    """

    def __init__(self, place: str) -> None:
        self.place = place

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return import_object(self.place)(*arguments, **options)

    @property
    def __signature__(self) -> Signature:
        return signature(import_object(self.place))


for name in ("adamw", "adam_atan2", "sgd", "muon"):
    OPTIMIZERS.add(name)(LazyFunction(f"recstudy.recursive.train.optim:{name}"))
for name in ("epoch", "update", "batch", "step"):
    SCHEDULES.add(name)(LazyFunction(f"recstudy.recursive.train.optim:by_{name}"))
for name in ("softmax", "stablemax"):
    LOSSES.add(name)(LazyFunction(f"recstudy.recursive.train.losses:{name}"))
