"""The bundles of runs that took hours, which lie in the repository: each says what its records say."""

import shutil
from pathlib import Path

import pytest
from bundles import changed, sealed

from recstudy.publishing.bundle import opened
from recstudy.publishing.verify import verify

BUNDLES = sorted((Path(__file__).parents[2] / "studies/evidence").glob("*.zip"))


@pytest.mark.parametrize("file", BUNDLES, ids=lambda file: file.stem)
def test_it_verifies_and_a_changed_digit_is_found(file, tmp_path):
    with opened(file) as bundle:
        assert verify(bundle).differences == []
        root = Path(shutil.copytree(bundle.root, tmp_path / "changed"))

    assert changed(root, "report/tables/accuracies.md", r"97\.8", "97.9") == "report/tables/accuracies.md"
    with opened(sealed(root)) as bundle:
        assert any("is '97.9" in one and "97.8" in one for one in verify(bundle).differences)


def test_the_real_data_cells_are_there():
    assert [file.stem for file in BUNDLES] == ["hrm_small_images"]
