"""Run ids last: today's for today's configs, and finished runs are found again when fields come, go or change
their name.
"""

import json
from pathlib import Path
from typing import ClassVar, Literal, get_args

import pytest
from golden_ids import FILE, STUDIES, load, of_parts, of_studies

from recstudy.programs.settings import Config, configure
from recstudy.recursive import (
    AUGMENTATIONS,
    DATASETS,
    FAMILIES,
    OPTIMIZERS,
    TRM,
    Augment,
    Digits,
    ModelConfig,
    ResNet,
    RunConfig,
    ShowTell,
    TrainConfig,
    ViTRM,
)
from recstudy.recursive.config import ids
from recstudy.study.plan import make_plan

GOLDEN = json.loads(FILE.read_text())
RUN = RunConfig(data=Digits(), model=ViTRM(patch=2, width=64, heads=4))
RECORDS = sorted(Path(__file__).parent.glob("records/*/runs/*/config.json"))


def parts() -> dict[str, type[Config]]:
    """Every config class of recstudy's that is part of a run, by its name in the frozen table."""
    config_classes: dict[str, type[Config]] = {"RunConfig": RunConfig}
    for part, registry in (("model", FAMILIES), ("data", DATASETS)):
        config_classes |= {
            f"{part}.{name}": kind
            for name, kind in registry.items()
            if kind.__module__.startswith("recstudy.")
        }
    for kind in list(config_classes.values()):
        _nested(kind, config_classes)
    return config_classes


def _nested(kind: type[Config], config_classes: dict[str, type[Config]]) -> None:
    annotations = [
        inner
        for about in kind.model_fields.values()
        for inner in (about.annotation, *get_args(about.annotation))
    ]
    for inner in (
        annotation
        for annotation in annotations
        if isinstance(annotation, type)
        and issubclass(annotation, Config)
        and annotation not in config_classes.values()
    ):
        if inner.__name__ not in ("ModelConfig", "DataConfig", "Resources"):
            config_classes[inner.__name__] = inner
            _nested(inner, config_classes)


def unlisted(config_classes: dict[str, type[Config]]) -> dict[str, set[str]]:
    """By part, the fields that are new to the frozen table, and those of the table that are gone."""
    differences = {}
    for part, kind in config_classes.items():
        frozen_fields = {*ids.FIELDS.get(part, "").split(), *ids.YOUNGER.get(part, {})}
        differences[part] = frozen_fields ^ {
            ids.RENAMED.get(name, name)
            for name in kind.model_fields
            if (part, name) != ("RunConfig", "resources")
        }
    return {part: names for part, names in differences.items() if names}


def test_ids_are_those_of_the_code_before():
    """Of every family and data set: as commit 17de08b wrote them, or the commit that raised its revision."""
    current_ids = of_parts()

    assert {name: current_ids.get(name) for name in GOLDEN["parts"]} == GOLDEN["parts"]


def test_ids_of_the_studies_are_those_of_the_code_before():
    """Where a study itself was changed, `python tests/golden_ids.py` writes its new ids."""
    current_ids = of_studies()

    for name, golden_ids in GOLDEN["studies"].items():
        assert current_ids[name] == golden_ids, f"{name}: finished runs and trials would not be found again"


@pytest.mark.parametrize("preset", ["cpu", "standard"])
def test_recursion_or_depth_uses_the_runs_of_the_depth_sweep(preset):
    """Both studies train the same ViTRM on CIFAR-10, so its runs are made once."""
    runs = {
        name: set(GOLDEN["studies"][f"{name}/{preset}"].values())
        for name in ("recursion_or_depth", "vitrm_depth_sweep")
    }

    assert len(runs["recursion_or_depth"] & runs["vitrm_depth_sweep"]) == 3


# What commit 9086471 had otherwise in the `paper` presets of its studies of ViTRM.
EARLIER_SETTINGS = {"train.precision": "bfloat16", "train.evaluation_depths": 4}


@pytest.mark.parametrize("name", GOLDEN["9086471"])
def test_results_of_the_first_commit_are_found_again(name):
    """The ids that commit 9086471 gave the runs of its studies are those of the same settings today."""
    file, _, preset = name.partition("/")
    changes = EARLIER_SETTINGS if preset == "paper" and file.startswith("vitrm") else {}
    plan = make_plan(load(STUDIES / f"{file}.py"), preset, changes)

    assert set(GOLDEN["9086471"][name]) <= {config.run_id for config in plan.configs}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: f"{path.parts[-4]}-{path.parent.name[:4]}")
def test_recorded_configs_have_the_ids_that_they_were_recorded_under(path):
    assert configure(RunConfig, json.loads(path.read_text())).run_id == path.parent.name


def test_the_frozen_table_knows_every_field():
    """In recstudy/recursive/config/ids.py new fields go to FIELDS or YOUNGER; lost and renamed ones keep their place in
    the id.
    """
    assert unlisted(parts()) == {}
    assert unlisted({"model.vitrm": Longer, "model.new": ResNet}) == {
        "model.vitrm": {"patience"},
        "model.new": {"family", "depth", "stem"},
    }


class Longer(ViTRM):
    """ViTRM, as it is after somebody has added a field."""

    patience: int = 3


def test_a_field_that_is_added_orphans_no_finished_run():
    """Its default leaves the id as it was; another value makes another run."""
    added = [
        RUN.model_copy(update={"model": Longer(patch=2, width=64, heads=4, patience=patience)})
        for patience in (3, 4)
    ]

    assert (added[0].run_id == RUN.run_id, added[1].run_id == RUN.run_id) == (True, False)


class Block(Config):
    width: int = 8


class Outside(ModelConfig):
    """A family from outside, which the table does not know."""

    recursive: ClassVar[bool] = True

    family: Literal["outside"] = "outside"
    blocks: tuple[Block, ...] = (Block(),)
    heads: int = 2


def test_a_family_from_outside_contributes_what_differs_from_its_defaults():
    def of(model: ModelConfig) -> dict[str, object]:
        return RunConfig.model_construct(data=Digits(), model=model, train=TrainConfig(), seed=0).deciding[
            "model"
        ]

    assert of(Outside()) == {"family": "outside"}
    assert of(Outside(heads=4, blocks=(Block(), Block(width=3)))) == {
        "family": "outside",
        "heads": 4,
        "blocks": [{}, {"width": 3}],
    }


def test_a_revision_of_a_registered_function_gives_new_ids_to_the_runs_that_use_it(monkeypatch):
    other_optimizer, cropped = (
        RUN.with_changes({"train.optimizer": "adam_atan2"}),
        RUN.with_changes({"train.augment.crop": 2}),
    )
    old_ids = RUN.run_id, other_optimizer.run_id, cropped.run_id

    monkeypatch.setattr(OPTIMIZERS["adam_atan2"], "revision", 2, raising=False)
    monkeypatch.setattr(AUGMENTATIONS["crop"], "revision", 2, raising=False)

    assert [RUN.run_id, other_optimizer.run_id == old_ids[1], cropped.run_id == old_ids[2]] == [
        old_ids[0],
        False,
        False,
    ]


@pytest.mark.parametrize("kind", [ViTRM, Digits, TrainConfig, Augment, ModelConfig])
def test_a_revision_gives_new_ids(kind, monkeypatch):
    old_id = RUN.run_id
    monkeypatch.setattr(kind, "revision", 2)

    second = RUN.run_id
    monkeypatch.setattr(kind, "revision", 3)

    assert len({old_id, second, RUN.run_id}) == 3


def test_a_revision_of_some_values_leaves_the_ids_of_the_others():
    """TRM-MLP's norm and 003's search have changed; attention and the other searches have not."""
    models = [TRM(mixing="mlp"), TRM(), ShowTell(decode="official_quirk"), ShowTell()]

    assert [ids.deciding(model, model.model_dump(mode="json")).get("revision") for model in models] == [
        2,
        None,
        2,
        None,
    ]
