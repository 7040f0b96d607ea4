"""The folder trees of docs/data: a reader accepts each of them, and every set that needs files has a page."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from layouts import paint

from recstudy.base.errors import DataError
from recstudy.plugins.registry import is_users
from recstudy.recursive import DATASETS
from recstudy.recursive.data.reading import read_data

PAGES = Path(__file__).parents[3] / "docs" / "data"
FACTS = yaml.safe_load((PAGES / "sets.yaml").read_text(encoding="utf-8"))
CAPTIONS = {"size": 16, "length": 32}
# The settings that fit a tiny set, and its images or puzzles: training (with validation) and test.
EXAMPLES = {
    "folder": ({"path": "images", "class_count": 2, "size": 16}, (4, 2)),
    "chest_xray14": ({"path": "nih_cxr64", "size": 16}, (2, 2)),
    "cov_ctr": (CAPTIONS, (4, 2)),
    "medpix": (CAPTIONS, (3, 1)),
    "mm_retinal": (CAPTIONS, (4, 2)),
    "peir_gross": (CAPTIONS, (5, 1)),
    "roco": (CAPTIONS, (3, 1)),
    "rocov2": (CAPTIONS, (3, 1)),
    "captions": ({"path": "covid_ct", **CAPTIONS}, (3, 1)),
    "arc_agi": ({"side": 5, "augmentations": 2}, (21, 6)),
    "sudoku_extreme": ({}, (2, 2)),
}


def build(folder, name):
    for number, (path, text) in enumerate(FACTS[name]["example"].items()):
        if text == "image":
            paint(folder / path, np.full((16, 20), 10 * number), mode="RGB")
        else:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")


def test_each_page_with_an_example_is_tried():
    assert EXAMPLES.keys() == {name for name, facts in FACTS.items() if "example" in facts}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_smallest_folder_of_a_page_is_read(tmp_path, name):
    fields, counts = EXAMPLES[name]
    build(tmp_path, name)

    decoded = read_data(DATASETS[name](**fields).reader(), tmp_path)

    assert (len(decoded.train_images), len(decoded.test_images)) == counts


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "folder"])
def test_a_missing_file_of_a_page_is_named(tmp_path, name):
    build(tmp_path, name)
    missing_file = tmp_path / next(iter(FACTS[name]["example"]))
    missing_file.unlink()

    with pytest.raises(DataError, match=missing_file.stem):
        read_data(DATASETS[name](**EXAMPLES[name][0]).reader(), tmp_path)


def test_every_set_that_needs_files_has_a_page(tmp_path):
    complete = {name: kind for name, kind in DATASETS.complete().items() if not is_users(kind)}
    without_files = {"digits", "dominoes", "maze", "phantom_captions", "phantom_xray", "sudoku"}

    assert FACTS.keys() | without_files == complete.keys()
    for name in without_files:
        assert not complete[name]().reader().sources(tmp_path)
