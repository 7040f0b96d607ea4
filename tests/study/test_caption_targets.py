"""Which variant of the captioning studies each published number of 000 and 003 stands beside, and what is said against it."""

from pathlib import Path

import pytest
from shipped import STUDIES, compared, first_table, load

from recstudy import Study
from recstudy.analysis import LearningCurves
from recstudy.analysis.tables.render import settings_text, settings_title
from recstudy.study.study import make_plan

OLD = "from before the paper mended its leak of future words (ImageHRM/ImageTRM-7)"
CC3M = "the paper's FuseLIP was trained on CC3M before, with TiTok's codes of images"
PHANTOMS = "data phantom_captions, not rocov2; size 64, not 224; length 32, not 512"
SPLIT = "other test images: its split is drawn by image, ours by group"
MEDPIX = "data medpix, not rocov2"


def placed(folder: Path, name: str, preset: str, metric: str) -> dict[str, tuple[str, str]]:
    """Label -> published value and the reasons against it, in the study's first table, before anything has run."""
    table, data = first_table(folder, name, preset)
    cells = {row.label.removeprefix("model="): row.cells[table.metrics.index(metric)] for row in data.rows}
    found = {label: compared(cell) for label, cell in cells.items() if cell.placed}
    assert all(verdict == ("not comparable" if reasons else "not run") for _, verdict, reasons in found.values())
    return {label: (published, reasons) for label, (published, _, reasons) in found.items()}


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        *(
            (
                preset,
                {
                    "LSTM": ("0.106", reasons),
                    "dual": ("0.125", reasons),
                    "triple": ("0.157", reasons),
                    "triple, Swin-B": ("0.180", reasons),
                    "triple, FuseLIP": ("0.234", reasons),
                },
            )
            for preset, reasons in (("standard", f"{OLD}; {MEDPIX}"), ("paper", OLD))
        ),
    ],
)
def test_table_one_stands_beside_the_loops(tmp_path, preset, expected):
    assert placed(tmp_path / "r", "imagehrm_loops", preset, "rouge_l") == expected


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        (
            "standard",
            {
                "ImageTRM": ("0.191", MEDPIX),
                "ImageTRM, Swin-T": ("0.199", MEDPIX),
                "ImageTRM, FuseLIP": ("0.155", f"{CC3M}; {MEDPIX}"),
            },
        ),
        (
            "paper",
            {"ImageTRM": ("0.191", ""), "ImageTRM, Swin-T": ("0.199", ""), "ImageTRM, FuseLIP": ("0.155", CC3M)},
        ),
    ],
)
def test_table_two_stands_beside_the_backbones_and_no_other_depth_or_mode(tmp_path, preset, expected):
    assert placed(tmp_path / "r", "imagetrm_backbones", preset, "rouge_l") == expected


@pytest.mark.parametrize(
    ("name", "label", "value", "reasons"),
    [
        (
            "imagehrm_loops",
            "triple",
            "0.157",
            f"{OLD}; {PHANTOMS}; epochs 9, not 50; weights random, not pretrained; tuned true, not false; backbone small, not resnet18; "
            "high_layers 1, not 2; middle_layers 1, not 2; low_layers 1, not 2; halting batch, not sample; batch_size 32, not 64; ",
        ),
        ("imagetrm_backbones", "ImageTRM, FuseLIP", "0.155", f"{CC3M}; {PHANTOMS}; epochs 12, not 50; model.layers 1, not 2; "),
    ],
)
def test_quick_is_compared_by_name_and_its_reasons_are_given(tmp_path, name, label, value, reasons):
    """What the target states comes first, then what its paper states besides, then what else the paper preset has otherwise."""
    published, against = placed(tmp_path / "r", name, "quick", "rouge_l")[label]

    assert published == value
    assert against.startswith(reasons)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("imagehrm_loops", {"model.high_cycles", "model.middle_cycles", "model.low_cycles", "model.image", "model.top_down"}),
        ("imagetrm_backbones", {"model.cycles", "model.latent_steps", "train.ema_decay"}),
    ],
)
def test_what_000_leaves_blank_is_an_assumption(name, fields):
    """As `blanks.yaml` has it, and where HRM or TRM say what 000 does not; what no plan does is refused as a deviation."""
    study = load(name)
    both = {"train.supervision_steps", "train.evaluation_steps", "train.halt_weight", "train.beta2", "train.selection",
            "train.exploration", "train.loss", "train.gradient_clip", "model.width", "model.decode", "model.halt_target",
            "model.halt_read"}  # fmt: skip

    assert {stated.field for stated in study.deviations if stated.paper is None} >= both | fields
    assert {config.model.beam for config in make_plan(study, "paper").configs} == {3}


def test_table_three_of_003_stands_beside_its_parts_on_both_data_sets(tmp_path):
    published = {
        "full": "0.638", "w/o lb loss": "0.609", "w/o moe": "0.628", "w/o lenc": "0.608", "w/o msve": "0.595",
        "full, MMR": "0.212", "w/o lb loss, MMR": "0.190", "w/o moe, MMR": "0.189", "w/o lenc, MMR": "0.180",
        "w/o msve, MMR": "0.164",
    }  # fmt: skip

    assert placed(tmp_path / "r", "micar_components", "paper", "avg_bleu") == {
        label: (value, SPLIT) for label, value in published.items()
    }


@pytest.mark.parametrize("path", sorted(STUDIES.glob("micar_*.py")), ids=lambda path: path.stem)
def test_003_selects_by_the_score_of_its_code_and_its_studies_deviate_alike(path):
    """BLEU / 8 + METEOR / 4 + ROUGE-L / 4 on the validation split; how many ids there are is a data set's own."""
    study, one = load(path.stem), load("micar_routing")

    assert {config.train.score for config in make_plan(study, "paper").configs} == {"report_score"}
    assert set(study.deviations) >= set(one.deviations)


def test_table_one_of_003_stands_beside_its_models_on_each_data_set(tmp_path):
    found = placed(tmp_path / "r", "micar_datasets", "paper", "bleu_4")

    assert {label: value for label, (value, _) in found.items()} == {
        "data=COVCTR, model=SAT": "0.515", "data=COVCTR, model=Transformer": "0.515", "data=COVCTR, model=R2Gen": "0.539",
        "data=COVCTR, model=MicarVLMoE": "0.545", "data=MMR, model=ST": "0.026", "data=MMR, model=SAT": "0.058",
        "data=MMR, model=Transformer": "0.083", "data=MMR, model=R2Gen": "0.110", "data=MMR, model=MicarVLMoE": "0.132",
        "data=PGROSS, model=ST": "0.020", "data=PGROSS, model=SAT": "0.055", "data=PGROSS, model=Transformer": "0.093",
        "data=PGROSS, model=R2Gen": "0.121", "data=PGROSS, model=MicarVLMoE": "0.132", "data=ROCO, model=ST": "0.006",
        "data=ROCO, model=SAT": "0.009", "data=ROCO, model=Transformer": "0.014", "data=ROCO, model=MicarVLMoE": "0.018",
    }  # fmt: skip
    assert all(reasons == ("" if "ROCO" in label else SPLIT) for label, (_, reasons) in found.items())


def test_the_papers_improvements_stand_beside_the_models_they_are_over(tmp_path):
    """All that 003 prints of models that are here; the others' stand under the table."""
    found = placed(tmp_path / "r", "micar_datasets", "paper", "avg_bleu_delta")

    assert found == {
        label: (value, "" if "ROCO" in label else SPLIT) for label, value in {
            "data=COVCTR, model=SAT": "6.33", "data=COVCTR, model=Transformer": "5.11", "data=COVCTR, model=R2Gen": "1.11",
            "data=MMR, model=ST": "241.94", "data=MMR, model=SAT": "70.97", "data=MMR, model=Transformer": "40.40",
            "data=MMR, model=R2Gen": "9.28", "data=PGROSS, model=ST": "289.29", "data=PGROSS, model=SAT": "80.17",
            "data=PGROSS, model=Transformer": "32.12", "data=PGROSS, model=R2Gen": "1.40", "data=ROCO, model=ST": "113.33",
            "data=ROCO, model=SAT": "33.33", "data=ROCO, model=Transformer": "23.08",
        }.items()
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "title", "settings"),
    [
        (
            "imagehrm_loops",
            ["backbone", "high/middle/low cycles"],
            {"LSTM": ["resnet18", "\N{EN DASH}"], "dual": ["resnet18", "2/0/2"], "triple, cycles 1/1/1": ["resnet18", "1/1/1"],
             "triple, Swin-B": ["swin_b", "2/2/2"], "triple, FuseLIP": ["fuselip", "2/2/2"]},
        ),
        (
            "imagetrm_backbones",
            ["family", "backbone", "cycles/latent steps", "gradient"],
            {"LSTM": ["image_lstm", "resnet18", "\N{EN DASH}", "\N{EN DASH}"], "ImageTRM": ["image_trm", "resnet18", "3/6", "full_bptt"],
             "ImageTRM, last cycle": ["image_trm", "resnet18", "3/6", "last_cycle"],
             "ImageTRM, twice the T": ["image_trm", "resnet18", "6/6", "full_bptt"],
             "ImageTRM, Swin-T": ["image_trm", "swin_t", "3/6", "full_bptt"]},
        ),
    ],
)  # fmt: skip
def test_the_tables_of_000_have_the_papers_columns_of_settings(tmp_path, name, title, settings):
    """Table I: backbone and H/M/L configuration; Table II: paradigm and backbone."""
    _, data = first_table(tmp_path / "r", name, "paper")

    assert list(map(settings_title, data.settings)) == title
    rows = {row.label: list(map(settings_text, row.settings)) for row in data.rows}
    assert {label: rows[label] for label in settings} == settings
    assert data.corner == "model"


def halting(study: Study, preset: str) -> bool:
    """Whether some run of the preset may end its supervision early, so that the steps it used are a result."""
    configs = [run.config for run in make_plan(study, preset).runs]
    several = [config.train for config in configs if config.model.halts and config.train.supervision_steps > 1]
    return any(train.halting == "sample" or train.halt_threshold < 1 for train in several)


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*_*.py")), ids=lambda path: path.stem)
def test_studies_that_halt_show_the_steps_that_were_used(path):
    study = load(path.stem)
    for preset in study.presets if isinstance(study, Study) else ():
        curves = [part for part in study.by_preset(study.report, preset) if isinstance(part, LearningCurves)]
        shown = any("supervision_steps_used" in part.metrics for part in curves)
        assert shown == halting(study, preset), preset
