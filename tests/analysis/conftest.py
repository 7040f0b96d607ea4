from pathlib import Path

import pytest
from made_up import write_study

from recstudy.analysis.frame import StudyRecords, load_study
from recstudy.records import Results


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return write_study(tmp_path / "results")


@pytest.fixture
def records(results: Results) -> StudyRecords:
    return load_study(results, "made_up", "paper")
