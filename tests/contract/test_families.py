"""Every family of the registry that judges images, and every value of every switch it has; captioners have their own file."""

from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
import torch

from recstudy.config import FAMILIES, Augment, ModelConfig, RunConfig, TrainConfig, configure
from recstudy.data import Digits, PhantomXray
from recstudy.data.cache import load
from recstudy.errors import ConfigError
from recstudy.metrics.cost import cost
from recstudy.models import Aligner
from recstudy.models.backbone import CaptionModel
from recstudy.models.networks.contract import build
from recstudy.train.evaluate import predict
from recstudy.train.loop import Training, detached
from recstudy.train.state import load_checkpoint, save_checkpoint

SMALL = {
    "vitrm": {"width": 16, "heads": 2, "layers": 2, "patch": 2, "latent_tokens": 4, "latent_steps": 2},
    "hrm_image": {"width": 16, "heads": 2, "low_layers": 1, "high_layers": 1, "patch": 4, "expansion": 2},
    "hrm": {"width": 16, "heads": 2, "low_layers": 1, "high_layers": 1, "vocabulary": 17},
    "trm": {"width": 16, "heads": 2, "layers": 1, "cycles": 2, "latent_steps": 2, "prefix": 2, "vocabulary": 17},
    "cnn": {"width": 8},
    "densenet": {"growth": 4},
    "vit": {"width": 16, "heads": 2, "layers": 2, "ffn_width": 16, "patch": 2},
    "resnet": {},
}
XRAYS = PhantomXray(size=32, limit=24)
# What a value of a switch needs beside it, and families that do not read images of 8x8 pixels with one label each.
WITH = {
    ("head", "multilabel"): {"patch": 8, "tokens": "patch"},
    ("puzzle_emb", "pathology_query"): {"patch": 16, "tokens": "patch", "head": "multilabel"},
    ("puzzle_emb", "patient"): {"patch": 8, "tokens": "patch", "head": "multilabel", "identifiers": 2000},
}
DATA = {"densenet": XRAYS}
JUDGES = sorted(family for family, kind in FAMILIES.items() if not issubclass(kind, (CaptionModel, Aligner)))
CPU = torch.device("cpu")


def small(family: str, **fields) -> RunConfig:
    for switch in fields.items():
        fields = fields | WITH.get(switch, {})
    model = FAMILIES[family](**SMALL[family] | fields)
    data = XRAYS if fields.get("head") == "multilabel" else DATA.get(family, Digits(limit=24))
    steps = 2 if model.recursive else 1
    train = TrainConfig(epochs=2, batch_size=8, ema_decay=0.9, supervision_steps=steps, evaluation_steps=steps, halt_threshold=1)
    return RunConfig(data=data, model=model, train=train)


@pytest.mark.parametrize("family", JUDGES)
def test_a_family_that_judges_images_refuses_captions(family):
    """Where the config is read, whatever the images are like."""
    with pytest.raises(
        ConfigError, match=r"^.* judges images, but Phantom captions \(synthetic\) has captions, which are for \w+, "
    ):
        configure(RunConfig, {"data": {"name": "phantom_captions"}, "model": {"family": family}})


def some_images(config: RunConfig, count: int) -> torch.Tensor:
    shape = (count, *config.data.shape)
    return torch.randint(0, 256, shape).float() if config.model.reads_pixels else torch.randn(shape)


def switches(kind: type, skip: set[str]) -> list[tuple[str, object]]:
    """Every value of every field that lists its values or is on or off."""
    found: list[tuple[str, object]] = []
    for name, field in kind.model_fields.items():
        if name not in skip and get_origin(field.annotation) is Literal:
            found += [(name, value) for value in get_args(field.annotation)]
        elif field.annotation is bool:
            found += [(name, True), (name, False)]
    return found


FAMILY_SWITCHES = [(family, name, value) for family in JUDGES for name, value in switches(FAMILIES[family], {"family", "size"})]


def train(config: RunConfig) -> Training:
    training = Training(config, load(config.data, Path()), CPU)
    for line in training.epochs():
        assert line["train_loss"] > 0
    return training


@pytest.mark.parametrize("family", JUDGES)
def test_every_family_has_a_small_example_here(family):
    assert family in SMALL


@pytest.mark.parametrize("family", JUDGES)
def test_shapes_and_a_gradient_to_every_weight(family):
    config = small(family)
    network = build(config.model, config.data).train()
    images = some_images(config, 5)

    output, carry = network(images, network.start(images))
    loss = output.logits.square().sum() + (0 if output.halt is None else output.halt.square().sum())
    loss.backward()

    assert output.logits.shape[0] == 5 <= config.data.classes <= output.logits.shape[1]
    assert output.halt is None or output.halt.shape == (5,)
    assert bool(carry) == config.model.recursive
    assert [name for name, weight in network.named_parameters() if weight.grad is None or not weight.grad.any()] == []


@pytest.mark.parametrize("family", JUDGES)
def test_the_carry_goes_on_where_it_stopped(family):
    config = small(family)
    network = build(config.model, config.data).eval()
    images = some_images(config, 3)

    once, carry = network(images, network.start(images))
    twice, _ = network(images, detached(carry))

    assert torch.equal(once.logits, twice.logits) != config.model.recursive


@pytest.mark.parametrize("family", JUDGES)
def test_forward_is_pure(family):
    """Two calls give the same, and evaluation writes nothing on the module."""
    config = small(family)
    network = build(config.model, config.data).eval()
    images = some_images(config, 3)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    attributes = {name: dict(module.__dict__) for name, module in network.named_modules()}

    first, _ = network(images, network.start(images))
    second, _ = network(images, network.start(images))

    assert torch.equal(first.logits, second.logits)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert all(module.__dict__.keys() == attributes[name].keys() for name, module in network.named_modules())


@pytest.mark.parametrize("family", JUDGES)
def test_a_worker_without_images_has_no_predictions(family):
    """Its share of a short last batch may be empty."""
    config = small(family)
    training = Training(config, load(config.data, Path()), CPU)
    none = training._batches(training.data.test)
    none.rows, none.rank, none.world = none.rows[:1], 0, 2  # of one image, the first of two workers has none

    (logits,), labels = predict(training.state.evaluated, none, config)

    assert len(logits) == len(labels) == 0
    assert logits.shape[1] >= config.data.classes


@pytest.mark.parametrize("family", JUDGES)
def test_an_image_is_judged_by_itself(family):
    """In evaluation no image sees the others of its batch."""
    config = small(family)
    network = build(config.model, config.data).eval()
    images = some_images(config, 4)

    together, _ = network(images, network.start(images))
    alone, _ = network(images[2:3], network.start(images[2:3]))

    torch.testing.assert_close(together.logits[2:3], alone.logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("family", "name", "value"), FAMILY_SWITCHES, ids=str)
def test_every_switch_value_of_a_family_trains(family, name, value):
    training = train(small(family, **{name: value}))

    assert training.state.epoch == 2
    assert cost(training.config).params == sum(weight.numel() for weight in training.state.network.parameters())


@pytest.mark.parametrize(("name", "value"), switches(TrainConfig, {"optimizer"}), ids=str)
def test_every_switch_value_of_training_trains(name, value):
    train(small("vitrm").with_changes({f"train.{name}": value, "train.augment.mixup": 0.4}))


@pytest.mark.parametrize(
    "augment",
    [Augment(crop=1), Augment(flip=True), Augment(randaugment_ops=2), Augment(mixup=0.2), Augment(cutmix=1.0)],
    ids=lambda augment: next(iter(augment.model_fields_set)),
)
def test_every_augmentation_trains(augment):
    train(small("vitrm").with_changes({"train.augment": augment}))


@pytest.mark.parametrize("family", JUDGES)
def test_a_saved_run_resumes_to_the_same_bits(family, tmp_path):
    config = small(family).with_changes({"train.epochs": 3})
    straight = train(config)

    data = load(config.data, tmp_path)
    stopped = Training(config, data, CPU)
    next(stopped.epochs())
    save_checkpoint(stopped, tmp_path)
    torch.manual_seed(99)
    resumed = Training(config, data, CPU)
    assert load_checkpoint(resumed, tmp_path)
    lines = list(resumed.epochs())

    assert [line["epoch"] for line in lines] == [1, 2]
    for kind in ("network", "evaluated"):
        ours, theirs = getattr(resumed.state, kind).state_dict(), getattr(straight.state, kind).state_dict()
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert resumed.finish() == straight.finish()


def test_families_are_configs_with_titles():
    for family in JUDGES:
        assert issubclass(FAMILIES[family], ModelConfig)
        assert FAMILIES[family](**SMALL[family]).title
