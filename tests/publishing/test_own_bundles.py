"""Bundles of a user's own program: verified without its file, and without the recursive models."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from bundles import changed, sealed
from own_study import run_study

from recstudy import Claim
from recstudy.publishing.bundle import Bundle
from recstudy.publishing.publish import publish
from recstudy.publishing.verify import verify
from recstudy.study.design import grid


@dataclass
class Settings:
    depth: int = 2
    rate: float = 0.1


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose levels are whole numbers where the program takes real ones: the ids are of the latter."""
    folder = tmp_path_factory.mktemp("own")
    claims = [Claim("deeper is better", less={"depth": 1}, than={"depth": 4})]
    variants = grid({"depth": [1, 4], "rate": [1, 0.5]})
    results = run_study(folder / "results", settings=Settings, variants=variants, claims=claims)
    publish(results, "depth", "default", folder / "bundle")
    return folder / "bundle"


def test_a_bundle_verifies(published):
    checks = {check.name: check for check in verify(Bundle(published)).checks}

    assert [check.differs for check in checks.values() if check.differs] == []
    assert checks["settings"].checked == ["the ids of 12 runs, by the plan's settings and by those in their records"]
    assert checks["settings"].unchecked == []
    assert checks["answers"].unchecked == ["its program keeps no answers, so that metrics are as it returned them (12 runs)"]
    readme = (published / "README.md").read_text()
    assert "**Supported:** deeper is better" in readme
    assert "images" not in readme


@pytest.mark.parametrize(
    ("pattern", "what", "to", "said"),
    [
        (
            "results/runs/*/config.json",
            r'"depth": \d',
            '"depth": 3',
            r"its config.json is that of run|depth is 3 in its config.json",
        ),
        ("results/runs/*/result.json", r'"accuracy": [\d.]+', '"accuracy": 99.0', r"tables/claims.csv, row .*|results.csv, row"),
    ],
)
def test_what_was_changed_is_found(published, tmp_path, pattern, what, to, said):
    import shutil

    bundle = Path(shutil.copytree(published, tmp_path / "bundle"))
    changed(bundle, pattern, what, to)
    found = verify(Bundle(sealed(bundle))).differences

    assert any(re.search(said, line) for line in found)
