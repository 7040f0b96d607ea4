"""The cluster that a study starts for itself: its node dies, its whole process group is stopped, it may open few files, it is
killed with its driver and leaves its folders."""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from shell import Shell, kill_all, processes, until
from twice import TWO

from recstudy.records.clean import left_outside

pytestmark = pytest.mark.fault


def test_a_raylet_that_dies_ends_the_command_in_one_line_and_the_next_goes_on(shell):
    with shell.start(*TWO) as driver:
        until(shell.begun, "ten epochs")
        (raylet,) = (number for number, shown in processes(driver.pid).items() if "/raylet/raylet " in shown)
        os.kill(raylet, signal.SIGKILL)
        died = time.monotonic()
        output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 9, output + errors
    assert time.monotonic() - died < 30
    assert "Ray's raylet on this machine has ended. What was finished is kept, and this goes on from there: " in output + errors
    assert "Traceback" not in output + errors

    until(lambda: not processes(driver.pid), "without ghosts")
    shell.run(*TWO)
    assert len(shell.records()) == 2


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP], ids=["timeout", "closed terminal"])
def test_a_stop_of_the_whole_process_group_is_a_polite_one(shell, sign):
    """As `timeout` and batch systems end what they have started, and a terminal that is closed."""
    with shell.start(*TWO) as driver:
        until(shell.begun, "ten epochs")
        os.killpg(driver.pid, sign)
        output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 130, output + errors
    assert errors.splitlines()[-1] == "Stopped. What was finished is kept; the same command goes on from there."
    assert "does not answer" not in output + errors
    assert "Traceback" not in output + errors
    shell.run(*TWO)
    assert len(shell.records()) == 2


@pytest.fixture
def rays() -> Iterator[Path]:
    """Where Ray has its folders, for this test alone; the paths of its sockets must be short."""
    folder = Path(tempfile.mkdtemp(prefix="r"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_what_a_killed_driver_left_is_listed_and_what_a_living_one_has_is_not(tmp_path, rays, monkeypatch):
    """Its scratch, and the logs of the Ray that it had started."""
    monkeypatch.setenv("RAY_TMPDIR", str(rays))
    monkeypatch.setattr(tempfile, "tempdir", str(rays))
    shell = Shell(tmp_path, environment={"RAY_TMPDIR": str(rays), "TMPDIR": str(rays)})
    with shell.start(*TWO) as driver:
        until(shell.begun, "ten epochs")
        assert not [item for item in left_outside() if item.path.is_relative_to(rays)]
        kill_all(driver)

    assert sorted(item.why for item in left_outside() if item.path.is_relative_to(rays)) == [
        "temporary files of a killed process",
        "the logs of a Ray whose driver was killed",
    ]
