"""What families and tasks promise, a check a promise: of all networks, of judges of images, of captioners, of tasks.

Captioners are held in float64, where causality is exact.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recstudy.config import PAD, RunConfig
from recstudy.contract.checks import Untouched, hold, same, trained, training_of, unreached
from recstudy.data.checking import checked
from recstudy.errors import DataError
from recstudy.metrics import TASKS
from recstudy.metrics.kept import packed, unpacked
from recstudy.metrics.registry import measured
from recstudy.models.captioners import CaptionModel
from recstudy.models.costs import cost
from recstudy.models.networks.caption import Captioner, reorder
from recstudy.models.networks.contract import Output, build
from recstudy.train.evaluate import filled, predict
from recstudy.train.loop import Training, detached
from recstudy.train.losses import step_loss
from recstudy.train.state import load_checkpoint, save_checkpoint

EXACT = 1e-12
FIRST = 3  # token behind PAD, BOS and EOS


def network_of(config: RunConfig) -> Any:
    """Return the network as evaluation has it, a captioner with a halting head that reads something."""
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
    shape: tuple[int, ...] = (count, *config.data.shape)
    if isinstance(model, CaptionModel):
        shape = (count, *model.input_shape(config.data.shape))
        return (torch.rand(shape) if model.reads_features else torch.randint(0, 256, shape)).double()
    if config.data.moments == ((0.0,), (1 / 255,)):  # tokens, which stay what they are
        return torch.randint(0, config.data.classes, shape).float()
    return torch.randint(0, 256, shape).float() if model.reads_pixels else torch.randn(shape)


def some_tokens(config: RunConfig, count: int, length: int) -> Tensor:
    bos = torch.full((count, 1), config.data.special_tokens[1])
    return torch.cat([bos, torch.randint(FIRST, config.data.classes, (count, length - 1))], dim=1)


def after(network: Any, images: Tensor, tokens: Tensor | None = None, steps: int = 2) -> Output:
    """The output of the last of some supervision steps."""
    carry = network.start(images) if tokens is None else network.start(images, tokens)
    for _ in range(steps):
        output, carry = network(images, detached(carry))
    return output


def carry_goes_on(config: RunConfig) -> None:
    """A recursive family's second supervision step goes on where the first stopped; any other's repeats it."""
    network, images = network_of(config), some_images(config, 3)
    tokens = some_tokens(config, 3, 6) if isinstance(config.model, CaptionModel) else None

    equal = torch.equal(after(network, images, tokens, 1).logits, after(network, images, tokens, 2).logits)
    hold(
        equal != config.model.recursive,
        f"`recursive` is {config.model.recursive}, but a second step gives {'the same' if equal else 'other'} logits",
    )


# ------------------------------------------------------------------------------------------------- judges of images


def shapes_and_gradients(config: RunConfig) -> None:
    """Shapes are right, and every weight gets a gradient."""
    network, images = network_of(config).train(), some_images(config, 5)

    output, carry = network(images, network.start(images))
    loss = output.logits.square().sum() + (0 if output.halt is None else output.halt.square().sum())
    loss.backward()

    given, classes, task = tuple(output.logits.shape), config.data.classes, TASKS[config.task]
    if task.output in ("image", "cells"):
        wanted = (5, *(() if task.labels.shape == ("classes",) else task.labels.sides(config.data)))
        fit = given[:-1] == wanted and given[-1] >= classes
        hold(fit, f"logits of 5 images in {classes} classes must be {(*wanted, classes)}, but are {given}")
    else:  # of a kind of a user's own: what it must be like stands in the task alone
        hold(given[:1] == (5,), f"logits of 5 images must have the batch as their first dimension, but are {given}")
    hold((output.halt is not None) == config.model.halts, f"`halts` is {config.model.halts}, but the output says otherwise")
    hold(output.halt is None or output.halt.shape == (5,), "the halting logits of 5 images are not (5,)")
    hold(bool(carry) == config.model.recursive, f"`recursive` is {config.model.recursive}, but the carry has {len(carry)} parts")
    hold(all(len(part) == 5 for part in carry), "a part of the carry does not have the batch as its first dimension")
    hold(not unreached(network), f"no gradient reaches {', '.join(unreached(network))}")


def forward_is_pure(config: RunConfig) -> None:
    """Two calls give the same, and evaluation writes nothing on the module."""
    network, images = network_of(config), some_images(config, 3)

    with Untouched(network):
        first, second = (after(network, images, steps=1).logits for _ in range(2))

    hold(torch.equal(first, second), "a second call gives other logits: something is drawn or kept in evaluation")


def images_are_judged_alone(config: RunConfig) -> None:
    """In evaluation no image sees the others of its batch."""
    network, images = network_of(config), some_images(config, 4)

    together, alone = after(network, images, steps=1).logits[2:3], after(network, images[2:3], steps=1).logits

    close = torch.allclose(together, alone, rtol=1e-4, atol=1e-5)
    hold(close, "an image's logits depend on the others of its batch")


def no_images_no_predictions(config: RunConfig, folder: Path = Path("data")) -> None:
    """A worker without images, of a short last batch, has no predictions."""
    training = training_of(config, folder)
    none = training._batches(training.data.test)
    none.rows, none.rank, none.world = none.rows[:1], 0, 2  # of one image, the first of two workers has none

    (kept,), loss = predict(training.task, training.state.evaluated, none)

    hold(not any(map(len, (loss, *kept.values()))), "there are predictions of no images")
    classes = kept["logits"].shape[1] if "logits" in kept else config.data.classes
    hold(classes >= config.data.classes, f"they have {classes} classes")


def trains_and_counts(config: RunConfig, folder: Path = Path("data")) -> Training:
    """It trains, and its parameters are those that were counted before."""
    training = trained(config, folder)

    hold(training.state.epoch == config.train.epochs, f"it trained {training.state.epoch} of {config.train.epochs} epochs")
    counted, there = cost(config).params, sum(weight.numel() for weight in training.state.network.parameters())
    hold(counted == there, f"counted {counted:,} parameters, but the network that trains has {there:,}")
    return training


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
        other = [name for name in theirs if not torch.equal(ours[name], theirs[name])]
        hold(
            not other,
            f"after resuming, {', '.join(other)} ends with other values: something is drawn, or kept, outside of the state",
        )
    hold(resumed.finish() == straight.finish(), "it ends with other metrics")


OF_JUDGES = shapes_and_gradients, carry_goes_on, forward_is_pure, images_are_judged_alone
OF_RUNS = no_images_no_predictions, trains_and_counts, resumes_to_the_bit


# ------------------------------------------------------------------------------------------------------- captioners


def caption_shapes_and_gradients(config: RunConfig) -> None:
    """Shapes are right, and every weight gets a gradient, those of a tuned backbone too."""
    config = config.with_changes({"model.tuned": True})
    model = config.model
    network, images, tokens = network_of(config).train(), some_images(config, 3), some_tokens(config, 3, 5)

    carry = network.start(images, tokens)
    output, after_one = network(images, carry)
    (output.logits.square().sum() + (0 if output.halt is None else output.halt.square().sum())).backward()

    given = tuple(output.logits.shape)
    hold(given == (3, 5, config.data.classes), f"logits of 3 captions of 5 tokens are {given}")
    heads = output.halt is not None, output.proceed is not None
    hold(heads == (model.halts, model.bootstraps), "`halts` and `bootstraps` are not what the output has")
    hold(carry[0] is after_one[0] is tokens, "the carry's first part is not the tokens")
    hold(all(len(part) == 3 for part in after_one), "a part of the carry does not have the batch as its first dimension")
    hold((len(carry) > 1) == model.recursive, f"`recursive` is {model.recursive}, but the carry has {len(carry)} parts")
    hold(not unreached(network), f"no gradient reaches {', '.join(unreached(network))}")


def forward_and_next_are_pure(config: RunConfig) -> None:
    """Two calls give the same, and nothing is written on the module."""
    network, images, tokens = network_of(config), some_images(config, 2), some_tokens(config, 2, 6)

    with Untouched(network):
        whole = after(network, images, tokens).logits[:, -1]
        one, other = (network.next(images, tokens, 2)[0] for _ in range(2))

    hold(same(whole, one, EXACT), "`next` gives other logits than `forward`")
    hold(torch.equal(one, other), "a second call gives other logits: something is drawn or kept in evaluation")


def captions_are_judged_alone(config: RunConfig) -> None:
    """In evaluation no caption sees the others of its batch."""
    network, images, tokens = network_of(config), some_images(config, 4), some_tokens(config, 4, 6)

    together, alone = after(network, images, tokens).logits[2:3], after(network, images[2:3], tokens[2:3]).logits

    hold(same(together, alone, EXACT), "a caption's logits depend on the others of its batch")


def no_later_token_is_seen(config: RunConfig) -> None:
    """No logit depends on a later token, and each on those before it."""
    network, images, tokens = network_of(config), some_images(config, 2), some_tokens(config, 2, 6)
    logits = after(network, images, tokens).logits

    for place in range(1, 6):
        changed = tokens.clone()
        changed[:, place] = torch.where(changed[:, place] == FIRST, FIRST + 1, FIRST)
        others = after(network, images, changed).logits
        hold(same(others[:, :place], logits[:, :place], EXACT), f"a logit before token {place} depends on it: it leaks")
        seen = (others[:, place:] - logits[:, place:]).abs().amax(-1).min()
        hold(seen > 1e-6, f"a logit behind token {place} does not depend on it")


def image_is_seen(config: RunConfig) -> None:
    """Every logit depends on the image."""
    network, tokens = network_of(config), some_tokens(config, 2, 6)

    one, other = (after(network, some_images(config, 2), tokens).logits for _ in range(2))

    hold((one - other).abs().amax(-1).min() > 1e-6, "a logit does not depend on the image")


def padding_changes_nothing(config: RunConfig) -> None:
    """Padding behind a caption changes nothing."""
    network, images, tokens = network_of(config), some_images(config, 2), some_tokens(config, 2, 6)
    padded = torch.cat([tokens, torch.full((2, 3), PAD)], dim=1)

    short, long = after(network, images, tokens), after(network, images, padded)

    hold(same(long.logits[:, :6], short.logits, EXACT), "logits depend on the padding")
    if short.halt is not None and long.halt is not None:
        hold(same(long.halt.double(), short.halt.double(), 1e-6), "halting depends on the padding")  # a float32 mean


def cached_decoding_is_exact(config: RunConfig) -> None:
    """Decoding token by token gives what `forward` does, though the captions' order changes on the way, as in a beam search."""
    network, images, tokens = network_of(config), some_images(config, 3), some_tokens(config, 3, 6)
    logits, cache = network.next(images, tokens[:, :2], 2)

    for length in range(2, 7):
        whole = after(network, images, tokens[:, :length]).logits[:, -1]
        hold(same(logits, whole, EXACT), f"the cached logits of token {length} are not those of `forward`")
        rows = torch.tensor([2, 0, 0] if length == 3 else [0, 1, 2])
        images, tokens, cache = images[rows], tokens[rows], reorder(cache, rows)
        if length < 6:
            logits, cache = network.next(images, tokens[:, : length + 1], 2, cache)


def takes_a_step(config: RunConfig) -> None:
    """One optimiser step lowers the loss."""
    network, images, tokens = network_of(config).train(), some_images(config, 2), some_tokens(config, 2, 6)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)

    def loss() -> Tensor:
        return nn.functional.cross_entropy(after(network, images, tokens[:, :-1], 1).logits.transpose(1, 2), tokens[:, 1:])

    before = loss()
    before.backward()
    optimizer.step()

    hold(loss() < before, "a step with AdamW does not lower the loss")


OF_CAPTIONERS = caption_shapes_and_gradients, carry_goes_on, forward_and_next_are_pure, captions_are_judged_alone
OF_CAPTION_SWITCHES = no_later_token_is_seen, image_is_seen, padding_changes_nothing, cached_decoding_is_exact, takes_a_step


# ------------------------------------------------------------------------------------------------------------ tasks


def scores_each_item(config: RunConfig, folder: Path) -> None:
    """A loss an item, from which a gradient reaches the weights, and whether each is right, from 0 to 1."""
    training = training_of(config, folder)
    network, batch = training.state.network.train(), filled(next(training._train.epoch(0)))
    output, _ = network(batch.images, network.start(batch.images, batch.told))

    loss = step_loss(output, batch, training.task)
    right = training.task.right(output, batch)
    loss.sum().backward()

    count = len(batch.images)
    hold(bool(torch.isfinite(loss).all()), "a loss is not finite")
    hold(tuple(right.shape) == (count,), f"`right` of {count} items is {tuple(right.shape)}")
    hold(bool(((right >= 0) & (right <= 1)).all()), "`right` is not from 0 to 1")
    hold(any(weight.grad is not None and weight.grad.any() for weight in network.parameters()), "no gradient reaches a weight")


def answers_are_kept(config: RunConfig, folder: Path) -> None:
    """A row an item of all that is kept, which a file gives back, and from which the task's score follows."""
    training = training_of(config, folder)
    test = training._batches(training.data.test)
    (kept,), _ = predict(training.task, training.state.evaluated, test)
    answers = training.task.answered(training.state.evaluated, test, training.data)
    with TemporaryDirectory() as place:
        file = Path(place, "answers.npz")
        file.write_bytes(packed(answers)[0])
        again = unpacked(file).answers

    count = len(training.data.test)
    for name, part in kept.items():
        hold(len(part) == count, f"of {count} items it keeps {len(part)} rows of {name}")
    for name, array in answers.kept.items():
        hold(np.array_equal(array, again.kept[name], equal_nan=True), f"{name} is not in the file as it was")
    found = measured(again)
    why = found.unavailable.get(training.task.score, "it is no metric of the task")
    hold(training.task.score in found.values, f"its score {training.task.score!r} does not follow from the kept answers: {why}")


def other_labels_are_refused(config: RunConfig, folder: Path) -> str:
    """Labels of another type or shape are refused before training."""
    reader = config.data.reader()
    decoded = checked(reader.decode(folder), config.data)
    labels: Any = decoded.train_labels
    other: Any = labels.astype(np.float64 if labels.dtype.kind == "f" else np.float32)
    said = ""
    for wrong in (other, labels[..., None]):
        try:
            checked(decoded._replace(train_labels=wrong), config.data)
        except DataError as error:
            said = said or str(error)
        else:
            hold(False, f"labels {wrong.dtype} {wrong.shape} are taken")
    return said


OF_TASKS = scores_each_item, answers_are_kept, other_labels_are_refused
