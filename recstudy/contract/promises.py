"""What families and tasks promise, a check a promise: of all networks, of captioners, of runs and of tasks.

Captioners are checked in float64, where causality is exact.
"""

from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from recstudy.config import PAD, RunConfig
from recstudy.contract.checks import hold, trained, training_of
from recstudy.metrics import TASKS
from recstudy.metrics.kept import pack_answers, unpack_answers
from recstudy.metrics.registry import measured
from recstudy.models.captioners import CaptionModel
from recstudy.models.costs import cost
from recstudy.models.networks.caption import Captioner, reorder
from recstudy.models.networks.contract import Output, build
from recstudy.train.evaluate import pad_empty_batch
from recstudy.train.loop import detached
from recstudy.train.losses import step_loss
from recstudy.train.state import load_checkpoint, save_checkpoint

EXACT = 1e-12
FIRST = 3  # token behind PAD, BOS and EOS


def network_of(config: RunConfig) -> Any:
    """Return the network in evaluation mode, a captioner with a halting head that reads something."""
    torch.manual_seed(0)
    network = build(config.model, config.data).eval()
    if isinstance(config.model, CaptionModel):
        hold(isinstance(network, Captioner), f"{type(network).__name__} is no Captioner")
        network.double()
        if config.model.halts:
            nn.init.normal_(network.get_parameter("q_head.weight"))
    return network


def some_images(config: RunConfig, count: int) -> Tensor:
    model = config.model
    shape = (count, *model.input_shape(config.data.shape))
    if config.data.moments == ((0.0,), (1 / 255,)):  # tokens, which stay what they are
        return torch.randint(0, config.data.classes, shape).float()
    images = torch.randint(0, 256, shape).float() if model.reads_pixels else torch.randn(shape)
    return images.double() if isinstance(model, CaptionModel) else images


def some_tokens(config: RunConfig, count: int, length: int) -> Tensor:
    bos = torch.full((count, 1), config.data.special_tokens[1])
    return torch.cat([bos, torch.randint(FIRST, config.data.classes, (count, length - 1))], dim=1)


def some_inputs(config: RunConfig, count: int) -> tuple[Tensor, Tensor | None]:
    """Return images and, for a captioner, six tokens of a caption each."""
    return some_images(config, count), (
        some_tokens(config, count, 6) if isinstance(config.model, CaptionModel) else None
    )


def after(network: Any, images: Tensor, tokens: Tensor | None = None, steps: int = 2) -> Output:
    """Return the output of the last of some supervision steps."""
    carry = network.start(images, tokens)
    for _ in range(steps):
        output, carry = network(images, detached(carry))
    return output


def same(one: Tensor, other: Tensor, tolerance: float) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------------------------------------------ all
# networks


def shapes_and_gradients(config: RunConfig) -> None:
    """Shapes are right, and every weight gets a gradient."""
    captions = isinstance(config.model, CaptionModel)
    config = config.with_changes({"model.tuned": True}) if captions else config
    network, (images, tokens) = network_of(config).train(), some_inputs(config, 5)
    model, task, classes = config.model, TASKS[config.task], config.data.classes

    output, carry = network(images, network.start(images, tokens))
    (output.logits.square().sum() + (0 if output.halt is None else output.halt.square().sum())).backward()

    given = tuple(output.logits.shape)
    if captions:
        hold(given == (5, 6, classes), f"logits of 5 captions of 6 tokens in {classes} words are {given}")
        hold(carry[0] is tokens, "the carry's first part is not the tokens")
    elif task.output in ("image", "cells"):
        wanted = (5, *(() if task.labels.shape == ("classes",) else task.labels.sides(config.data)))
        fit = given[:-1] == wanted and given[-1] >= classes
        hold(fit, f"logits of 5 images in {classes} classes must be {(*wanted, classes)}, but are {given}")
    else:  # of a kind of a user's own, whose shape the task alone knows
        hold(
            given[:1] == (5,),
            f"logits of 5 images must have the batch as their first dimension, but are {given}",
        )
    hold((output.halt is not None) == model.halts, f"`halts` is {model.halts}, but the output says otherwise")
    hold(
        not captions or (output.proceed is not None) == model.bootstraps,
        "`bootstraps` is not what the output has",
    )
    hold(output.halt is None or output.halt.shape == (5,), "the halting logits of 5 images are not (5,)")
    hold(
        (len(carry) > captions) == model.recursive,
        f"`recursive` is {model.recursive}, but the carry has {len(carry)} parts",
    )
    hold(
        all(len(part) == 5 for part in carry),
        "a part of the carry does not have the batch as its first dimension",
    )
    unreached = [
        name for name, weight in network.named_parameters() if weight.grad is None or not weight.grad.any()
    ]
    hold(not unreached, f"no gradient reaches {', '.join(unreached)}")


def carry_goes_on(config: RunConfig) -> None:
    """A recursive family's second supervision step goes on where the first stopped; any other's repeats
    it.
    """
    network, (images, tokens) = network_of(config), some_inputs(config, 3)

    equal = torch.equal(after(network, images, tokens, 1).logits, after(network, images, tokens, 2).logits)
    hold(
        equal != config.model.recursive,
        f"`recursive` is {config.model.recursive}, but a second step gives {'the same' if equal else 'other'}"
        " logits",
    )


def evaluation_is_pure(config: RunConfig) -> None:
    """Two calls give the same, and evaluation writes nothing on the module."""
    network, (images, tokens) = network_of(config), some_inputs(config, 3)
    weights, attributes = deepcopy(network.state_dict()), _attributes(network)

    calls = [after(network, images, tokens).logits for _ in range(2)]
    if tokens is not None:
        calls = [calls[0][:, -1], *(network.next(images, tokens, 2)[0] for _ in range(2))]
        hold(same(calls[1], calls[0], EXACT), "`next` gives other logits than `forward`")

    hold(
        torch.equal(calls[-2], calls[-1]),
        "a second call gives other logits: something is drawn or kept in evaluation",
    )
    written = [name for name, value in network.state_dict().items() if not torch.equal(value, weights[name])]
    hold(not written, f"evaluation writes on {', '.join(written)}")
    kept = sorted(_attributes(network) - attributes)
    hold(not kept, f"evaluation keeps {', '.join(kept)} on the module")


def _attributes(network: Any) -> set[str]:
    return {f"{name}.{key}".lstrip(".") for name, module in network.named_modules() for key in vars(module)}


def items_are_judged_alone(config: RunConfig) -> None:
    """In evaluation no image or caption sees the others of its batch."""
    network, (images, tokens) = network_of(config), some_inputs(config, 4)

    together = after(network, images, tokens).logits[2:3]
    alone = after(network, images[2:3], None if tokens is None else tokens[2:3]).logits

    hold(same(together, alone, 1e-4 if tokens is None else EXACT), "logits depend on the others of the batch")


OF_NETWORKS = shapes_and_gradients, carry_goes_on, evaluation_is_pure, items_are_judged_alone


# -------------------------------------------------------------------------------------------------------------- runs


def trains_and_counts(config: RunConfig, folder: Path = Path("data")) -> None:
    """It trains, and its parameters are those that were counted before."""
    training = trained(config, folder)

    hold(
        training.state.epoch == config.train.epochs,
        f"it trained {training.state.epoch} of {config.train.epochs} epochs",
    )
    counted, there = (
        cost(config).params,
        sum(weight.numel() for weight in training.state.network.parameters()),
    )
    hold(counted == there, f"counted {counted:,} parameters, but the network that trains has {there:,}")


def resumes_to_the_bit(config: RunConfig, folder: Path = Path("data")) -> None:
    """A run that was stopped and goes on ends with the same bits as one that never stopped."""
    config = config.with_changes({"train.epochs": 3})
    straight, stopped = trained(config, folder), training_of(config, folder)
    next(stopped.epochs())
    with TemporaryDirectory() as saved:
        save_checkpoint(stopped, Path(saved))
        torch.manual_seed(99)
        resumed = training_of(config, folder)
        hold(load_checkpoint(resumed, Path(saved)), "its checkpoint is not found")
    epochs = [line["epoch"] for line in resumed.epochs()]

    hold(epochs == [1, 2], f"after epoch 0 it goes on with epochs {epochs}")
    for kind in ("network", "evaluated"):
        ours, theirs = getattr(resumed.state, kind).state_dict(), getattr(straight.state, kind).state_dict()
        other = ", ".join(name for name in theirs if not torch.equal(ours[name], theirs[name]))
        hold(
            not other,
            f"after resuming, {other} ends with other values: something is drawn, or kept, outside of the"
            " state",
        )
    hold(resumed.finish() == straight.finish(), "it ends with other metrics")


OF_RUNS = trains_and_counts, resumes_to_the_bit


# -------------------------------------------------------------------------------------------------------
# captioners


def no_later_token_is_seen(config: RunConfig) -> None:
    """No logit depends on a later token, and each on those before it and on the image."""
    network, images, tokens = network_of(config), some_images(config, 2), some_tokens(config, 2, 6)
    logits = after(network, images, tokens).logits

    for place in range(1, 6):
        changed = tokens.clone()
        changed[:, place] = torch.where(changed[:, place] == FIRST, FIRST + 1, FIRST)
        others = after(network, images, changed).logits
        hold(
            same(others[:, :place], logits[:, :place], EXACT),
            f"a logit before token {place} depends on it: it leaks",
        )
        hold(
            _least_change(others[:, place:], logits[:, place:]) > 1e-6,
            f"a logit behind token {place} does not depend on it",
        )
    other = after(network, some_images(config, 2), tokens).logits
    hold(_least_change(other, logits) > 1e-6, "a logit does not depend on the image")


def _least_change(one: Tensor, other: Tensor) -> Tensor:
    return (one - other).abs().amax(-1).min()


def padding_changes_nothing(config: RunConfig) -> None:
    """Padding behind a caption changes nothing."""
    network, images, tokens = network_of(config), some_images(config, 2), some_tokens(config, 2, 6)
    padded = torch.cat([tokens, torch.full((2, 3), PAD)], dim=1)

    short, long = after(network, images, tokens), after(network, images, padded)

    hold(same(long.logits[:, :6], short.logits, EXACT), "logits depend on the padding")
    if short.halt is not None and long.halt is not None:
        # a float32 mean
        hold(same(long.halt.double(), short.halt.double(), 1e-6), "halting depends on the padding")


def cached_decoding_is_exact(config: RunConfig) -> None:
    """Decoding token by token gives what `forward` does, though the captions' order changes on the way, as in
    a beam search.
    """
    network, images, tokens = network_of(config), some_images(config, 3), some_tokens(config, 3, 6)
    logits, cache = network.next(images, tokens[:, :2], 2)

    for length in range(2, 7):
        whole = after(network, images, tokens[:, :length]).logits[:, -1]
        hold(same(logits, whole, EXACT), f"the cached logits of token {length} are not those of `forward`")
        rows = torch.tensor([2, 0, 0] if length == 3 else [0, 1, 2])
        images, tokens, cache = images[rows], tokens[rows], reorder(cache, rows)
        if length < 6:
            logits, cache = network.next(images, tokens[:, : length + 1], 2, cache)


OF_CAPTIONERS = no_later_token_is_seen, padding_changes_nothing, cached_decoding_is_exact


# ------------------------------------------------------------------------------------------------------------
# tasks


def scores_each_item(config: RunConfig, folder: Path) -> None:
    """A loss an item, from which a gradient reaches the weights, and whether each is right, from 0 to 1."""
    training = training_of(config, folder)
    network, batch = training.state.network.train(), pad_empty_batch(next(training._train.epoch(0)))
    output, _ = network(batch.images, network.start(batch.images, batch.context))

    loss = step_loss(output, batch, training.task)
    right = training.task.right(output, batch)
    loss.sum().backward()

    count = len(batch.images)
    hold(bool(torch.isfinite(loss).all()), "a loss is not finite")
    hold(tuple(right.shape) == (count,), f"`right` of {count} items is {tuple(right.shape)}")
    hold(bool(((right >= 0) & (right <= 1)).all()), "`right` is not from 0 to 1")
    hold(
        any(weight.grad is not None and weight.grad.any() for weight in network.parameters()),
        "no gradient reaches a weight",
    )


def answers_are_kept(config: RunConfig, folder: Path) -> None:
    """Of each item all is kept that the task's score follows from, and a file gives it back."""
    training = training_of(config, folder)
    answers = training.task.answered(
        training.state.evaluated, training._batches(training.data.test), training.data
    )
    with TemporaryDirectory() as place:
        file = Path(place, "answers.npz")
        file.write_bytes(pack_answers(answers)[0])
        scores, score = measured(unpack_answers(file).answers), training.task.score

    why = scores.unavailable.get(score, "it is no metric of the task")
    hold(score in scores.values, f"its score {score!r} does not follow from the kept answers: {why}")


OF_TASKS = scores_each_item, answers_are_kept
