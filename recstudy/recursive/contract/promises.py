"""Check the properties of families and tasks: one function for each property.

There are checks of all networks, of captioners, of runs and of tasks. `contract/command.py` and
`tests/recursive/contract` call them and print their docstrings.
"""

from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from recstudy.recursive.config.parts import PAD
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.tasks import TASKS
from recstudy.recursive.contract.checks import require, trained, training_of
from recstudy.recursive.metrics.kept import pack_answers, unpack_answers
from recstudy.recursive.metrics.registry import measured
from recstudy.recursive.models.caption import CaptionModel
from recstudy.recursive.models.costs import cost
from recstudy.recursive.models.networks.caption import Captioner, reorder
from recstudy.recursive.models.networks.contract import Output, build
from recstudy.recursive.train.loop import detached
from recstudy.recursive.train.losses import step_loss
from recstudy.recursive.train.state import load_checkpoint, save_checkpoint

EXACT = 1e-12  # in float64
FIRST = 3  # first token after PAD, BOS and EOS


def network_of(config: RunConfig) -> Any:
    """Return the network in evaluation mode."""
    torch.manual_seed(0)
    network = build(config.model, config.data).eval()
    if isinstance(config.model, CaptionModel):
        require(isinstance(network, Captioner), f"{type(network).__name__} is no Captioner")
        network.double()  # in float64, causality is exact
        # Halting heads start with zero weights, so without this they would depend on no input.
        if config.model.halts:
            nn.init.normal_(network.get_parameter("q_head.weight"))
    return network


def some_images(config: RunConfig, count: int) -> Tensor:
    model = config.model
    shape = (count, *model.input_shape(config.data.shape))
    if config.data.moments == ((0.0,), (1 / 255,)):  # tokens, whose normalization changes nothing
        return torch.randint(0, config.data.classes, shape).float()
    images = torch.randint(0, 256, shape).float() if model.reads_pixels else torch.randn(shape)
    return images.double() if isinstance(model, CaptionModel) else images


def some_tokens(config: RunConfig, count: int, length: int) -> Tensor:
    bos = torch.full((count, 1), config.data.special_tokens[1])
    return torch.cat([bos, torch.randint(FIRST, config.data.classes, (count, length - 1))], dim=1)


def some_inputs(config: RunConfig, count: int) -> tuple[Tensor, Any]:
    """Return images and, for a captioner, a caption of six tokens for each; otherwise None."""
    return some_images(config, count), (
        some_tokens(config, count, 6) if isinstance(config.model, CaptionModel) else None
    )


def run_steps(network: Any, images: Tensor, tokens: Tensor | None = None, steps: int = 2) -> Output:
    """Return the output of the last supervision step."""
    carry = network.start(images, tokens)
    for _ in range(steps):
        output, carry = network(images, detached(carry))
    return output


def is_close(left: Tensor, right: Tensor, tolerance: float) -> bool:
    return left.shape == right.shape and torch.allclose(left, right, rtol=tolerance, atol=tolerance)


# All networks


def shapes_and_gradients(config: RunConfig) -> None:
    """Shapes are correct, and every weight gets a gradient."""
    captions = isinstance(config.model, CaptionModel)
    config = config.with_changes({"model.tuned": True}) if captions else config
    network, (images, tokens) = network_of(config).train(), some_inputs(config, 5)
    model, task, classes = config.model, TASKS[config.task], config.data.classes

    output, carry = network(images, network.start(images, tokens))
    (output.logits.square().sum() + (0 if output.halt is None else output.halt.square().sum())).backward()

    shape = tuple(output.logits.shape)
    if captions:
        require(shape == (5, 6, classes), f"logits of 5 captions of 6 tokens in {classes} words are {shape}")
        require(carry[0] is tokens, "the first part of the carry must be the tokens")
    elif task.output in ("image", "cells"):
        expected_shape = (5, *(() if task.labels.shape == ("classes",) else task.labels.sides(config.data)))
        fit = shape[:-1] == expected_shape and shape[-1] >= classes
        require(
            fit,
            f"logits of 5 images in {classes} classes must be {(*expected_shape, classes)}, but are {shape}",
        )
    else:  # a user's own kind of output; only the task knows its shape
        require(
            shape[:1] == (5,),
            f"logits of 5 images must have the batch as their first dimension, but are {shape}",
        )
    has_halt = output.halt is not None
    require(
        has_halt == model.halts,
        f"`halts` is {model.halts}, but the output {'has' if has_halt else 'lacks'} halting logits",
    )
    require(
        not captions or (output.proceed is not None) == model.bootstraps,
        f"`bootstraps` is {model.bootstraps}, but the output disagrees",
    )
    require(
        output.halt is None or output.halt.shape == (5,),
        "the halting logits of 5 images must have the shape (5,)",
    )
    require(
        (len(carry) > captions) == model.recursive,
        f"`recursive` is {model.recursive}, but the carry has {len(carry)} parts",
    )
    require(
        all(len(part) == 5 for part in carry),
        "every part of the carry must have the batch as its first dimension",
    )
    unreached = [
        name for name, weight in network.named_parameters() if weight.grad is None or not weight.grad.any()
    ]
    require(not unreached, f"no gradient reaches {', '.join(unreached)}")


def carry_is_used(config: RunConfig) -> None:
    """The second supervision step of a recursive family continues from the first; any other repeats it."""
    network, (images, tokens) = network_of(config), some_inputs(config, 3)

    equal = torch.equal(
        run_steps(network, images, tokens, 1).logits, run_steps(network, images, tokens, 2).logits
    )
    require(
        equal != config.model.recursive,
        f"`recursive` is {config.model.recursive}, but a second step gives"
        f" {'equal' if equal else 'different'} logits",
    )


def evaluation_is_pure(config: RunConfig) -> None:
    """Two calls give equal results, and evaluation does not change the module."""
    network, (images, tokens) = network_of(config), some_inputs(config, 3)
    weights, attributes = deepcopy(network.state_dict()), _attributes(network)

    calls = [run_steps(network, images, tokens).logits for _ in range(2)]
    if tokens is not None:
        calls = [calls[0][:, -1], *(network.next(images, tokens, 2)[0] for _ in range(2))]
        require(is_close(calls[1], calls[0], EXACT), "`next` and `forward` give different logits")

    require(
        torch.equal(calls[-2], calls[-1]),
        "a second call gives different logits: evaluation uses random numbers or changes the module",
    )
    changed_weights = [
        name for name, value in network.state_dict().items() if not torch.equal(value, weights[name])
    ]
    require(not changed_weights, f"evaluation changes {', '.join(changed_weights)}")
    new_attributes = sorted(_attributes(network) - attributes)
    require(not new_attributes, f"evaluation adds {', '.join(new_attributes)} to the module")


def _attributes(network: Any) -> set[str]:
    return {f"{name}.{key}".lstrip(".") for name, module in network.named_modules() for key in vars(module)}


def items_are_judged_alone(config: RunConfig) -> None:
    """In evaluation, the result of an item does not depend on the others of its batch."""
    network, (images, tokens) = network_of(config), some_inputs(config, 4)

    together = run_steps(network, images, tokens).logits[2:3]
    single_logits = run_steps(network, images[2:3], None if tokens is None else tokens[2:3]).logits

    require(
        is_close(together, single_logits, 1e-4 if tokens is None else EXACT),
        "logits depend on the others of the batch",
    )


OF_NETWORKS = shapes_and_gradients, carry_is_used, evaluation_is_pure, items_are_judged_alone


# Runs


def trains_and_counts(config: RunConfig, folder: Path = Path("data")) -> None:
    """It trains, and its number of parameters is the one counted before training."""
    training = trained(config, folder)

    require(
        training.state.epoch == config.train.epochs,
        f"it trained {training.state.epoch} of {config.train.epochs} epochs",
    )
    counted = cost(config).params
    actual = sum(weight.numel() for weight in training.state.network.parameters())
    require(counted == actual, f"counted {counted:,} parameters, but the trained network has {actual:,}")


def resumes_to_the_bit(config: RunConfig, folder: Path = Path("data")) -> None:
    """A run that was stopped and resumed ends with the same bits as one that was not stopped."""
    config = config.with_changes({"train.epochs": 3})
    straight, stopped = trained(config, folder), training_of(config, folder)
    next(stopped.epochs())
    with TemporaryDirectory() as saved:
        save_checkpoint(stopped, Path(saved))
        torch.manual_seed(99)  # the checkpoint must restore the state of the random numbers
        resumed = training_of(config, folder)
        require(load_checkpoint(resumed, Path(saved)), "its checkpoint cannot be loaded")
    epochs = [line["epoch"] for line in resumed.epochs()]

    require(epochs == [1, 2], f"after epoch 0 it resumes with the epochs {epochs} instead of 1 and 2")
    for kind in ("network", "evaluated"):
        ours, theirs = getattr(resumed.state, kind).state_dict(), getattr(straight.state, kind).state_dict()
        differences = ", ".join(name for name in theirs if not torch.equal(ours[name], theirs[name]))
        require(
            not differences,
            f"after resuming, {differences} ends with other values: random numbers or values outside of the"
            " training state affect it",
        )
    require(resumed.finish() == straight.finish(), "it ends with other metrics")


OF_RUNS = trains_and_counts, resumes_to_the_bit


# Captioners


def no_later_token_is_seen(config: RunConfig) -> None:
    """No logit depends on a later token; each depends on the earlier tokens and on the image."""
    network, (images, tokens) = network_of(config), some_inputs(config, 2)
    logits = run_steps(network, images, tokens).logits

    for position in range(1, 6):
        changed = tokens.clone()
        changed[:, position] = torch.where(changed[:, position] == FIRST, FIRST + 1, FIRST)
        changed_logits = run_steps(network, images, changed).logits
        require(
            is_close(changed_logits[:, :position], logits[:, :position], EXACT),
            f"a logit before token {position} depends on it, so the attention is not causal",
        )
        require(
            _least_change(changed_logits[:, position:], logits[:, position:]) > 1e-6,
            f"a logit after token {position} does not depend on it",
        )
    other_logits = run_steps(network, some_images(config, 2), tokens).logits
    require(_least_change(other_logits, logits) > 1e-6, "a logit does not depend on the image")


def _least_change(left: Tensor, right: Tensor) -> Tensor:
    return (left - right).abs().amax(-1).min()


def padding_changes_nothing(config: RunConfig) -> None:
    """Padding after a caption does not change the results."""
    network, (images, tokens) = network_of(config), some_inputs(config, 2)
    padded = torch.cat([tokens, torch.full((2, 3), PAD)], dim=1)

    short, long = run_steps(network, images, tokens), run_steps(network, images, padded)

    require(is_close(long.logits[:, :6], short.logits, EXACT), "logits depend on the padding")
    if short.halt is not None and long.halt is not None:
        # The mean over the tokens is in float32.
        require(is_close(long.halt.double(), short.halt.double(), 1e-6), "halting depends on the padding")


def cached_decoding_is_exact(config: RunConfig) -> None:
    """Decoding token by token equals `forward`, also if captions are reordered as in a beam search."""
    network, (images, tokens) = network_of(config), some_inputs(config, 3)
    logits, cache = network.next(images, tokens[:, :2], 2)

    for length in range(2, 7):
        full_logits = run_steps(network, images, tokens[:, :length]).logits[:, -1]
        require(
            is_close(logits, full_logits, EXACT),
            f"the cached logits of token {length} differ from those of `forward`",
        )
        rows = torch.tensor([2, 0, 0] if length == 3 else [0, 1, 2])
        images, tokens, cache = images[rows], tokens[rows], reorder(cache, rows)
        if length < 6:
            logits, cache = network.next(images, tokens[:, : length + 1], 2, cache)


OF_CAPTIONERS = no_later_token_is_seen, padding_changes_nothing, cached_decoding_is_exact


# Tasks


def scores_each_item(config: RunConfig, folder: Path) -> None:
    """Each item has a loss with a gradient, and a score from 0 to 1."""
    training = training_of(config, folder)
    network, batch = training.state.network.train(), next(training._train.epoch(0))
    output, _ = network(batch.images, network.start(batch.images, batch.context))

    loss = step_loss(output, batch, training.task)
    right = training.task.right(output, batch)
    loss.sum().backward()

    count = len(batch.images)
    require(bool(torch.isfinite(loss).all()), "a loss is not finite")
    require(
        tuple(right.shape) == (count,),
        f"`right` of {count} items must have the shape ({count},), but has {tuple(right.shape)}",
    )
    require(bool(((right >= 0) & (right <= 1)).all()), "`right` must be from 0 to 1")
    require(
        any(weight.grad is not None and weight.grad.any() for weight in network.parameters()),
        "no gradient reaches a weight",
    )


def answers_are_kept(config: RunConfig, folder: Path) -> None:
    """The saved answers contain everything that the task's score needs."""
    training = training_of(config, folder)
    answers = training.task.answered(
        training.state.evaluated, training._batches(training.data.test), training.data
    )
    with TemporaryDirectory() as place:
        file = Path(place, "answers.npz")
        file.write_bytes(pack_answers(answers)[0])
        scores, score = measured(unpack_answers(file).answers), training.task.score

    why = scores.unavailable.get(score, "it is not a metric of the task")
    require(score in scores.values, f"its score {score!r} cannot be computed from the saved answers: {why}")


OF_TASKS = scores_each_item, answers_are_kept
