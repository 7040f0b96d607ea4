"""Deviations that several studies share."""

import pytest

from recstudy import Deviation, deviations
from recstudy.errors import ConfigError


def test_a_list_is_of_deviations_in_the_order_of_the_file():
    *_, first, second = deviations("trm_code")

    assert first == Deviation(
        field="train.epochs", paper=12, ours=10, why="60,000 epochs in the text of TRM, 50,000 in the commands of its code"
    )
    assert (second.field, second.paper, second.ours) == ("train.optimizer", "adamw", "adam_atan2")


def test_a_list_that_is_not_there():
    with pytest.raises(
        ConfigError,
        match=r"no list of deviations '003_cod': there are 003_code, trm_code, direct_prediction\. Did you mean '003_code'",
    ):
        deviations("003_cod")
