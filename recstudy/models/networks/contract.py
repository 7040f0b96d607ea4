"""What every network gives, recursive or not.

    start(images, context) -> carry                the states before the first supervision step
    forward(images, carry) -> (output, carry)   ONE supervision step

Every tensor of a carry has the batch as its first dimension, so that a part of the batch can start anew.

Both are pure: nothing is written on the module and nothing waits for the device, so that a step can be
compiled. The training loop detaches the carry, halts and steps the optimiser.

Shapes: B images, C channels, K classes.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from recstudy.config import DataConfig, ModelConfig
from recstudy.errors import ConfigError
from recstudy.metrics import TASKS
from recstudy.plugins import check_call

Carry = tuple[Tensor, ...]


class Output(NamedTuple):
    """What one supervision step says."""

    # (B, K); of a captioner (B, T, V), each token's successor; of a puzzle (B, S, V), each cell
    logits: Tensor
    # (B,) logit of "this answer is right"; None where the model has no halting head
    halt: Tensor | None = None
    # (B,) logit of the value of one step more (HRM); None where halting is judged alone
    proceed: Tensor | None = None
    loss: Tensor | None = None  # (B,) the model's own, where it is none of its logits (FuseLIP)
    extra: Tensor | None = None  # () added to the loss beside the task's (load balancing, attention penalty)


class Network(nn.Module, ABC):
    """A network of the contract above."""

    # of weights that every update leaves between two numbers, by name
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {}
    outer_parts: ClassVar[frozenset[str]] = frozenset(
        # names of embeddings and heads, whose matrices the optimizer `muon` leaves to AdamW
        ("embed", "answer", "classify", "q_head", "halt", "head", "mask_head", "fc", "classifier")
    )

    @abstractmethod
    def start(self, images: Tensor, context: Tensor | None = None) -> Carry:
        """Return the first carry. `context`: the patient of each image (B,), for models that look patients up;
        or the tokens of its caption (B, T), for captioners."""

    @abstractmethod
    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]: ...

    def deepen(self, share: float) -> None:
        """Make the recursion of training as deep as it is after this share of its updates; by default it
        stays as it is.
        """


class VisionEncoder(nn.Module):
    """A part of a network that sees pixels, whose weights `train.backbone_learning_rate` is the learning rate
    of.
    """


def example(model: ModelConfig, data: DataConfig, count: int) -> tuple[Tensor, Tensor | None]:
    """Return so many images as the network reads them, and what it is told beside them; to count and to
    measure with.
    """
    task = TASKS[model.task or data.task]
    context = task.context(torch.ones(count, *task.labels.sides(data), dtype=torch.int64), None, None)
    return torch.zeros(count, *model.input_shape(data.shape)), context


def on_paper(tensor: Tensor) -> bool:
    """Return whether a tensor has a shape and no values: a model is being counted."""
    return tensor.is_meta or isinstance(tensor, FakeTensor)


def build(model: ModelConfig, data: DataConfig) -> Network:
    """Return the network of a model config for the images of a data set, with freshly drawn weights."""
    network = model.build(data.shape, data.classes)
    if not isinstance(network, Network):
        raise ConfigError(
            f"the family {model.family!r} gives a {type(network).__name__}, which is no"
            " recstudy.models.networks.contract.Network"
        )
    check_call(network.start, "images", "context")
    check_call(network.forward, "images", "carry")
    return network
