"""The bundles of runs that took hours, which lie in the repository: each says what its records say."""

import shutil
from pathlib import Path

import pytest
from bundles import changed, sealed

from recstudy.publishing.bundle import open_bundle
from recstudy.publishing.verify import verify

BUNDLES = sorted((Path(__file__).parents[2] / "studies/evidence").glob("*.zip"))


@pytest.mark.parametrize("file", BUNDLES, ids=lambda file: file.stem)
def test_shipped_evidence_verifies_and_a_changed_digit_is_found(file, tmp_path):
    with open_bundle(file) as bundle:
        verified = verify(bundle)
        assert verified.differences == []
        assert any(
            "of the report" in line or line.startswith("the page, README.md")
            for line in verified.checked + verified.unchecked
        )
        root = Path(shutil.copytree(bundle.root, tmp_path / "changed"))

    file = changed(root, "report/tables/accuracies.csv", r",97\.77666", ",97.87666")
    with open_bundle(sealed(root)) as bundle:
        assert any(
            line.startswith(f"{file}, line ") and "97.87666" in line and "97.77666" in line
            for line in verify(bundle).differences
        )
