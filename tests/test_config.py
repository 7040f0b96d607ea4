import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import run_python

from recstudy.base.errors import ConfigError
from recstudy.plugins import Registry
from recstudy.programs.settings import Resources, configure
from recstudy.recursive import Cifar10, Digits, ImageFolder, ResNet, RunConfig, TrainConfig, ViT, ViTRM

RUN = RunConfig(data=Digits(), model=ViTRM(patch=2, width=64, heads=4))

configs = st.builds(
    lambda epochs, rate, steps, seed: RUN.with_changes(
        {"train.epochs": epochs, "train.learning_rate": rate, "model.latent_steps": steps, "seed": seed}
    ),
    st.integers(1, 2000),
    st.floats(1e-6, 1),
    st.integers(1, 64),
    st.integers(0, 2**31),
)


@given(configs)
def test_a_config_survives_json(config):
    restored = configure(RunConfig, json.loads(json.dumps(config.values)))

    assert restored == config
    assert restored.run_id == config.run_id


def shuffled(values, random):
    items = [
        (key, shuffled(value, random) if isinstance(value, dict) else value) for key, value in values.items()
    ]
    random.shuffle(items)
    return dict(items)


@given(configs, st.randoms())
def test_the_id_ignores_place_and_field_order(config, random):
    elsewhere = configure(
        RunConfig, {**shuffled(config.values, random), "resources": {"cpus": 7, "trainer": "inline"}}
    )

    assert elsewhere.run_id == config.run_id


@given(configs, configs)
def test_other_values_have_other_ids(config_a, config_b):
    assert (config_a.run_id == config_b.run_id) == (config_a.values == config_b.values)


def test_younger_fields_leave_ids_as_they_were():
    """Ids of the code before `train.amsgrad` and `train.backbone_learning_rate`; values of their own make
    another run.
    """
    assert RUN.with_changes({"train.ema_decay": 0.999}).run_id == "a9d1272ae6711061d73d"
    assert (
        RunConfig(data=Digits(), model=ResNet(), train=TrainConfig(epochs=3)).run_id == "72387e3538e1c884f1d5"
    )
    assert RUN.with_changes({"train.amsgrad": True}).run_id != RUN.run_id
    assert RUN.values["train"].keys() - RUN.deciding["train"].keys() >= {
        "amsgrad",
        "backbone_learning_rate",
        "optimizer_options",
    }


def test_changes_make_another_config_of_fields_or_whole_parts_which_have_their_own_defaults():
    old_id = RUN.run_id
    changed = RUN.with_changes({"train.augment.crop": 2, "model.width": 32, "data.limit": 100})

    assert RUN.run_id == old_id != changed.run_id
    assert RUN.with_changes({"model": ResNet(depth=34)}).model == ResNet(depth=34)
    assert RUN.with_changes({"model.family": "vit", "model.patch": 2}).model == ViT(patch=2)
    moved = RUN.with_changes({"data": Cifar10(), "model.patch": 4, "data.statistics": "cifar10"})
    assert moved.data == Cifar10(statistics="cifar10")
    assert RUN.with_changes({"data": Cifar10(), "data.name": "digits"}).data == Digits()


@pytest.mark.parametrize(
    ("fields", "images"), [({}, None), ({"limit": 1111}, 1000), ({"limit": 1111, "validation": 0.2}, 889)]
)
def test_a_limit_counts_as_the_size_of_a_set_whose_files_alone_tell_it(fields, images):
    assert (
        RUN.with_changes({"data": ImageFolder(path="birds", class_count=3, **fields)}).training_images
        == images
    )


def test_train_runs_where_there_are_several_workers_or_a_whole_gpu():
    assert not Resources().uses_train
    assert Resources(workers=2).uses_train
    assert Resources(gpus=1).uses_train
    assert not Resources(gpus=0.5).uses_train
    assert Resources(trainer="train").uses_train
    assert not Resources(gpus=1, trainer="inline").uses_train


def test_a_device_says_how_many_gpus_ray_gives():
    gpus = {device: Resources(device=device).gpus for device in ("auto", "cpu", "cuda", "mps")}

    assert gpus == {"auto": None, "cpu": 0.0, "cuda": 1.0, "mps": 0.0}
    assert Resources(device="cuda", gpus=0.25).gpus == 0.25
    assert RUN.with_changes({"resources.device": "mps"}).run_id == RUN.run_id


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        (
            "recstudy",
            {"torch", "ray", "optuna", "pandas", "plotly", "numpy", "pydantic", "recstudy.recursive.config"},
        ),
        ("recstudy.report", {"pandas", "plotly"}),
        ("recstudy.recursive.testing", {"torch", "ray", "optuna", "plotly"}),
        ("recstudy.recursive.data", {"torch", "torchvision", "sklearn", "PIL", "numpy"}),
        ("recstudy.cluster.driver, recstudy.cluster.searching", {"torch"}),
        ("recstudy.cli, recstudy.records.clean", {"torch", "ray"}),
    ],
)
def test_an_import_loads_nothing_that_it_does_not_need(modules, absent):
    code = f"import sys, {modules}; print(*sys.modules)"
    loaded_modules = run_python("-c", code).stdout.split()

    assert not absent & {*loaded_modules}


def test_workers_are_a_number():
    assert RUN.with_changes({"resources.workers": "4"}).resources.workers == 4


def test_a_registry_takes_a_name_once():
    families: Registry[type] = Registry("model family")
    families.add("vitrm")(int)

    with pytest.raises(ConfigError, match="the model family 'vitrm' is registered twice"):
        families.add("vitrm")(str)
