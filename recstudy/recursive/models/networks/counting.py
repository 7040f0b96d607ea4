"""Count the parameters, FLOPs and memory of a network without allocating its weights.

Tensors of torch's `meta` device only have shapes. The memory of a training step in bfloat16 is counted with
fake tensors of a CPU, because autocast ignores the `meta` device. `recstudy.recursive.models.costs` saves the
counts.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from recstudy.base.errors import ConfigError
from recstudy.plugins.registry import is_users
from recstudy.recursive.config.parts import DataConfig, ModelConfig
from recstudy.recursive.config.tasks import TASKS
from recstudy.recursive.models.networks.contract import Network, build, example
from recstudy.recursive.models.networks.layers import Block


@contextmanager
def refuse_overflow(model: ModelConfig) -> Iterator[None]:
    """Raise a ConfigError if a tensor of the model or a batch has more elements than an integer can count."""
    try:
        yield
    except (RuntimeError, TypeError) as error:
        if "verflow" not in str(error):
            raise
        raise ConfigError(
            f"{model.title}, or a batch of it, is too large for any computer. Lower its sizes"
        ) from None


def trains_on_one_image(model: ModelConfig, data: DataConfig) -> bool:
    """Return whether a model with batch norm can train on a batch of one image.

    It cannot if a batch norm reads a single position of each image.
    """
    with torch.device("meta"), suppress(ValueError):
        network, (images, context) = build(model, data).train(), example(model, data, 1)
        network(images, network.start(images, context))
        return True
    return False


def count(model: ModelConfig, data: DataConfig) -> tuple[int, ...]:
    """Count the parameters, and the FLOPs per image and the kernels of one supervision step.

    Returns:
        All parameters, trained parameters, and the FLOPs of an evaluation step, of a training step without
        its backward pass, and of a training step with it; then the kernels of these three,
        and those of an evaluation step of a captioner on one token.
    """
    with torch.device("meta"), refuse_overflow(model):
        network = build(model, data)
        images, context = example(model, data, 2)  # two, because batch norm refuses to train on one value
    for module in network.modules():
        if isinstance(module, Block):
            module.skip_unread = False  # papers count every token of every layer
    params = sum(weight.numel() for weight in network.parameters())
    trained_params = sum(weight.numel() for weight in network.parameters() if weight.requires_grad)
    check_outputs(network.eval(), model, data, images, context)
    with FlopCounter() as counter:
        with torch.no_grad():
            network(images, network.start(images, context))
            test = counter.flops, counter.kernels
            if context is not None and TASKS[model.task or data.task].output == "caption":
                network(images, network.start(images, context[:, :1]))
            token_kernels = counter.kernels - test[1]
        network.train()
        counter.flops = counter.kernels = 0
        output, _ = network(images, network.start(images, context))
        forward = counter.flops, counter.kernels
        (output.logits.sum() + (0 if output.halt is None else output.halt.sum())).backward()
        step = counter.flops, counter.kernels
    flops, kernels = zip(test, forward, step, strict=True)
    return params, trained_params, *(count // len(images) for count in flops), *kernels, token_kernels


_CALLS: dict[Any, tuple[int, Any]] = {}  # an operation and the forms of its arguments -> FLOPs, output forms


class FlopCounter(TorchDispatchMode):
    """Count the kernels of operations on meta tensors (all but views), and their FLOPs by torch's formulas.

    Torch computes the shapes of most outputs in Python, which takes 0.1 to 0.4 ms. A step of a captioner has
    10,000 operations, and most of them repeat another one with the same shapes, so outputs are remembered.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = self.kernels = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        key = (func, _form(args), _form(tuple(kwargs.items())))
        if key in _CALLS:
            flops, form = _CALLS[key]
            self.flops, self.kernels = self.flops + flops, self.kernels + 1
            return args[0] if form is None else _tensors(form)
        output = func(*args, **kwargs)
        formula = flop_registry.get(func._overloadpacket)
        flops = formula(*args, **kwargs, out_val=output) if formula else 0
        self.flops += flops
        outputs = output if isinstance(output, tuple) else (output,)
        is_in_place = bool(args) and output is args[0]
        is_view = not is_in_place and any(returned.alias_info for returned in func._schema.returns)
        self.kernels += not is_view
        # An operation such as `transpose_` changes the form of its argument, so it is always called.
        is_reshaped = is_in_place and _form(output) != key[1][0]
        if not (is_view or is_reshaped) and all(isinstance(tensor, Tensor | None) for tensor in outputs):
            _CALLS[key] = flops, None if is_in_place else _form(output)
        return output


class FlashAttention(TorchFunctionMode):
    """Let attention without dropout keep no scores for its backward pass, as its kernel on a CPU does."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        if func is nn.functional.scaled_dot_product_attention and not options.get("dropout_p"):
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*args, **options)[0]
        return func(*args, **options)


class TensorForm(NamedTuple):
    """What a meta tensor has."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


def _form(value: Any) -> Any:
    if isinstance(value, Tensor):
        return TensorForm(value.shape, value.stride(), value.dtype, value.device)
    if isinstance(value, tuple | list):
        return tuple(map(_form, value))
    return value if value is None else (type(value), value)  # 1 and 1.0 give other types


def _tensors(form: Any) -> Any:
    if isinstance(form, TensorForm):
        shape, stride, dtype, device = form
        return torch.empty_strided(shape, stride, dtype=dtype, device=device)
    return form and tuple(map(_tensors, form))


def check_outputs(
    network: Network, model: ModelConfig, data: DataConfig, images: Tensor, context: Tensor | None
) -> None:
    """Check that a user's classifier has one output per class.

    Raises:
        ConfigError: It has another number of outputs.
    """
    # The loss would accept more outputs than classes.
    if is_users(type(model)) and (model.task or data.task) in ("multiclass", "multilabel"):
        output, _ = network(images, network.start(images, context))
        if output.logits.shape != (len(images), data.classes):
            outputs = "x".join(map(str, output.logits.shape[1:]))
            raise ConfigError(
                f"the network of {model.title} has {outputs} outputs for the {data.classes} classes of"
                f" {data.title}. Its logits must be (images, {data.classes})"
            )


def saved(model: ModelConfig, data: DataConfig, images: int, steps: int, half: bool) -> tuple[int, int]:
    """Return the bytes of the weights, and of the tensors that are saved for the backward pass.

    Args:
        model: The model's settings.
        data: The data set's settings.
        images: Number of images of a batch.
        steps: Number of supervision steps whose activations are in memory at once.
        half: Whether matrix products are in bfloat16.
    """
    # By the storage's number. A reference to the tensor prevents that another storage gets the same number.
    saved_tensors: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        saved_tensors.setdefault(_storage(tensor), tensor)
        return tensor

    with ExitStack() as stack:
        stack.enter_context(refuse_overflow(model))
        with torch.device("meta"):
            network = build(model, data).train()
        weights = sum(weight.nbytes for weight in network.parameters())
        if half:
            # allow_non_fake_inputs: the `meta` network is not a fake tensor.
            stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
            network = network.to_empty(device="cpu")
        else:
            for mode in (torch.device("meta"), FlopCounter(), FlashAttention()):
                stack.enter_context(mode)
        batch, context = example(model, data, images)
        stack.enter_context(saved_tensors_hooks(pack, lambda tensor: tensor))
        stack.enter_context(torch.autocast("cpu", torch.bfloat16, enabled=half))
        carry, loss = network.start(batch, context), torch.zeros(())
        for _ in range(steps):
            output, carry = network(batch, carry)
            loss = loss + nn.functional.log_softmax(output.logits.float(), -1).sum()
            loss = loss if output.halt is None else loss + output.halt.float().sum()
        for tensor in (*network.parameters(), *network.buffers()):
            saved_tensors.pop(_storage(tensor), None)
        return weights, sum(tensor.untyped_storage().nbytes() for tensor in saved_tensors.values())


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
