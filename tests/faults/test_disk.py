"""Faults 9 and 10: a disk that fills up or goes away while a study runs."""

import time

import pytest
from shell import Shell, until
from twice import curve

from recstudy.records import Results
from recstudy.report.study_records import load_study

pytestmark = pytest.mark.fault


@pytest.fixture
def on_disk(tmp_path, small_disk) -> Shell:
    """A shell whose results lie on a disk of their own, with room for them and a report."""
    small_disk.unmount()
    small_disk.size = "20m"
    small_disk.mount()
    shell = Shell(tmp_path)
    shell.results = small_disk.path / "results"
    shell.place = str(shell.results)
    return shell


EPOCHS = 400  # a run is far from its end when the other, on a busy machine, has its tenth
CHOSEN = (
    "--only",
    "latent_steps=1*",
    "--set",
    f"train.epochs={EPOCHS}",
    "--set",
    "resources.checkpoint_seconds=1",
)


def finishes(shell: Shell) -> None:
    shell.run(*CHOSEN)
    assert len(shell.records()) == 2
    assert shell.records("failure.json") == {}
    assert all(
        [epoch for epoch, *_ in curve(run)] == list(range(EPOCHS)) for run in shell.results.glob("runs/*")
    )


def test_9_a_full_disk_fails_the_runs_clean_and_says_what_to_free(on_disk, small_disk):
    with on_disk.start(*CHOSEN) as driver:
        until(lambda: len(on_disk.running_runs()) == 2, "ten epochs of both")
        small_disk.fill()
        output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 7
    assert (
        output.count(
            "jsonl: No space left on device. 0.0 MB are free on this disk. Checkpoints of unfinished runs take"
        )
        == 2
    )
    assert errors.startswith("The report is incomplete. StorageError: ")  # the report finds no room either
    assert errors.endswith(
        f"`recstudy clean {on_disk.results}` lists removable files. Free some space, then run the same command to resume.\n"
    )
    assert len(load_study(Results(on_disk.results), "tiny", "quick").rows) == 6
    small_disk.free_space()
    finishes(on_disk)


def test_10_storage_that_goes_away_is_a_clear_stop_and_nothing_is_written_in_its_place(on_disk, small_disk):
    with on_disk.start(*CHOSEN) as driver:
        until(lambda: len(on_disk.running_runs()) == 2, "ten epochs of both")
        small_disk.unmount()
        output, _ = driver.communicate(timeout=900)

    assert driver.returncode == 7
    assert output.count("Mount its file system again, then run the same command to resume.") == 2
    assert list(small_disk.path.iterdir()) == []


def test_10_storage_that_comes_back_in_time_costs_nothing(on_disk, small_disk):
    with on_disk.start(*CHOSEN) as driver:
        until(lambda: len(on_disk.running_runs()) == 2, "ten epochs of both")
        small_disk.bar()
        time.sleep(3)
        small_disk.unbar()
        output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 0, output + errors
    assert on_disk.attempts() == [1, 1]
