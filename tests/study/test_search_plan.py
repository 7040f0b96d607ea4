"""What a search is: ranges from the fields, settings that come first, a budget, and refusals before anything
runs.
"""

import json

import pytest

from recstudy import Range, Search
from recstudy.programs.settings import tunable
from recstudy.recursive import CNN, TRM, Digits, ImageHRM, PhantomCaptions, RunConfig, ViTRM
from recstudy.study.budget import Budget, Meter
from recstudy.study.plan import make_plan
from recstudy.study.search import readable

VITRM = RunConfig(data=Digits(), model=ViTRM(width=16, heads=2, patch=2))
TRM_BASE = RunConfig(data=Digits(), model=TRM(width=16, heads=2, tokens="patch", positions="learned"))

CAPTIONER = RunConfig(
    data=PhantomCaptions(), model=ImageHRM(backbone="small", weights="random", width=16, heads=2)
)


def search(**changes) -> Search:
    fields = {
        "name": "s",
        "presets": {"quick": [VITRM, TRM_BASE]},
        "vary": ("model.latent_steps", "train.batch_size"),
        "question": "?",
    }
    return Search(**fields | changes)


def test_ranges_stand_beside_the_fields():
    ranges = tunable(VITRM)

    assert ranges["model.latent_steps"] == Range(1, 6)
    assert ranges["train.learning_rate"] == Range(1e-5, 1e-2, log=True)
    assert {path.split(".")[0] for path in ranges} == {"model", "train"}
    assert tunable(RunConfig(data=Digits(), model=CNN())).keys() < ranges.keys()


@pytest.mark.parametrize(
    ("range", "inside", "outside"),
    [
        (Range(1, 6), [1, 6, 3.0], [0, 7, 2.5, "3"]),
        (Range(1e-5, 1e-2, log=True), [1e-5, 3e-4], [0, 0.1]),
        (Range([16, 32]), [16, 32], [24]),
    ],
)
def test_range_contains_values_between_its_bounds(range, inside, outside):
    assert all(value in range for value in inside)
    assert not any(value in range for value in outside)


def test_levels_that_fit_only_beside_others_are_searched():
    """A width of 15 needs other heads than the preset's two."""
    heads = {"model.width": Range([15, 16]), "model.heads": Range([1, 2])}

    assert make_plan(search(vary=tuple(heads), ranges=heads)).space.ranges["vitrm"] == heads


def test_the_space_of_each_family_is_what_it_has_of_the_named_fields():
    plan = make_plan(
        search(vary=("model.latent_*", "model.*cycles", "train.batch_size")), families=("vitrm", "trm")
    )

    assert {family: list(fields) for family, fields in plan.space.ranges.items()} == {
        "vitrm": ["model.latent_tokens", "model.latent_steps", "model.cycles", "train.batch_size"],
        "trm": ["model.latent_steps", "model.cycles", "train.batch_size"],
    }


def test_the_first_family_is_the_default_and_its_own_settings_come_first():
    first_trials = ({"family": "vitrm", "model.latent_steps": 6}, {"family": "trm", "model.latent_steps": 1})

    plan = make_plan(search(first=first_trials))

    assert plan.first == [
        {"model.latent_steps": 3, "train.batch_size": 128},
        {"model.latent_steps": 6, "train.batch_size": 128},
    ]


def test_ranges_for_every_preset_and_of_one_add_up():
    widths, rates = Range([16, 32]), Range(1e-4, 1e-3, log=True)
    search_of_both = search(ranges={"train.batch_size": widths, "quick": {"train.learning_rate": rates}})

    assert dict(search_of_both.ranges["quick"]) == {"train.batch_size": widths, "train.learning_rate": rates}


def test_a_presets_own_settings_outside_the_ranges_are_not_tried_and_named_ones_are():
    one_range = search(ranges={"train.batch_size": Range([16, 32])}, first=({"train.batch_size": 32},))

    assert make_plan(one_range).first == [{"model.latent_steps": 3, "train.batch_size": 32}]


def test_settings_to_try_first_may_be_those_of_some_presets_alone():
    by_preset = search(
        presets={"quick": [VITRM], "paper": [VITRM]}, first={"paper": [{"model.latent_steps": 6}]}
    )

    assert [len(make_plan(by_preset, preset).first) for preset in ("quick", "paper")] == [1, 2]


def test_a_setting_of_another_family_replaces_whole_parts_of_the_base():
    plan = make_plan(search(), families=("vitrm", "trm"))
    params = {"family": "trm", "model.latent_steps": 2, "train.batch_size": 32}

    assert plan.run(0, params).label == "trm: latent_steps=2, batch_size=32"
    assert (
        plan.base.with_changes(plan.variant(plan.run(0, params), params).changes)
        == plan.run(0, params).config
    )


def test_the_definition_is_what_is_searched_and_not_how():
    plan = make_plan(search())

    assert make_plan(search(), budget="2h", sampler="random", seeds=5).definition == plan.definition
    assert make_plan(search(), changes={"train.epochs": 2}).definition != plan.definition
    assert make_plan(search(ranges={"model.latent_steps": Range(1, 2)})).definition != plan.definition


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        ("24", 24, "runs"),
        ("1 run", 1, "runs"),
        ("90min", 1.5, "h"),
        ("2h", 2, "h"),
        ("40 gpuh", 40, "gpuh"),
    ],
)
def test_budget_is_parsed_into_amount_and_unit(text, amount, unit):
    assert Budget.parse(text) == Budget(amount, unit)


def test_a_field_is_searched_over_values_that_are_given_from_outside():
    """In place of its range, or beside the fields that the search varies; only the preset's own settings come
    first then.
    """
    vary = {"model.latent_steps": [2, 3], "train.epochs": [1, 60]}
    plan = make_plan(search(first=({"model.latent_steps": 6},)), vary=vary)

    assert {path: str(range) for path, range in plan.space.ranges["vitrm"].items()} == {
        "model.latent_steps": "2, 3",
        "train.batch_size": "16, 32, 64, 128, 256, 512",
        "train.epochs": "1, 60",
    }
    assert plan.first == [{"model.latent_steps": 3, "train.batch_size": 128, "train.epochs": 1}]
    assert plan.definition != make_plan(search()).definition


def test_the_score_is_the_familys_own():
    plan = make_plan(
        search(
            presets={"quick": [CAPTIONER]},
            vary=("model.*cycles",),
            objectives={"score": "max", "gflops": "min"},
        )
    )

    assert plan.objectives == {"selection_token_accuracy": "max", "gflops": "min"}


def test_small_spaces_can_be_counted_and_others_not():
    plan = make_plan(search(ranges={"train.batch_size": Range([16, 32])}))

    settings = list(plan.space.combinations())

    assert len(settings) == 6 * 2
    assert settings[0] == {"model.latent_steps": 1, "train.batch_size": 16}
    assert make_plan(search(vary=("train.learning_rate",))).space.combinations() is None


@pytest.mark.parametrize(
    ("value", "short"), [(0.000123456, 0.0001235), (12.3456, 12.35), (0.0, 0.0), (3, 3), ("a", "a")]
)
def test_numbers_are_readable(value, short):
    assert readable(value) == short


def test_a_meter_adds_up_sessions_and_gpu_hours(tmp_path):
    """Two sessions by an injected clock: 2 h with a run of 1 h on 2 GPUs; then 1 h with a run under way for
    half an hour.
    """
    clock_time, log = [0.0], tmp_path / "trials.jsonl"
    first = Meter(log, Budget(9, "h"), clock=lambda: clock_time[0])
    first.gpus = 2
    first.start_run("a")
    clock_time[0] = 3600
    first.end_run("a")
    clock_time[0] = 7200
    first.write()
    clock_time[0] = 99_999  # another process: its clock starts anywhere

    hours, gpu_hours = (Meter(log, Budget(9, unit), clock=lambda: clock_time[0]) for unit in ("h", "gpuh"))
    gpu_hours.gpus = 2
    clock_time[0] += 1800
    gpu_hours.start_run("c")
    clock_time[0] += 1800

    assert hours.spent_hours == pytest.approx(2 + 1)
    assert gpu_hours.spent_hours == pytest.approx(2 * 1 + 2 * 0.5)
    assert len([json.loads(line) for line in log.read_text().splitlines()]) == 3
