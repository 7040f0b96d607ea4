"""Which variant of the captioning studies each published number of 000 and 003 stands beside, and what is said against it."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from recstudy.analysis import Table
from recstudy.analysis.frame import load_study
from recstudy.analysis.tables.cells import table_data
from recstudy.records import Results
from recstudy.study.plan import record_plan
from recstudy.study.study import make_plan

STUDIES = Path(__file__).parents[2] / "studies"
OLD = "from before the paper mended its leak of future words (000-7)"
CC3M = "the paper's FuseLIP was trained on CC3M before, with TiTok's codes of images"
PHANTOMS = "data phantom_captions, not rocov2; size 64, not 224; length 32, not 512; epochs 12, not 50"
MEDPIX = "data medpix, not rocov2"


def placed(folder: Path, name: str, preset: str, metric: str) -> dict[str, tuple[str, str]]:
    """Label -> published value and the reasons against it, in the study's first table, before anything has run."""
    spec = importlib.util.spec_from_file_location(name, STUDIES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    results = Results(folder).create()
    record_plan(make_plan(module.study, preset), results)
    table = next(part for part in module.study.by_preset(module.study.report, preset) if isinstance(part, Table))
    data = table_data(load_study(results, name, preset), replace(table, group=None))
    cells = {row.label.removeprefix("model="): row.cells[table.metrics.index(metric)] for row in data.rows}
    assert all(cell.verdict == "not comparable" for cell in cells.values() if cell.reasons)
    return {label: (cell.published, cell.reasons) for label, cell in cells.items() if cell.placed}


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("quick", {"triple, FuseLIP": ("0.234", f"{OLD}; {PHANTOMS}")}),  # a ResNet-18 of ImageNet it has not, nor a Swin
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
        ("quick", {"ImageTRM, FuseLIP": ("0.155", f"{CC3M}; {PHANTOMS}")}),
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


def test_table_three_of_003_stands_beside_its_parts_on_both_data_sets(tmp_path):
    published = {
        "full": "0.638", "w/o lb loss": "0.609", "w/o moe": "0.628", "w/o lenc": "0.608", "w/o msve": "0.595",
        "full, MMR": "0.212", "w/o lb loss, MMR": "0.190", "w/o moe, MMR": "0.189", "w/o lenc, MMR": "0.180",
        "w/o msve, MMR": "0.164",
    }  # fmt: skip

    assert placed(tmp_path / "r", "micar_components", "paper", "avg_bleu") == {
        label: (value, "") for label, value in published.items()
    }


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
    assert {reasons for _, reasons in found.values()} == {""}
