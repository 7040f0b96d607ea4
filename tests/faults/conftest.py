"""Every fault of ../shared/users.md, done to real studies: on the nodes, the tiny study and the shell of
tests/study.
"""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "study"))

from shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)
