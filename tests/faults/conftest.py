"""Every fault of ../shared/users.md, done to real studies: on the nodes, the tiny study and the shell of tests/study."""

import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "study"))

from shell import Shell, kill_all, until
from twice import EPOCHS, curve_alone


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture(scope="session")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a study whose driver was killed with each of its two runs; `again` goes on with a copy."""
    shell = Shell(tmp_path_factory.mktemp("interrupted"))
    for run in (1, 2):
        with shell.start("--only", f"latent_steps=1, supervision_steps={run}", *EPOCHS) as driver:
            until(lambda: len(shell.begun()) == run, "ten epochs")  # noqa: B023
            kill_all(driver)
    assert shell.records() == {}
    return shell.results


@pytest.fixture
def again(shell: Shell, interrupted: Path) -> Shell:
    """A shell on a copy of the interrupted results: the same command finishes them."""
    shutil.copytree(interrupted, shell.results)
    return shell


@pytest.fixture(scope="session")
def undisturbed(interrupted: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[tuple]]:
    """The curve of one of those two runs without any fault, trained once each, without Ray."""
    root = tmp_path_factory.mktemp("undisturbed")
    return cache(lambda run: curve_alone(Shell(interrupted.parent), run, root))
