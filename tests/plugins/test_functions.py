"""Optimisers and losses of one's own: chosen by name, set by options, refused where they do not fit."""

from pathlib import Path

import pytest
import torch

from recstudy.config import LOSSES, OPTIMIZERS, RunConfig, TrainConfig, configure
from recstudy.data import Digits
from recstudy.data.cache import load
from recstudy.errors import ConfigError
from recstudy.models import CNN
from recstudy.plugins.registry import gathering
from recstudy.train.loop import Training
from recstudy.train.losses import loss_of, shares


def sgd(groups, config, *, momentum=0.9):
    return torch.optim.SGD(groups, lr=config.learning_rate, momentum=momentum)


def focal(logits, targets, smoothing=0.0, *, gamma=2.0):
    log = logits.log_softmax(-1)
    return -(shares(logits, targets, smoothing) * (1 - log.exp()) ** gamma * log).sum(-1)


@pytest.fixture(autouse=True)
def registered():
    with gathering():
        OPTIMIZERS.add("sgd")(sgd)
        LOSSES.add("focal")(focal)
        yield


def run(**train) -> RunConfig:
    return configure(RunConfig, {"data": {"name": "digits", "limit": 32}, "model": {"family": "cnn", "width": 8}, "train": train})


def test_they_train():
    config = run(optimizer="sgd", optimizer_options={"momentum": 0.5}, loss="focal", loss_options={"gamma": 1}, batch_size=8)
    training = Training(config, load(config.data, Path()), torch.device("cpu"))

    (line,) = training.epochs()

    assert type(training.state.optimizers[0]) is torch.optim.SGD
    assert training.state.optimizers[0].param_groups[0]["momentum"] == 0.5
    assert 0 < line["train_loss"] < 2.5


def test_a_loss_by_hand():
    """Probabilities 3/4 and 1/4 of the right class, gamma 1: (1 - p) (-log p)."""
    logits = torch.tensor([[3.0, 1.0]]).log()
    loss = loss_of(TrainConfig(loss="focal", loss_options={"gamma": 1}))

    assert loss(logits, torch.tensor([0]), 0.0).item() == pytest.approx(0.25 * -torch.tensor(0.75).log().item())


def test_options_are_part_of_the_id_and_their_absence_is_not():
    plain = RunConfig(data=Digits(limit=32), model=CNN(width=8))

    assert "optimizer_options" not in plain.deciding["train"]
    assert "loss_options" not in plain.deciding["train"]
    ids = {run(optimizer="sgd", optimizer_options=options).run_id for options in ({}, {"momentum": 0.5}, {"momentum": 0.6})}
    assert len(ids) == 3
    assert run(optimizer="sgd").with_changes({"train.optimizer_options.momentum": 0.5}).run_id in ids


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"optimizer": "sgdd"}, r"no optimizer 'sgdd': there are adam_atan2, adamw, sgd. Did you mean 'sgd'\?"),
        ({"loss": "vocal"}, r"no loss 'vocal': there are focal, softmax, stablemax. Did you mean 'focal'\?"),
        (
            {"optimizer": "sgd", "optimizer_options": {"momemtum": 1}},
            r"no option 'momemtum': the optimizer 'sgd' has momentum. Did",
        ),
        ({"loss_options": {"gamma": 1}}, r"no option 'gamma': the loss 'softmax' has none."),
        ({"loss": "focal", "loss_options": {"gamma": [1]}}, r"'train.loss_options.gamma.*' must be "),
    ],
)
def test_what_is_not_known_is_refused(train, message):
    with pytest.raises(ConfigError, match=message):
        run(**train)


def test_a_loss_that_gives_one_number_for_all_is_refused():
    LOSSES.add("mean")(lambda logits, targets, smoothing: logits.mean())

    with pytest.raises(ConfigError, match=r"the loss 'mean' must give one number a sample, 2 in all, but gives \(\)"):
        loss_of(TrainConfig(loss="mean"))(torch.zeros(2, 3), torch.tensor([0, 1]), 0.0)


def test_recstudys_own_stand_in_the_same_registries():
    assert {"adamw", "adam_atan2"} <= {*OPTIMIZERS}
    assert {"softmax", "stablemax"} <= {*LOSSES}
    with pytest.raises(ConfigError, match="the loss 'softmax' is recstudy's own"):
        LOSSES.add("softmax")(focal)
