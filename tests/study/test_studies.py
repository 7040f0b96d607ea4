"""Every study of the project as a user would type it: the whole path with --smoke, and each preset's plan."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from processes import run_python
from shipped import load

from recstudy import Search, Study, run
from recstudy.base.terminal import console
from recstudy.records import Results
from recstudy.recursive import AttentionMaps, ViTRM
from recstudy.recursive.models.costs import cost, training_memory
from recstudy.report import Arithmetic
from recstudy.report.tables.arithmetic import counted_claims
from recstudy.report.writing import show_report
from recstudy.study.plan import make_plan
from recstudy.study.variants import select

STUDIES = sorted(Path(__file__).parents[2].glob("studies/*_*.py"))


SOME = {  # variants, of studies whose runs take minutes even so
    "hrm_chest_xray": "*patient",
    "hrm_outer_loop": "*loops=1*",
    "imagehrm_loops": "model=*[Me]",  # LSTM and triple
    "imagetrm_backbones": "*LEAKY*",
    "micar_components": "w/o m*",
    "micar_datasets": "*M*",
}


def expected(study: Study | Search) -> int:
    """Runs of a smoke run; of a search: two settings, and each once more with a fresh seed."""
    if isinstance(study, Search):
        return 4
    return len({run.id for run in select(make_plan(study, smoke=True).runs, [SOME.get(study.name, "*")])})


def reads_files(study: Study | Search) -> bool:
    """Whether its first preset is on data that recstudy does not have embedded."""
    first = next(iter(study.presets.values()))
    return any(
        config.data.reader().sources(Path()) for config in (first if isinstance(study, Search) else [first])
    )


@pytest.mark.whole
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_smoke(path, tmp_path, request):
    """The whole path of every study; where data are generated, the records, table files and the page say
    so.
    """
    study = load(path.stem)
    if reads_files(study):
        request.getfixturevalue("real_data")
    some = [SOME[study.name]] if study.name in SOME else []
    preset = f"{next(iter(study.presets))}-smoke"
    if isinstance(study, Search):
        run_python(path, "--smoke", folder=tmp_path)
    else:
        run(
            replace(study, question=study.question or study.name),
            smoke=True,
            only=some,
            results=tmp_path / "results",
            ray=False,
        )
        # which `run` leaves to the reader
        show_report(Results(tmp_path / "results"), study.name, preset, (), console())

    folder = tmp_path / f"results/studies/{study.name}/{preset}"
    page = (folder / "report/report.html").read_text()
    assert "smoke run: 2 epochs on 32 images; the numbers mean nothing" in page
    results = [json.loads(file.read_text()) for file in tmp_path.glob("results/runs/*/result.json")]
    assert len(results) == expected(study)
    assert {result["status"] for result in results} == {"done"}
    if all(result["provenance"]["synthetic"] for result in results):
        tables = [
            file for kind in ("md", "tex", "csv") for file in folder.glob(f"report/tables/models.{kind}")
        ]
        for text in [page, *(file.read_text() for file in tables)]:
            assert "synthetic" in text


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_preset_makes_a_plan(path):
    study = load(path.stem)
    for preset in study.presets:
        assert study.by_preset(study.report, preset)
        if isinstance(study, Search):
            for config in study.presets[preset]:
                assert make_plan(study, preset, families=[config.model.family]).first
            continue
        plan = make_plan(study, preset)
        assert plan.runs
        # A dry run prints a price without the data files: papers and data sets state the numbers of images.
        assert {config.data.name for config in plan.configs if not config.training_images} == set()


def test_batches_of_20_to_30_are_judged_at_a_batch_of_20_to_30():
    """003 V.C, Figure 6c: of the best batches against a smaller and a larger one, on each of the figure's
    data sets.
    """
    study = load("micar_hyperparameters")
    for preset, data in {"quick": [None], "standard": [None], "paper": ["COVCTR", "MMR"]}.items():
        claims = [
            claim
            for claim in study.by_preset(study.claims, preset)
            if "batch sizes of 20-30" in claim.text and not claim.each
        ]
        assert [claim.higher.get("data") for claim in claims] == [
            name for name in data for _ in ("smaller", "larger")
        ]
        for claim in claims:
            assert 20 <= claim.higher["train.batch_size"] <= 30
            assert not 20 <= claim.lower["train.batch_size"] <= 30


def test_more_experts_and_fewer_layers_are_judged_step_by_step():
    """003 V.C: with 2 experts a token, 4 exceed 2 and 8 exceed 4; 4 layers are worse than 3."""
    study = load("micar_hyperparameters")
    for data in ("COVCTR", "MMR"):
        claims = [claim for claim in study.claims["paper"] if claim.higher.get("data") == data]
        steps = [
            (claim.lower["mixture"], claim.higher["mixture"])
            for claim in claims
            if 'improves with more experts", from' in claim.text
        ]
        depths = [
            (claim.lower["model.decoder_layers"], claim.higher["model.decoder_layers"])
            for claim in claims
            if "degradation" in claim.text
        ]
        assert steps == [
            ("2 experts, top 2", "4 experts, top 2"),
            ("4 experts, top 2", "8 experts, top 2"),
        ]
        assert depths == [(4, 3)]


@pytest.mark.parametrize(
    ("sentence", "lower", "higher", "metrics"),
    [
        ("precise gradient flow and robust convergence", ["ImageTRM, one step"], "ImageTRM", ["rouge_l"]),
        (
            "are uniquely suited to seed",
            ["ImageTRM", "ImageTRM, FuseLIP"],
            "ImageTRM, Swin-T",
            ["rouge_l", "cider"],
        ),
        (
            "was outperformed by the simpler Swin integration",
            ["ImageTRM, FuseLIP"],
            "ImageTRM, Swin-T",
            ["rouge_l", "cider"],
        ),
        ("needs less memory, O(1)", ["ImageTRM, one step"], "ImageTRM", ["peak_memory_mb"]),
    ],
)
def test_claims_of_000_are_about_the_variants_that_its_sentences_compare(sentence, lower, higher, metrics):
    """Its full gradient is in place of HRM's one step (IV.B). Swin's score is a CIDEr, above each other's (VI.A)."""
    claims = [claim for claim in load("imagetrm_backbones").claims["paper"] if sentence in claim.text]

    assert [claim.metric for claim in claims] == metrics
    for claim in claims:
        assert ([claim.lower["model"]] if len(lower) == 1 else claim.lower["model"]) == lower
        assert (claim.higher["model"], claim.each) == (higher, len(lower) > 1)


def test_figure_7_is_of_both_data_sets():
    study = load("micar_routing")
    parts = [part for part in study.by_preset(study.report, "paper") if isinstance(part, AttentionMaps)]
    plan = make_plan(study, "paper")
    data = {
        variant.label: config.data.name for variant, config in zip(plan.variants, plan.configs, strict=True)
    }

    assert {data[part.where.get("variant", "full")] for part in parts} == {"cov_ctr", "mm_retinal"}


def test_the_paper_preset_of_001_follows_its_proposal():
    """1,000 training images (section 4.2), one token read after the last half (4.1), both puzzle embeddings
    (4.2).
    """
    plan = make_plan(load("hrm_chest_xray"), "paper")
    configs = {
        variant.label.removeprefix("model="): config
        for variant, config in zip(plan.variants, plan.configs, strict=True)
    }
    base, finding = configs["HRM, halves"], configs["HRM, halves, asked by finding"]

    assert {config.training_images for config in configs.values()} == {1000}
    assert (base.model.head, base.model.half_loss, base.data.findings) == ("single_token", "last", "single")
    assert configs["HRM, halves, told the patient"].model.puzzle_emb == "patient"
    assert (finding.model.puzzle_emb, finding.model.head) == ("pathology_query", "multilabel")
    assert base.program.price(base).training == pytest.approx(
        1308, abs=1
    )  # 93.4 TFLOP x 1,000 images x 14 epochs


def test_the_paper_preset_of_001_fits_eight_gpus_and_counts_what_halves_save():
    """Section 4.1 prints no number: TFLOP an image and GB a batch of eight follow from its sizes, and the
    study's docstring states them.
    """
    study = load("hrm_chest_xray")
    plan = make_plan(study, "paper")
    configs = {
        variant.label.removeprefix("model="): config
        for variant, config in zip(plan.variants, plan.configs, strict=True)
    }
    one_gpu = {
        "whole": configs["HRM, whole"].with_changes({"resources.workers": 1}),
        "halves": configs["HRM, halves"],
    }
    tflop, gigabytes = (
        {name: count(config) for name, config in one_gpu.items()}
        for count in (
            lambda config: cost(config).train_gflops / 1e3,
            lambda config: training_memory(config) / 1e9,
        )
    )

    assert tflop == pytest.approx({"whole": 219.9, "halves": 93.4}, abs=0.06)
    assert gigabytes == pytest.approx({"whole": 80.5, "halves": 40.5}, abs=0.5)
    assert {config.train.batch_size for config in configs.values()} == {8}
    assert max(map(training_memory, configs.values())) < 45e9
    assert max(config.resources.workers for config in configs.values()) == 2
    assert (study.by_preset(study.seeds, "paper"), study.by_preset(study.max_seeds, "paper")) == (3, 6)


def test_quoted_rows_of_arc_agi_2_are_trained_without_conceptarc():
    """HRM's command of ARC-AGI-2 has 1,120 tasks, TRM's 1,280. Warm-up takes 2,000 updates everywhere."""
    plan = make_plan(load("arc_agi"), "paper")
    rows = {}
    for variant, config in zip(plan.variants, plan.configs, strict=True):
        updates = config.training_images * config.train.epochs / config.train.batch_size
        assert config.train.warmup * updates == pytest.approx(2000, abs=10)
        tasks, rest = divmod(config.model.identifiers - 1, 1 + config.data.augmentations)
        assert rest == 0
        rows[variant.label] = config.data.concept, tasks

    assert rows == {
        f"model={model}, data=ARC-AGI-{version}": (True, 960)
        if version == 1
        else (is_trm, 1280 if is_trm else 1120)
        for model, is_trm in (("Direct pred", False), ("HRM", False), ("TRM-Att", True), ("TRM-MLP", True))
        for version in (1, 2)
    }


def test_a_published_ratio_of_costs_is_counted_before_anything_runs():
    """002 4.3's 84 times is of rounded numbers (002-16), 004's 30 times of seconds with evaluation in them
    (004-2).
    """
    claims_by_metric = {}
    for name in ("vitrm_batch_size", "hrm_small_images"):
        study = load(name)
        for preset in study.presets:
            (part,) = [part for part in study.by_preset(study.report, preset) if isinstance(part, Arithmetic)]
            claims_by_metric |= {
                claim.target.metric: (claim.target.value, claim.verdict) for claim in counted_claims(part)
            }
    hrm, cnn = (config.program.cost(config) for config in make_plan(study, "paper").configs[2:4])

    assert claims_by_metric == {
        "params": (23.5, "agrees"),
        "params_ratio_vs_vit_small": (4.7, "agrees"),
        "params_ratio_vs_vit_base": (23.0, "agrees"),
        "params_ratio_vs_resnet50": (6.5, "agrees"),
        "params_ratio_max_vs_vit": (84.0, "differs"),
        "params_ratio_max_vs_cnn": (6.0, "agrees"),
        "epoch_speedup_vs_hrm": (30.0, "not comparable"),  # of seconds, ours is of FLOPs
    }
    assert part.render(None).table.caption.startswith(
        "HRM-Small-Images abstract: 0 of 0 agree with our count;"
    )
    assert part.counted == {"epoch_speedup_vs_hrm": pytest.approx(hrm.train_gflops / cnn.train_gflops)}


def test_vitrm_is_compared_with_its_text_and_with_trms_procedure():
    """3.3: GELU, no image in the answer; 4.2: an average of the weights. 3.5: as many passes, of which TRM's
    procedure has a gradient through the last alone.
    """
    plan = make_plan(load("vitrm_fairness"), "paper")
    labels = [variant.label for variant in plan.variants]
    gelu, update_each_step, strict = (
        plan.configs[labels.index(f"model={name}, batch_size=256, learning_rate=0.0003")]
        for name in ("ViTRM, GELU", "ViTRM, update each step", "ViTRM, TRM's procedure")
    )

    image_in_answer, no_average = (
        plan.configs[labels.index(f"model=ViTRM, {name}, batch_size=256, learning_rate=0.0003")]
        for name in ("image in the answer", "no average")
    )

    assert gelu.model.ffn == "gelu"
    # 3.3 and 4.2: one change each of the row that they are compared with.
    assert gelu.with_changes({"model": ViTRM(image_in_answer=True)}) == image_in_answer
    assert gelu.with_changes({"model": ViTRM(), "train.ema_decay": 0.0}) == no_average
    assert (
        update_each_step.train.supervision_steps,
        update_each_step.train.evaluation_steps,
        update_each_step.model.cycles,
    ) == (3, 3, 1)
    assert (strict.train.supervision_steps, strict.model.cycles, strict.model.test_cycles) == (1, 3, 3)
    assert strict.model.gradient == "last_cycle"


@pytest.mark.parametrize(("preset", "updates"), [("quick", 500), ("paper", 39_060)])
def test_two_passes_are_compared_at_equal_updates_and_at_equal_flops(preset, updates):
    """Pull request 41 has 39,060 updates. Its warm-up takes 2,000 of them, in quick 15."""
    plan = make_plan(load("trm_two_passes"), preset)
    rows = {}
    for variant, config in zip(plan.variants, plan.configs, strict=True):
        count = config.training_images // config.train.batch_size * config.train.epochs
        assert config.train.warmup * count == pytest.approx({"quick": 15, "paper": 2000}[preset], rel=0.01)
        rows[variant.label] = count / updates, config.program.price(config).training
    flops = rows["one pass"][1]

    assert rows == {
        "one pass": (1, flops),
        "two passes": (1, pytest.approx(2 * flops)),
        "one pass, updates x 2": (2, pytest.approx(2 * flops)),
        "one pass, batch x 2": (1, pytest.approx(2 * flops)),
    }


def test_every_preset_of_test_iterations_scores_128_segments():
    study = load("trm_test_iterations")
    for preset in study.presets:
        plan = make_plan(study, preset)
        assert {config.train.evaluation_depths for config in plan.configs} == {128}
    # Public weights are those of one network, which the preset `weights` only evaluates.
    changes = {"train.epochs": 0, "train.init_from": "0123456789abcdef0123"}
    (config,) = make_plan(study, "weights", changes).configs
    assert (config.train.imported, config.model.mixing, config.model.puzzle_emb) == (True, "mlp", "puzzle")
