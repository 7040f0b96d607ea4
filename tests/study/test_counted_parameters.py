"""Parameters that a study states beside a paper's are those of the model that it trains."""

import pytest
from shipped import load

from recstudy.recursive import ImageHRM, ImageTRM, RocoV2, RunConfig
from recstudy.recursive.models.costs import cost
from recstudy.report import Arithmetic
from recstudy.report.tables.arithmetic import counted_claims


@pytest.mark.parametrize(
    ("name", "model", "verdict"),
    [("imagehrm_loops", ImageHRM(), "differs"), ("imagetrm_backbones", ImageTRM(), "agrees")],
)
def test_parameters_of_000(name, model, verdict):
    (part,) = (part for part in load(name).report["quick"] if isinstance(part, Arithmetic))
    (claim,) = counted_claims(part)

    assert part.counted["trained_params"] == cost(RunConfig(data=RocoV2(), model=model)).trained_params
    assert claim.verdict == verdict


@pytest.mark.parametrize(
    ("vocabulary", "params"), [({}, 20_976_642), ({"tokenizer": "bpe", "vocabulary": 6144}, 27_001_858)]
)
def test_a_larger_vocabulary_would_make_27_million(vocabulary, params):
    """Contradiction 000-5."""
    assert cost(RunConfig(data=RocoV2(**vocabulary), model=ImageHRM())).trained_params == params
