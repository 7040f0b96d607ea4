import pytest

from recstudy import Deviation, Search, Study, Variant, grid
from recstudy.base.errors import ConfigError
from recstudy.recursive import Digits, RunConfig, TrainConfig, ViTRM
from recstudy.study.plan import make_plan
from recstudy.study.record import command, plan_record

BASE = RunConfig(data=Digits(), model=ViTRM(patch=2, width=16, heads=2), train=TrainConfig(epochs=4))


def study(variants, **fields) -> Study:
    return Study(
        name="s",
        presets={"quick": BASE, "paper": BASE},
        variants=variants,
        question="Why?\n\nBecause.",
        **fields,
    )


def test_seed_blocks_come_first():
    plan = make_plan(study(grid({"model.latent_steps": [1, 2]}), seeds=2))

    assert [(run.label, run.seed) for run in plan.runs] == [
        ("latent_steps=1", 0), ("latent_steps=2", 0), ("latent_steps=1", 1), ("latent_steps=2", 1),
    ]  # fmt: skip
    assert len({run.id for run in plan.runs}) == 4
    assert [run.config.seed for run in plan.runs] == [0, 0, 1, 1]


def test_the_command_line_goes_over_a_named_level():
    level = {"model": {"A": {"model": BASE.model, "train.epochs": 300}}}
    plan = make_plan(study(grid(level)), changes={"train.epochs": 1, "train.batch_size": 8})
    record = plan_record(plan)

    assert plan.configs[0].train.epochs == 1
    assert record.variants[0].changes["train.epochs"] == 1
    assert "train.batch_size" not in record.variants[0].changes
    assert record.base["train"]["batch_size"] == 8


LAYERS = {"layers": {str(depth): {"model.layers": depth, "model.latent_tokens": depth} for depth in (1, 2)}}


@pytest.mark.parametrize(
    ("changes", "epochs", "limit"),
    [
        ({}, 2, 32),
        ({"train.epochs": 5}, 5, 32),
        ({"train": {"epochs": 5}}, 5, 32),
        ({"data.limit": 64}, 2, 64),
        ({"data": Digits()}, 2, 32),
    ],
)
def test_smoke_is_two_epochs_on_32_images_but_for_what_is_set(changes, epochs, limit):
    plan = make_plan(study(grid({"model.latent_steps": [1]}), seeds=5), changes=changes, smoke=True)

    assert (plan.folder, len(plan.runs)) == ("quick-smoke", 1)
    assert [(config.train.epochs, config.data.limit) for config in (*plan.configs, plan.base)] == [
        (epochs, limit)
    ] * 2


def test_the_command_that_is_recorded_holds_no_secret(monkeypatch):
    """Whatever a parameter is called, its value is hidden, unless it is known to say where and how alone."""
    storages = (
        "postgresql://me:hunter2@db/optuna?sslmode=require&sslpassword=x",
        "mysql://db/optuna?user=me&password=hunter2",
    )
    monkeypatch.setattr(
        "sys.argv",
        ["s.py", "--optuna-storage", storages[0], f"--optuna-storage={storages[1]}", "--budget", "4"],
    )

    assert command() == (
        "python s.py --optuna-storage 'postgresql://me:***@db/optuna?sslmode=require&sslpassword=***' "
        "'--optuna-storage=mysql://db/optuna?user=me&password=***' --budget 4"
    )


def test_setting_shared_by_all_variants_can_be_changed():
    levels = {"layers": {name: {**level, "train.epochs": 300} for name, level in LAYERS["layers"].items()}}

    assert [
        config.train.epochs for config in make_plan(study(grid(levels)), changes={"train.epochs": 2}).configs
    ] == [2, 2]


BAD = ["", "..", "/tmp/evil", "a\\b", ".hidden", "dot.", "new\nline", "ü"]


@pytest.mark.parametrize("name", BAD)
def test_a_name_is_one_folder_inside_the_results(name):
    variants = [Variant("plain", {})]
    for make_named_plan in (
        lambda: make_plan(Study(name, {"quick": BASE}, variants)),
        lambda: make_plan(Study("s", {"quick": BASE, name: BASE}, variants)),
        lambda: make_plan(Search(name, {"quick": [BASE]}, ("model.latent_steps",))),
        lambda: make_plan(Search("s", {name: [BASE]}, ("model.latent_steps",))),
    ):
        with pytest.raises(ConfigError, match="name is that of a folder: letters, digits"):
            make_named_plan()


def test_stated_deviation_must_hold_in_the_paper_preset_and_is_in_the_plan():
    precision = Deviation(field="train.precision", paper="bfloat16", ours="float32", why="a CPU")
    variants = grid({"model.latent_steps": [1, 2]})
    stated_plan = make_plan(study(variants, deviations=[precision]), "paper")

    assert plan_record(stated_plan).deviations == (precision,)
    assert stated_plan.definition == make_plan(study(variants), "paper").definition
    for field, words in (
        ("train.precision", "in its preset paper it is 'float32'"),
        ("train.presicion", "no model or data set"),
    ):
        wrong = Deviation(field=field, ours="float16", why="")
        with pytest.raises(ConfigError, match=words):
            make_plan(study(variants, deviations=[wrong]), "paper")


def test_a_plan_keeps_the_paper_preset_as_the_study_has_it():
    variants = {"quick": grid({"model.latent_steps": [1]}), "paper": grid({"model.latent_steps": [1, 2]})}

    quick, changed, paper = (
        plan_record(make_plan(study(variants), preset, changes)).reference
        for preset, changes in (("quick", {}), ("paper", {"train.epochs": 9}), ("paper", {}))
    )

    assert [variant.label for variant in quick.variants] == ["latent_steps=1", "latent_steps=2"]
    assert changed == quick
    # None: the plan's own
    assert (changed.base["train"]["epochs"], paper.base, paper.variants) == (4, quick.base, None)
