"""Twenty optimiser steps a family on embedded data: a refactoring leaves these losses as they are.

A deliberate change rewrites them, and its commit says why: RECSTUDY_GOLDEN=write pytest
tests/recursive/contract/test_golden.py
"""

import os
from pathlib import Path

import pytest
from test_families import JUDGES, small

from recstudy.recursive.contract import checks

GOLDEN = Path(__file__).with_name("golden_losses.json")


@pytest.mark.parametrize("family", JUDGES)
def test_the_first_twenty_losses(family):
    write = os.environ.get("RECSTUDY_GOLDEN") == "write"

    assert write == bool(checks.compare(GOLDEN, family, checks.first_losses(small(family)), write))
