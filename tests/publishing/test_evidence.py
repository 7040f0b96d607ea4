"""The bundles in the repository: each says what its records say."""

import shutil
from pathlib import Path

import pytest
from bundles import changed, sealed

from recstudy.publishing.bundle import open_bundle
from recstudy.publishing.verify import verify

EVIDENCE = Path(__file__).parents[2] / "studies/evidence"


@pytest.mark.parametrize("file", sorted(EVIDENCE.glob("*.zip")), ids=lambda file: file.stem)
def test_shipped_evidence_verifies(file):
    with open_bundle(file) as bundle:
        assert verify(bundle).differences == []


def test_a_changed_digit_of_shipped_evidence_is_found(tmp_path):
    with open_bundle(EVIDENCE / "hrm_small_images.paper.zip") as bundle:
        root = Path(shutil.copytree(bundle.root, tmp_path / "changed"))

    file = changed(root, "report/tables/accuracies.csv", r",97\.77666", ",97.87666")
    with open_bundle(sealed(root)) as bundle:
        assert any(
            line.startswith(f"{file}, line ") and "97.87666" in line and "97.77666" in line
            for line in verify(bundle).differences
        )
