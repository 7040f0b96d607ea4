"""Bundles of a user's own program: verified without its file, and without the recursive models."""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from bundles import changed, sealed
from own_study import run_study

from recstudy import Claim, RunContext
from recstudy.publishing.bundle import Bundle
from recstudy.publishing.publish import publish
from recstudy.publishing.verify import verify
from recstudy.study.design import grid


@dataclass
class Settings:
    depth: int = 2
    rate: float = 0.1


def typed(run: RunContext) -> dict[str, float]:
    return {"accuracy": 80 + 3 * run.settings.depth + run.settings.rate + 0.1 * run.seed, "latency": 1.0}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose levels are whole numbers where the program takes real ones: the ids are of the latter."""
    folder = tmp_path_factory.mktemp("own")
    claims = [Claim("deeper is better", lower={"depth": 1}, higher={"depth": 4})]
    variants = grid({"depth": [1, 4], "rate": [1, 0.5]})
    results = run_study(
        folder / "results", "typed", typed, settings=Settings, variants=variants, claims=claims
    )
    publish(results, "typed", "default", folder / "bundle")
    return folder / "bundle"


def test_a_bundle_verifies(published):
    verified = verify(Bundle(published))

    assert verified.differences == []
    assert "the ids of 12 runs by the settings in the plan and in their records" in verified.checked
    why = "its program saves no answers, so its metrics cannot be recomputed"
    assert f"accuracy, latency (12 runs): {why}" in verified.unchecked
    readme = (published / "README.md").read_text()
    assert "**Supported:** deeper is better" in readme
    assert "images" not in readme


@pytest.mark.parametrize(
    ("pattern", "expression", "to", "message"),
    [
        (
            "results/runs/*/config.json",
            r'"depth": \d',
            '"depth": 3',
            r"config.json: the settings of run \w+ give the id \w+",
        ),
        (
            "results/runs/*/result.json",
            r'"accuracy": [\d.]+',
            '"accuracy": 99.0',
            r"tables/results.csv, line \d+, column",
        ),
    ],
)
def test_change_in_a_bundle_is_found(published, tmp_path, pattern, expression, to, message):
    bundle = Path(shutil.copytree(published, tmp_path / "bundle"))
    changed(bundle, pattern, expression, to)
    differences = verify(Bundle(sealed(bundle))).differences

    assert any(re.search(message, line) for line in differences)


STUDY = """from recstudy import Metric, Study, grid, main

def train(run):
    return {"accuracy": 80 + 3 * run.settings["depth"] + 0.1 * run.seed}

study = Study("mine", program=train, settings={"depth": 1}, metrics={"accuracy": Metric("%")}, variants=grid({"depth": [1, 2]}), seeds=2)
if __name__ == "__main__":
    main(study)
"""


@pytest.mark.whole
def test_the_runs_of_a_bundle_are_made_again_by_the_program_in_it(tmp_path):
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "mine.py").write_text(STUDY)
    recstudy = [sys.executable, "-c", "from recstudy.command import main; main()"]
    done = [
        subprocess.run(words, cwd=folder, capture_output=True, text=True)
        for folder, words in (
            (tmp_path, [sys.executable, "study/mine.py", "--no-ray"]),
            (tmp_path, [*recstudy, "publish", "results/studies/mine/default", "out"]),
            (tmp_path / "study", [*recstudy, "reproduce", "../out.zip", "--no-ray"]),
            (tmp_path / "study", [*recstudy, "reproduce", "../out.zip", "--no-ray", "--trust"]),
        )
    ]

    assert [process.returncode for process in done] == [0, 0, 2, 0], done
    assert "its runs need modules of the bundle: mine" in done[2].stderr
    assert "Bit-equal: every metric of 4 runs" in done[3].stdout
