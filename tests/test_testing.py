"""The builders that a plugin's tests use: what they make is whole, small, and as it is documented."""

import pytest

import recstudy
from recstudy.base.errors import ConfigError
from recstudy.recursive import FAMILIES
from recstudy.recursive.testing import TINY_MODELS, tiny_model
from recstudy.report import Table
from recstudy.study.testing import tiny_study, write_study


def test_a_tiny_study_has_a_report_without_a_training(tmp_path):
    """As the module's docstring says, whose first example this is."""
    results = write_study(
        tmp_path, tiny_study(report=[Table("mine")], seeds=2), score=lambda run: 90.0 + run.seed
    )

    runs = recstudy.load(results.root).runs

    assert runs.groupby("label")["top1_accuracy"].apply(list).to_dict() == {
        "1 latent step": [90.0, 91.0],
        "2 latent steps": [90.0, 91.0],
    }
    assert "90.5" in str(recstudy.load(results.root)["mine"])


def test_every_family_that_can_be_small_has_a_tiny_model():
    assert all(tiny_model(family).family == family for family in TINY_MODELS)
    assert {name for name, kind in FAMILIES.items() if kind.__module__.startswith("recstudy.")} <= set(
        TINY_MODELS
    )
    with pytest.raises(ConfigError, match=r"no model family 'vitmr'.* Did you mean 'vitrm'"):
        tiny_model("vitmr")
