from pathlib import Path

import pytest
from made_up import read, write_study

from recstudy.records import Results
from recstudy.report.study_records import StudyRecords


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return write_study(tmp_path / "results")


@pytest.fixture
def records(results: Results) -> StudyRecords:
    return read(results)
