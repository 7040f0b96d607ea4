"""Records of every version from 0.2 are read: `tests/records/VERSION`, written by that version's code
(`make.py`).
"""

import shutil
from pathlib import Path

import pytest
from made_up import write_report

from recstudy.records import Results
from recstudy.records.clean import reclaimable
from recstudy.report.study_records import load_study

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
    assert failed.error_class == "storage"  # a folder in a log's place
    assert failed.attempts == 1
    assert list(study.epochs([0])["epoch"]) == [1, 2, 3]


def test_old_report_is_drawn_and_none_of_its_runs_is_reclaimable(results):
    page = write_report(results, "sample", "quick").read_text()
    study = load_study(results, "sample", "quick")

    assert "1 latent step" in page
    assert study.rows[1].error.partition(":")[0] in page
    assert [results.state(row.id) for row in study.rows] == ["done", "failed"]
    assert reclaimable(results) == ([], [])
