"""What README.md and studies/README.md say about the studies."""

import importlib.util
from pathlib import Path

import pytest

STUDIES = Path(__file__).parents[2] / "studies"


def load(name):
    spec = importlib.util.spec_from_file_location(name, STUDIES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fuselip_alignment", {"000 text": 4}),  # cosines of a figure; the ratio against a negative one (000-10) is none of them
        ("imagehrm_loops", {"000 TABLE I": 15}),
        ("imagetrm_backbones", {"000 TABLE II": 8}),
    ],
)
def test_published_values_of_tables_and_figures_are_counted(name, expected):
    index, study = load("index"), load(name).study

    assert index.items(study, "paper") == expected
    (line,) = index.reproduced([study], {})[2:]
    assert (
        line
        == f"| {next(iter(expected))} | {next(iter(expected.values()))} | [{name}](studies/{name}.py) | not run | not run | not run |"
    )
