"""The studies that come with recstudy, and the beginning of one's own."""

import importlib
from pathlib import Path

from pydantic import Field

from recstudy.recursive import DATASETS, FAMILIES, TRM, TrainConfig
from recstudy.recursive.config.fields import describe_fields
from recstudy.report import Replications
from recstudy.study.plan import make_plan
from recstudy.study.shipped import shipped

STUDIES = Path(__file__).parents[1] / "studies"


def test_every_study_is_listed_with_what_it_asks(typed):
    text = typed("studies")

    assert set(shipped()) == {file.stem for file in STUDIES.glob("*_*.py")}
    assert all(name in text for name in shipped())
    assert "How deep should ViTRM think" in text


def test_a_study_that_there_is_not_is_named_with_the_nearest(typed):
    assert typed("run", "vitrm_depth", code=2) == (
        "ConfigError: no study 'vitrm_depth'. Did you mean 'vitrm_depth_sweep'? `recstudy studies` lists them\n"
    )


def test_every_field_of_every_part_is_described(typed):
    for kind in (TrainConfig, *FAMILIES.values(), *DATASETS.values()):
        assert all(field.type and "<" not in field.type for field in describe_fields(kind, ""))
    fields = {field.field: field for field in describe_fields(TrainConfig, "train.")}
    batch_size, halting = fields["train.batch_size"], fields["train.halting"]
    assert (batch_size.type, batch_size.default) == ("int from 1", "128")
    assert batch_size.search_range == "16, 32, 64, 128, 256, 512"
    assert (halting.type, fields["train.augment.flip"].default) == ("batch, sample", "false")
    assert "model.latent_steps" in typed("fields", "vitrm")
    assert "Did you mean 'vitrm'?" in typed("fields", "vitrmm", code=2)


def test_fast_sudoku_recipe_is_compared_with_no_published_value(monkeypatch):
    monkeypatch.syspath_prepend(STUDIES)
    study = importlib.import_module("sudoku_depth").study
    paper, fast = (make_plan(study, preset) for preset in ("paper", "fast"))

    assert any(getattr(part, "targets", ()) for part in paper.report)
    assert not any(getattr(part, "targets", ()) or isinstance(part, Replications) for part in fast.report)
    assert {config.train.optimizer for config in paper.configs} == {"adam_atan2"}
    assert [(config.train.optimizer, config.resources.compiles) for config in fast.configs] == [
        ("muon", True)
    ]
    assert [variant.label for variant in fast.variants] == ["TRM-MLP, fast recipe"]


class Worded(TRM):
    """A family whose fields have a text below them, in Field, or none."""

    width: int = 8
    depth: int = Field(1, description="given in Field")
    turns: int = 2
    """below the field,
    in two lines"""


def test_the_text_of_a_field_is_below_it_or_in_field_and_a_base_class_gives_its_own():
    texts = {entry.field: entry.meaning for entry in describe_fields(Worded, "")}
    assert texts["turns"] == "below the field, in two lines"
    assert texts["depth"] == "given in Field"
    assert texts["width"] == ""
    assert texts["cycles"] == "T: cycles per segment"
    assert texts["heads"].startswith("attention heads, of d / heads dimensions each")
