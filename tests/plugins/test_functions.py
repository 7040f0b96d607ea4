"""Optimisers, losses and schedules of one's own: chosen by name, set by options, refused where they do not
fit.
"""

import pytest
import torch

from recstudy.base.errors import ConfigError
from recstudy.plugins import gathering
from recstudy.programs.settings import configure
from recstudy.recursive import (
    AUGMENTATIONS,
    CNN,
    LOSSES,
    OPTIMIZERS,
    SCHEDULES,
    Digits,
    RunConfig,
    TrainConfig,
)
from recstudy.recursive.contract.checks import training_of
from recstudy.recursive.train.losses import shares
from recstudy.recursive.train.optim import learning_rate


def rprop(groups, config, *, growth=1.2):
    return torch.optim.Rprop(groups, lr=config.learning_rate, etas=(0.5, growth))


def focal(logits, targets, smoothing=0.0, *, gamma=2.0):
    log = logits.log_softmax(-1)
    return -(shares(logits, targets, smoothing) * (1 - log.exp()) ** gamma * log).sum(-1)


def linear(config, done, length, *, end=0.0):
    return config.learning_rate * (1 - (1 - end) * done / length)


@pytest.fixture(autouse=True)
def registered():
    with gathering():
        OPTIMIZERS.add("rprop")(rprop)
        LOSSES.add("focal")(focal)
        SCHEDULES.add("linear")(linear)
        yield


def run(**train) -> RunConfig:
    return configure(
        RunConfig,
        {"data": {"name": "digits", "limit": 32}, "model": {"family": "cnn", "width": 8}, "train": train},
    )


def test_a_schedule_counts_updates():
    """Two epochs of four updates: the second epoch begins when four of eight are done, half way from 0.1 to
    0.05.
    """
    function_names = {
        "optimizer": "rprop",
        "optimizer_options": {"growth": 1.5},
        "loss": "focal",
        "schedule": "linear",
    }
    config = run(
        **function_names,
        epochs=2,
        batch_size=8,
        schedule_options={"end": 0.5},
        learning_rate=0.1,
        selection="last",
    )
    training = training_of(config)

    assert [line["learning_rate"] for line in training.epochs()] == pytest.approx([0.1, 0.075])
    assert type(training.state.optimizers[0]) is torch.optim.Rprop
    assert training.state.optimizers[0].param_groups[0]["etas"] == (0.5, 1.5)
    assert training.state.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.1 * (1 - 0.5 * 7 / 8))


def test_a_schedule_that_gives_no_rate_is_refused():
    SCHEDULES.add("below")(lambda config, done, length: -0.1)

    with pytest.raises(
        ConfigError,
        match=r"the schedule 'below' must return a finite number from 0, but returns -0.1 at 0 of 4",
    ):
        learning_rate(TrainConfig(schedule="below"), 0, 4)


def test_options_are_part_of_the_id_and_their_absence_is_not():
    base = RunConfig(data=Digits(limit=32), model=CNN(width=8))

    assert "optimizer_options" not in base.deciding["train"]
    ids = {
        run(optimizer="sgd", optimizer_options=options).run_id
        for options in ({}, {"momentum": 0.5}, {"momentum": 0.6})
    }
    assert len(ids) == 3
    assert run(optimizer="sgd").with_changes({"train.optimizer_options.momentum": 0.5}).run_id in ids


def test_augmentation_gets_the_labels_if_it_asks_for_them():
    """Images of class 3 alone are turned black: so many images of an epoch are."""
    black_counts = []

    @AUGMENTATIONS.add("blacken")
    def blacken(images, generator, labels):
        black_counts.append(labels)
        return images * (labels != 3)[:, None, None, None].to(images.dtype)

    config = run(augment={"more": ["blacken"]}, batch_size=8)
    training = training_of(config)

    black = [batch.images.flatten(1).std(1) == 0 for batch in training._train.epoch(0)]

    assert torch.cat(black).sum() == (torch.cat(black_counts) == 3).sum() > 0
