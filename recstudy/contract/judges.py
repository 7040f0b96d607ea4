"""What a family that judges images promises."""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from recstudy.config import RunConfig
from recstudy.contract.checks import CPU, Untouched, data_of, hold, trained, unreached
from recstudy.metrics import TASKS
from recstudy.models.costs import cost
from recstudy.models.networks.contract import Network, build
from recstudy.train.evaluate import predict
from recstudy.train.loop import Training, detached
from recstudy.train.state import load_checkpoint, save_checkpoint


def some_images(config: RunConfig, count: int) -> Tensor:
    shape = (count, *config.data.shape)
    if config.data.moments == ((0.0,), (1 / 255,)):  # tokens, which stay what they are
        return torch.randint(0, config.data.classes, shape).float()
    return torch.randint(0, 256, shape).float() if config.model.reads_pixels else torch.randn(shape)


def network_of(config: RunConfig) -> Network:
    torch.manual_seed(0)
    return build(config.model, config.data)


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


def carry_goes_on(config: RunConfig) -> None:
    """A recursive family's second supervision step goes on where the first stopped; any other's repeats it."""
    network, images = network_of(config).eval(), some_images(config, 3)

    once, carry = network(images, network.start(images))
    twice, _ = network(images, detached(carry))

    equal = torch.equal(once.logits, twice.logits)
    hold(
        equal != config.model.recursive,
        f"`recursive` is {config.model.recursive}, but a second step gives {'the same' if equal else 'other'} logits",
    )


def forward_is_pure(config: RunConfig) -> None:
    """Two calls give the same, and evaluation writes nothing on the module."""
    network, images = network_of(config).eval(), some_images(config, 3)

    with Untouched(network):
        first, _ = network(images, network.start(images))
        second, _ = network(images, network.start(images))

    hold(torch.equal(first.logits, second.logits), "a second call gives other logits: something is drawn or kept in evaluation")


def images_are_judged_alone(config: RunConfig) -> None:
    """In evaluation no image sees the others of its batch."""
    network, images = network_of(config).eval(), some_images(config, 4)

    together, _ = network(images, network.start(images))
    alone, _ = network(images[2:3], network.start(images[2:3]))

    close = torch.allclose(together.logits[2:3], alone.logits, rtol=1e-4, atol=1e-5)
    hold(close, "an image's logits depend on the others of its batch")


def no_images_no_predictions(config: RunConfig, folder: Path = Path("data")) -> None:
    """A worker without images, of a short last batch, has no predictions."""
    training = Training(config, data_of(config, folder), CPU)
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
    straight, data = trained(config, folder), data_of(config, folder)
    stopped = Training(config, data, CPU)
    next(stopped.epochs())
    with TemporaryDirectory() as saved:
        save_checkpoint(stopped, Path(saved))
        torch.manual_seed(99)
        resumed = Training(config, data, CPU)
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


OF_NETWORKS = shapes_and_gradients, carry_goes_on, forward_is_pure, images_are_judged_alone
OF_RUNS = no_images_no_predictions, trains_and_counts, resumes_to_the_bit
