"""Every family of the registry that judges images, and every value of every switch it has; captioners have
their own file.
"""

import pytest

from recstudy.recursive import FAMILIES, Aligner, Digits, PhantomXray, RunConfig, Sudoku, TrainConfig
from recstudy.recursive.contract import promises, switches
from recstudy.recursive.contract.checks import trained
from recstudy.recursive.models.caption import CaptionModel
from recstudy.recursive.testing import tiny_model

XRAYS = PhantomXray(size=32, limit=24)
SUDOKU = Sudoku(side=4, limit=24)
# What a value of a switch needs beside it, and families that do not read images of 8x8 pixels with one label
# each.
WITH = {
    ("head", "multilabel"): {"patch": 8, "tokens": "patch"},
    ("puzzle_emb", "pathology_query"): {"patch": 16, "tokens": "patch", "head": "multilabel"},
    ("puzzle_emb", "patient"): {"patch": 8, "tokens": "patch", "head": "multilabel", "identifiers": 2000},
    ("puzzle_emb", "puzzle"): {"tokens": "cell", "identifiers": 1},
}
DATA = {"densenet": XRAYS}
JUDGES = sorted(family for family, kind in FAMILIES.items() if not issubclass(kind, (CaptionModel, Aligner)))


def small(family: str, **fields) -> RunConfig:
    for switch in fields.items():
        fields = fields | WITH.get(switch, {})
    model = tiny_model(family, **fields)
    data = DATA.get(family, Digits(limit=24))
    data = XRAYS if fields.get("head") == "multilabel" else SUDOKU if fields.get("tokens") == "cell" else data
    steps = 2 if model.recursive else 1
    train = TrainConfig(
        epochs=2,
        batch_size=8,
        ema_decay=0.9,
        supervision_steps=steps,
        evaluation_steps=steps,
        halt_threshold=1,
    )
    return RunConfig(data=data, model=model, train=train)


FAMILY_SWITCHES = [
    (family, name, value)
    for family in JUDGES
    for name, value in switches(FAMILIES[family], {"family", "size"})
]


@pytest.mark.parametrize(
    "check", [*promises.OF_NETWORKS, *promises.OF_RUNS], ids=lambda check: check.__name__
)
@pytest.mark.parametrize("family", JUDGES)
def test_every_promise_is_kept(family, check):
    check(small(family))


@pytest.mark.parametrize(("family", "name", "value"), FAMILY_SWITCHES, ids=str)
def test_every_switch_value_of_a_family_trains(family, name, value):
    promises.trains_and_counts(small(family, **{name: value}))


@pytest.mark.parametrize(("name", "value"), switches(TrainConfig), ids=str)
def test_every_switch_value_of_training_trains(name, value):
    if name == "state_precision":  # of networks of sequences, beside products in bfloat16
        trained(small("hrm").with_changes({f"train.{name}": value, "train.precision": "bfloat16"}))
        return
    extra_settings = {"train.detach_carry": False} if name == "supervised" else {}
    trained(
        small("vitrm").with_changes({f"train.{name}": value, "train.augment.mixup": 0.4, **extra_settings})
    )
