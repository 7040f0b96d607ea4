"""Faults 7, 8, 9, 10, 16 and 18: damaged files, full and vanished disks, locks."""

import time

import pytest
from shell import TINY, Shell, until
from twice import TWO, curve

from recstudy.analysis.frame import load_study
from recstudy.records import Results

pytestmark = pytest.mark.fault


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def test_7_a_damaged_checkpoint_is_not_used_but_the_one_before_it(again, undisturbed):
    """The newest of one run is cut short, that of the other has a flipped bit."""
    kept = {}
    for run, damage in zip(again.results.glob("runs/*"), (lambda content: content[: len(content) // 2], flipped), strict=True):
        before, newest = sorted(run.glob("checkpoint-*"))
        newest.write_bytes(damage(newest.read_bytes()))
        kept[run.name] = again.lines()[run.name][: int(before.stem.partition("-")[2])]

    output = again.run(*TWO)

    for run_id, lines in kept.items():
        assert again.lines()[run_id][: len(lines)] == lines  # as they were, with their times
        assert curve(again.results / "runs" / run_id) == undisturbed(run_id)
    assert output.count(" is damaged; trying the checkpoint before it") == 2


def test_8_torn_last_lines_are_dropped_and_written_again(again, undisturbed):
    runs = list(again.results.glob("runs/*"))
    for run in runs:
        for log in ("epochs.jsonl", "losses.jsonl", "attempts.jsonl"):
            with open(run / log, "a") as file:
                file.write('{"epoch": 149, "train_lo')

    again.run(*TWO)

    assert [curve(run) for run in runs] == [undisturbed(run.name) for run in runs]
    assert again.attempts() == [2, 2]
    assert {result["attempts"] for result in again.records().values()} == {2}


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
CHOSEN = ("--only", "latent_steps=1*", "--set", f"train.epochs={EPOCHS}", "--set", "place.checkpoint_seconds=1")


def finishes(shell: Shell) -> None:
    shell.run(*CHOSEN)
    assert len(shell.records()) == 2
    assert shell.records("failure.json") == {}
    assert all([epoch for epoch, *_ in curve(run)] == list(range(EPOCHS)) for run in shell.results.glob("runs/*"))


def test_9_a_full_disk_fails_the_runs_clean_and_says_what_to_free(on_disk, small_disk):
    with on_disk.start(*CHOSEN) as driver:
        until(lambda: len(on_disk.begun()) == 2, "ten epochs of both")
        small_disk.fill()
        output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 7
    assert output.count("jsonl: No space left on device. 0.0 MB are free there. Checkpoints of unfinished runs take") == 2
    assert errors.startswith("The report cannot be drawn. StorageError: ")  # the report finds no room either
    assert errors.endswith(
        f"`recstudy clean {on_disk.results}` shows what can go. Free some space; the same command then goes on.\n"
    )
    assert len(load_study(Results(on_disk.results), "tiny", "quick").rows) == 6
    small_disk.free()
    finishes(on_disk)


def test_10_storage_that_goes_away_is_a_clear_stop_and_nothing_is_written_in_its_place(on_disk, small_disk):
    with on_disk.start(*CHOSEN) as driver:
        until(lambda: len(on_disk.begun()) == 2, "ten epochs of both")
        small_disk.unmount()
        output, _ = driver.communicate(timeout=900)

    assert driver.returncode == 7
    assert output.count("Bring its file system back; the same command then goes on from what was kept.") == 2
    assert list(small_disk.path.iterdir()) == []


def test_10_storage_that_comes_back_in_time_costs_nothing(on_disk, small_disk):
    with on_disk.start(*CHOSEN) as driver:
        until(lambda: len(on_disk.begun()) == 2, "ten epochs of both")
        small_disk.bar()
        time.sleep(3)
        small_disk.unbar()
        output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 0, output + errors
    assert on_disk.attempts() == [1, 1]


def test_18_drivers_beside_each_other_run_nothing_twice(shell):
    """Two of one study, of which one waits, and one of another study with the same runs."""
    twin = Shell(shell.folder, shell.folder / "twin.py")
    twin.study.write_text(TINY.read_text().replace('name="tiny"', 'name="twin"'))
    drivers = [each.start() for each in (shell, shell, twin)]
    outputs = [driver.communicate(timeout=900) for driver in drivers]

    assert [driver.returncode for driver in drivers] == [0, 0, 0], outputs
    assert shell.attempts() == [1] * 6
    assert len(shell.records()) == 6
    waited = ["which works on this study" in output for output, _ in outputs]
    assert waited[2:] == [False]  # the other study may well wait for the last of the runs
    assert sum(waited) == 1
    assert (shell.results / "studies/twin/quick/report/tables/depths.md").read_bytes() == shell.table()
