"""What every network gives, recursive or not.

    start(images, groups) -> carry              the states before the first supervision step
    forward(images, carry) -> (output, carry)   ONE supervision step

Every tensor of a carry has the batch as its first dimension, so that a part of the batch can start anew.

Both are pure: nothing is written on the module and nothing waits for the device, so that a step can be compiled.
The training loop detaches the carry, halts and steps the optimiser.

Shapes: B images, C channels, K classes.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor, nn

from recstudy.config import DataConfig, ModelConfig

Carry = tuple[Tensor, ...]


class Output(NamedTuple):
    """What one supervision step says."""

    logits: Tensor  # (B, K)
    halt: Tensor | None = None  # (B,) logit of "this answer is right"; None where the model has no halting head
    proceed: Tensor | None = None  # (B,) logit of the value of one step more (HRM); None where halting is judged alone


class Network(nn.Module, ABC):
    """A network of the contract above."""

    @abstractmethod
    def start(self, images: Tensor, groups: Tensor | None = None) -> Carry:
        """The first carry. `groups` (B,): the patient of each image; only models that look them up need it."""

    @abstractmethod
    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]: ...


def build(model: ModelConfig, data: DataConfig) -> Network:
    """The network of a model config for the images of a data set, with freshly drawn weights."""
    network = model.build(data.shape, data.classes)
    assert isinstance(network, Network), f"{model.family} gives no Network"
    return network
