"""The bundles in the repository: each says what its records say."""

from pathlib import Path

import pytest

from recstudy.programs.base import load_program
from recstudy.publishing.bundle import open_bundle
from recstudy.publishing.verify import verify

EVIDENCE = Path(__file__).parents[2] / "studies/evidence"


@pytest.mark.parametrize("file", sorted(EVIDENCE.glob("*.zip")), ids=lambda file: file.stem)
def test_shipped_evidence_verifies_and_has_no_captions_of_a_data_set(file):
    with open_bundle(file) as bundle:
        assert verify(bundle).differences == []
        assert not any(map(load_program().quotes_data, bundle.root.glob("results/runs/*/answers.npz")))
