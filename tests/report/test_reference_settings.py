"""Settings that ship with published tables: a study is held against them, whatever its own presets say."""

import importlib.util
from copy import deepcopy
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest
from made_up import base, read, variants, write_study
from test_targets import match_in, target

from recstudy import Resources, Study, Variant
from recstudy.base.values import flatten
from recstudy.papers import published, settings
from recstudy.records import Results
from recstudy.records.study_schema import Deviation
from recstudy.recursive import (
    CNN,
    DATASETS,
    FAMILIES,
    Augment,
    Cifar10,
    ImageTRM,
    MicarVLMoE,
    ResNet,
    RunConfig,
    TrainConfig,
    ViTRM,
)
from recstudy.report.names import metric
from recstudy.report.parts import parts_of
from recstudy.report.study_records import StudyRecords, records_of
from recstudy.report.targets import NO_SETTINGS, SHARDS, MatchedTarget, match_targets
from recstudy.study.plan import make_plan
from recstudy.study.record import plan_record

STUDIES = Path(__file__).parents[2] / "studies"


def load(name):
    spec = importlib.util.spec_from_file_location(name, STUDIES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, "study", None)


FREE_FIELDS = ("resources.", "seed", "train.evaluation_depths")  # decide no number
PRESETS = [
    path.stem
    for path in sorted(STUDIES.glob("*_*.py"))
    if isinstance(study := load(path.stem), Study) and "paper" in study.presets
]
TABLE = published("002_table1_cifar10", only=("top1_accuracy",))
PAPER = TrainConfig(
    epochs=1000, warmup=0.03, ema_decay=0.999, selection="test",
    augment=Augment(crop=4, flip=True, randaugment_ops=2, randaugment_magnitude=9, mixup=0.2, cutmix=1.0),
)  # fmt: skip


def matched_value(tmp_path, train, preset="own", deviations=(), **model) -> MatchedTarget:
    """What stands beside a study of one variant whose only preset is of this name."""
    config = RunConfig(data=Cifar10(), model=ViTRM(**model), train=train, resources=Resources(gpus=0))
    study = Study(
        name="one", presets={preset: config}, variants=[Variant("ViTRM", {})], deviations=deviations
    )
    records = records_of(Results(tmp_path), plan_record(make_plan(study, preset)))
    (matches,) = match_targets(
        records, [target for target in TABLE if target.value == 93.1], [0], ["top1_accuracy"]
    ).matches.values()
    return matches[0]


def test_study_without_a_paper_preset_is_compared_with_the_settings_of_the_table(tmp_path):
    other_training = TrainConfig(
        epochs=1000, selection="test", learning_rate=0.05, warmup=0.03, ema_decay=0.999
    )

    reasons = matched_value(tmp_path, other_training, width=60).reasons

    assert {"learning_rate 0.05, not 0.0003", "crop 0, not 4", "mixup 0, not 0.2"} <= {*reasons}
    assert reasons[-1] == "1 more setting (width)"
    assert matched_value(tmp_path, PAPER).reasons == ()


@pytest.mark.parametrize("preset", ["own", "paper"])
def test_a_wrong_preset_does_not_certify_itself(tmp_path, preset):
    wrong = PAPER.model_copy(update={"weight_decay": 0.5})
    deviation = Deviation(field="train.weight_decay", paper=0.05, ours=0.5, why="to see")

    assert matched_value(tmp_path, wrong, preset=preset).reasons == ("weight_decay 0.5, not 0.05",)
    assert matched_value(tmp_path, wrong, preset=preset, deviations=(deviation,)).reasons == ()


def test_a_deviation_of_another_number_of_the_table_excuses_nothing(tmp_path):
    wrong = PAPER.model_copy(update={"weight_decay": 0.5})
    other_deviation = Deviation(field="train.weight_decay", paper=0.1, ours=0.5, why="of another model")

    assert matched_value(tmp_path, wrong, deviations=(other_deviation,)).reasons == (
        "weight_decay 0.5, not 0.05",
    )


def test_preset_may_follow_text_or_code_of_a_paper(tmp_path):
    early = PAPER.model_copy(update={"patience": 10})
    mixture = "a mixture of the paper's text and its code: patience {} ({}), ffn {} ({})"
    deviation = Deviation(field="train.patience", paper=10, ours=0, why="to see")

    assert matched_value(tmp_path, early, ffn="gelu").reasons == ()
    assert matched_value(tmp_path, PAPER, ffn="gelu").reasons == (mixture.format(0, "code", "gelu", "text"),)
    assert matched_value(tmp_path, early).reasons == (mixture.format(10, "text", "swiglu", "code"),)
    assert matched_value(tmp_path, PAPER, ffn="gelu", deviations=(deviation,)).reasons == ()
    assert matched_value(tmp_path, PAPER.model_copy(update={"patience": 5})).reasons == (
        "patience 5, not 10 (text) or 0 (code)",
    )


def test_without_reference_settings_nothing_says_that_the_settings_are_the_papers(tmp_path):
    reference = {"preset": "own", "base": base(), "axes": {"model": "model"}}
    records = read(write_study(tmp_path / "r", reference=reference))
    target_settings = {"train__optimizer": "adamw", "train__learning_rate": 1e-3, "train__batch_size": 64}

    assert match_in(records, target(train__batch_size=64)).matches[0, "top1_accuracy"][0].reasons == (
        NO_SETTINGS,
    )
    reasons = match_in(records, target(**target_settings)).matches[0, "top1_accuracy"][0].reasons
    assert NO_SETTINGS not in reasons  # the target itself states them, and the study's differ
    assert reasons == ("optimizer none, not adamw", "learning_rate none, not 0.001")


def test_settings_are_fields_that_there_are():
    """One that is misspelt would be held against nothing, in silence."""
    train = {f"train.{name}" for name in flatten(TrainConfig().model_dump())}
    for any_target in every_target():
        stated_settings, known_fields = settings(any_target), set(train)
        for part, key, registry in (("model", "family", FAMILIES), ("data", "name", DATASETS)):
            kind = (any_target.where | stated_settings).get(f"{part}.{key}")
            known_fields |= (
                {f"{part}.{name}" for name in registry[kind].model_fields} if kind in registry else set()
            )
        assert {
            path
            for path in stated_settings
            if "model.family" in any_target.where | stated_settings or path.startswith("train")
        } <= known_fields, any_target.row


def every_target():
    tables = (
        "000_table1_imagehrm",
        "000_table2_imagetrm",
        "002_table1_cifar10",
        "002_table2_cifar100",
        "002_ablation_fig2_fig3",
    )
    tables += ("003_table1_sota", "003_table3_ablation", "004_author_repo_curves", "004_abstract_accuracies")
    tables += (
        "trm_table1_sudoku_ablation",
        "trm_table2_latents",
        "trm_table3_recursions",
        "trm_table4_puzzles",
        "trm_table5_arc",
    )
    return [target for table in tables for target in published(table)]


def placement(name, changes=()):
    """Where the published values of a study's report are in its `paper` preset with these changes."""
    plan = make_plan(load(name), "paper", dict(changes))
    records = records_of(Results(Path("none")), plan_record(plan))
    targets = [target for part in plan.report for target in getattr(part, "targets", ())]
    return match_targets(
        records, targets, range(len(records.variants)), [target.metric for target in targets]
    )


def contradictions(name, changes):
    """What the `paper` preset of a study contradicts with these changes, of the settings that its published
    rows have.
    """
    return {
        reason
        for matches in placement(name, changes).matches.values()
        for match in matches
        for reason in match.reasons
    }


@pytest.mark.parametrize("name", ["imagehrm_loops", "imagetrm_backbones"])
def test_each_row_of_the_tables_of_000_has_its_variant(name):
    places = placement(name)

    assert places.unmatched_targets == ()
    assert {
        match.target.value
        for matches in places.matches.values()
        for match in matches
        if "tuned" in str(match.reasons)
    } == set()


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("hrm_outer_loop", {"train.puzzle_learning_rate": 0.05}, "puzzle_learning_rate 0.05, not 0.0001"),
        ("trm_recursions", {"train.beta2": 0.999}, "beta2 0.999, not 0.95"),
        ("sudoku_depth", {"data.augmentations": None}, "augmentations none, not 1000"),
        ("sudoku_depth", {"train.epochs": 4}, "epochs 4, not 12 (text) or 10 (code)"),
        ("sudoku_depth", {"model.prefix": 4}, "prefix 4, not 1 (text) or 16 (code)"),
    ],
)
def test_presets_of_puzzles_are_compared_with_the_commands_of_their_authors(name, change, reason):
    assert reason in contradictions(name, change) - contradictions(name, {})


def another(value):
    """Another value of a setting, no published one. Placement compares values alone, so it need not be one
    that the field takes.
    """
    if isinstance(value, bool | None):
        return not value
    return 1000 * value + 1 if isinstance(value, int | float) else "another"


def changed(plan, path):
    """The plan with another value of a field in its base and in its variants, so that the preset is still its
    own reference.
    """
    *parts, name = path.split(".")
    base = deepcopy(plan.base)
    part = reduce(lambda part, key: part.get(key) or {}, parts, base)
    if name in part:
        part[name] = another(part[name])
    configs = records_of(Results(Path("none")), plan).configs
    variants = tuple(
        replace(variant, changes={**variant.changes, path: another(config[path])})
        if path in config
        else variant
        for variant, config in zip(plan.variants, configs, strict=True)
    )
    return replace(plan, base=base, variants=variants)


def comparable(plan, targets):
    """The published values, but no counts, that a plan's variants compare with: source, variant and metric of
    each.
    """
    records = records_of(Results(Path("none")), plan)
    placement = match_targets(
        records, targets, range(len(records.variants)), [target.metric for target in targets]
    )
    return {
        (value.target.source, index, name)
        for (index, name), values in placement.matches.items()
        for value in values
        if not (value.reasons or metric(name).computed)
    }


@pytest.mark.parametrize("name", PRESETS)
def test_no_field_of_a_paper_preset_certifies_itself(name):
    plan = replace(plan_record(make_plan(load(name), "paper")), runs=())
    records = records_of(Results(Path("none")), plan)
    targets = [target for part in parts_of(records) for target in getattr(part, "targets", ())]
    comparable_before = comparable(plan, targets)
    targets = list(
        {
            target.source: target
            for target in targets
            if target.source in {source for source, *_ in comparable_before}
        }.values()
    )
    for path in {path: None for _, index, _ in comparable_before for path in records.configs[index]}:
        unchanged = {
            (source, index, scored)
            for source, index, scored in comparable_before
            if path not in records.configs[index]
            or path.startswith(FREE_FIELDS)
            # the paper's value is True, and False is a stated deviation
            or (path == "data.allow_missing" and name.startswith("micar"))
            or (path.startswith("train.at_test") and not scored.startswith("noisy"))
        }

        assert comparable(changed(plan, path), targets) == unchanged, path


def reasons_of(records):
    return match_in(records, target(train__batch_size=64)).matches[0, "top1_accuracy"][0].reasons


def test_batch_norm_over_the_shares_of_several_workers_is_a_reason(tmp_path):
    normalised = read(
        write_study(tmp_path / "r", variants=[{**record, "batch_norm": True} for record in variants()])
    )

    assert reasons_of(normalised) == ()
    assert reasons_of(sharing(normalised, workers=2)) == (SHARDS,)
    assert reasons_of(sharing(read(write_study(tmp_path / "s")), workers=2)) == ()  # layer norm


def sharing(records, **provenance):
    """The same records, their first variant's runs made otherwise."""

    def changed(row):
        if row.variant or row.result is None:
            return row
        return replace(row, result=replace(row.result, provenance=replace(row.provenance, **provenance)))

    return StudyRecords(records.results, records.plan, [changed(row) for row in records.rows])


def test_models_say_whether_they_train_with_batch_norm():
    tuned = {"tuned": True, "weights": "random"}

    assert [model.batch_norm for model in (CNN(), ResNet(), MicarVLMoE(), ImageTRM(**tuned))] == [True] * 4
    assert [model.batch_norm for model in (ViTRM(), ImageTRM(), ImageTRM(**tuned, backbone="swin_t"))] == [
        False
    ] * 3


def test_another_data_checksum_is_a_reason(tmp_path):
    mixed = sharing(read(write_study(tmp_path / "r")), data_checksum="0ddba11")
    planned = read(
        write_study(tmp_path / "s", variants=[{**record, "data_checksum": "cafe"} for record in variants()])
    )

    assert reasons_of(mixed) == ("data of several checksums: 0ddba11 and feedbeef",)
    assert reasons_of(planned) == ("data of several checksums: cafe and feedbeef",)


def test_without_a_stated_margin_nothing_is_near_enough(records):
    stated_target = target(train__batch_size=64)
    without_margin = stated_target.model_copy(update={"margin_reason": ""})
    (first, second) = match_in(records, stated_target, without_margin).matches[0, "top1_accuracy"]

    assert (first.margin, second.margin) == (0.5, 0.0)


def test_parameter_count_of_another_network_is_not_comparable(tmp_path):
    """27,000,000 parameters of HRM stood beside the 52,226 of a small one."""
    small, paper = (base() | {"model": {**base()["model"], "layers": layers}} for layers in (1, 3))
    other_variants = [
        {**record, "changes": {"train.batch_size": record["changes"]["train.batch_size"]}}
        for record in variants()
    ]
    reference = {"preset": "paper", "base": paper, "axes": {}, "variants": other_variants}
    placement = match_in(
        read(write_study(tmp_path / "r", base=small, variants=other_variants, reference=reference)),
        target(3.6, "params", "million"),
    )

    assert placement.matches == {}
    assert [why for _, why in placement.unmatched_targets] == ["a count of other settings: layers 1, not 3"]


def test_a_deviation_is_none_where_the_paper_has_our_value_for_this_number(tmp_path):
    deviation = Deviation(field="model.heads", paper=12, ours=6, why="of another model of its table")

    assert matched_value(tmp_path, PAPER, deviations=(deviation,)).deviations == ()
