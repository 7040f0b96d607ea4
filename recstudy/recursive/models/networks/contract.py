"""The interface of every network, recursive or not.

    start(images, context) -> carry                the states before the first supervision step
    forward(images, carry) -> (output, carry)      ONE supervision step

The first dimension of each tensor of a carry is the batch, so that part of a batch can restart.

Both methods are pure, so that a step can be compiled: they do not change the module and do not wait for the
device. The training loop detaches the carry, halts samples and runs the optimiser.

Shapes: B images, C channels, K classes.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from recstudy.base.errors import ConfigError
from recstudy.plugins import check_call
from recstudy.recursive.config.parts import DataConfig, ModelConfig
from recstudy.recursive.config.tasks import TASKS

Carry = tuple[Tensor, ...]


class Output(NamedTuple):
    """The output of one supervision step."""

    # (B, K) of a classifier; (B, T, V) of a captioner, for the next token; (B, S, V) of a puzzle, for each
    # cell
    logits: Tensor
    # (B,) logit that the answer is correct; None without a halting head
    halt: Tensor | None = None
    # (B,) logit of the value of one more step (HRM); None for models without it
    proceed: Tensor | None = None
    loss: Tensor | None = None  # (B,) the model's own loss, if it does not follow from the logits (FuseLIP)
    extra: Tensor | None = None  # scalar that is added to the task's loss (load balancing, attention penalty)


class Network(nn.Module, ABC):
    """A network with the interface of this module."""

    # Name of a weight -> lower and upper bound, to which each update clamps it.
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {}
    outer_parts: ClassVar[frozenset[str]] = frozenset(
        # Names of embeddings and heads. The optimiser `muon` leaves their matrices to AdamW.
        ("embed", "answer", "classify", "q_head", "halt", "head", "mask_head", "fc", "classifier")
    )

    is_compiled = False  # a compiled graph is for batches of one shape
    has_graphs = False  # it runs as CUDA graphs, whose next replay overwrites the output

    @abstractmethod
    def start(self, images: Tensor, context: Tensor | None = None) -> Carry:
        """Return the first carry.

        Args:
            images: The images.
            context: The patient or puzzle of each image (B,), for models with such embeddings; the tokens of
                its caption (B, T), for captioners.
        """

    @abstractmethod
    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]: ...

    def compile_steps(self, mode: str | None = None) -> None:
        """Compile `forward` in place, so that training and evaluation need no other name for it.

        Args:
            mode: The mode of torch.compile; by default its own.
        """
        self.is_compiled, self.has_graphs = True, mode == "reduce-overhead"
        self.compile(dynamic=False, mode=mode)

    def deepen(self, share: float) -> None:
        """Set the recursion depth of training after this share of the updates; by default it is constant."""


class VisionEncoder(nn.Module):
    """The part of a network that reads pixels. `train.backbone_learning_rate` applies to its weights."""


def vision_weights(network: nn.Module) -> set[int]:
    """Return the ids of the weights of all vision encoders in a network."""
    encoders = [module for module in network.modules() if isinstance(module, VisionEncoder)]
    return {id(weight) for encoder in encoders for weight in encoder.parameters()}


def example(model: ModelConfig, data: DataConfig, count: int) -> tuple[Tensor, Tensor | None]:
    """Return example inputs of a network, with which FLOPs and memory are counted.

    Args:
        model: The model's settings.
        data: The data set's settings.
        count: The number of images.

    Returns:
        Images as the network reads them, and their context for `Network.start`.
    """
    task = TASKS[model.task or data.task]
    context = task.context(torch.ones(count, *task.labels.sides(data), dtype=torch.int64), None, None)
    return torch.zeros(count, *model.input_shape(data.shape)), context


def on_paper(tensor: Tensor) -> bool:
    """Return whether a tensor has a shape but no values, because the model's cost is being counted."""
    return tensor.is_meta or isinstance(tensor, FakeTensor)


def build(model: ModelConfig, data: DataConfig) -> Network:
    """Build the network of a model for a data set, with random initial weights.

    Raises:
        ConfigError: The family's network does not have the interface of `Network`.
    """
    network = model.build(data.shape, data.classes)
    if not isinstance(network, Network):
        raise ConfigError(
            f"the family {model.family!r} builds a {type(network).__name__}, which is no subclass of"
            " recstudy.recursive.models.networks.contract.Network"
        )
    check_call(network.start, "images", "context")
    check_call(network.forward, "images", "carry")
    return network
