from pathlib import Path

import pytest
from made_up import run_id, write_epochs, write_study

from recstudy.records import Results


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """The made-up study; its last run is under way."""
    board_results = write_study(tmp_path / "results")
    write_epochs(board_results, run_id(3, 2), 70.0, epochs=3)
    return board_results
