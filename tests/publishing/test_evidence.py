"""The bundles in the repository: each says what its records say."""

import shutil
from pathlib import Path

import pytest
from bundles import changed, sealed

from recstudy.programs.base import load_program
from recstudy.publishing.bundle import open_bundle
from recstudy.publishing.verify import verify

EVIDENCE = Path(__file__).parents[2] / "studies/evidence"


@pytest.mark.parametrize("file", sorted(EVIDENCE.glob("*.zip")), ids=lambda file: file.stem)
def test_shipped_evidence_verifies_and_has_no_captions_of_a_data_set(file):
    with open_bundle(file) as bundle:
        assert verify(bundle).differences == []
        assert not any(map(load_program().quotes_data, bundle.root.glob("results/runs/*/answers.npz")))


def test_a_changed_digit_of_shipped_evidence_is_found(tmp_path):
    with open_bundle(EVIDENCE / "hrm_small_images.paper.zip") as bundle:
        root = Path(shutil.copytree(bundle.root, tmp_path / "changed"))

    file = changed(root, "report/tables/accuracies.csv", r",97\.77666", ",97.87666")
    with open_bundle(sealed(root)) as bundle:
        assert any(
            line.startswith(f"{file}, line ") and "97.87666" in line and "97.77666" in line
            for line in verify(bundle).differences
        )
