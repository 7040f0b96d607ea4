"""Records of every version are read: `tests/records/VERSION`, each written by that version's code (`make.py`)."""

import shutil
from pathlib import Path

import pytest

from recstudy.analysis.frame import load_study
from recstudy.analysis.report import write_report
from recstudy.records import Results
from recstudy.records.clean import reclaimable

SAMPLES = sorted(path.parent for path in Path(__file__).parent.glob("records/*/recstudy.json"))


@pytest.fixture(params=SAMPLES, ids=lambda path: path.name)
def results(request, tmp_path) -> Results:
    return Results(shutil.copytree(request.param, tmp_path / "results")).create()


def test_a_study_of_an_older_version_is_read(results):
    study = load_study(results, "sample", "quick")

    done, failed = study.rows
    assert (done.status, failed.status) == ("done", "failed")
    assert 0 <= done.value("top1_accuracy") <= 100
    assert done.value("params") == 905
    assert (failed.error_class, failed.attempts) == ("code", 1)
    assert list(study.epochs([0])["epoch"]) == [1, 2, 3]


def test_its_report_is_drawn(results):
    page = write_report(results, "sample", "quick")

    assert "latent_steps=1" in page.read_text()
    assert "IsADirectoryError" in page.read_text()


def test_its_runs_are_known_and_nothing_of_them_may_go(results):
    assert sorted(results.states().values()) == ["done", "failed"]
    assert reclaimable(results) == ([], [])
