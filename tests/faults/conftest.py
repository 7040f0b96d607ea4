"""Every fault of ../shared/users.md, done to real studies: on the nodes, the tiny study and the shell of tests/study."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "study"))

from shell import Shell, kill_all, until
from twice import EPOCHS, curve


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
    from recstudy.train.trial import Trial, run_trial

    root, curves = tmp_path_factory.mktemp("undisturbed"), {}

    def of(run_id: str) -> list[tuple]:
        if run_id not in curves:
            config = json.loads((interrupted / "runs" / run_id / "config.json").read_text())
            run_trial(
                Trial("tiny", "alone", config, run_id, str(root / "runs" / run_id), "data", False, ".", None, False),
                lambda line: None,
            )
            curves[run_id] = curve(root / "runs" / run_id)
        return curves[run_id]

    (root / "runs").mkdir()
    return of
