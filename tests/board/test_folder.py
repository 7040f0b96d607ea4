import json
import os
import time

import pytest
from boards import poll_folder
from made_up import as_failure, as_result, failure, finish, plan, read, result, run_id, write_search

from recstudy.base.errors import ConfigError
from recstudy.board.folder import ResultsFolder
from recstudy.records import Results, append_line
from recstudy.records.files import write_json
from recstudy.records.locks import locked
from recstudy.records.runs import Row

STUDY = ("made_up", "paper")


def row_of(folder: ResultsFolder, run: str) -> Row:
    """The row of a run."""
    return next(row for row in folder.studies[STUDY].records.rows if row.id == run)


def test_the_board_reads_the_rows_that_the_report_reads(tmp_path):
    results = write_search(tmp_path / "results")

    assert poll_folder(results.root).studies[STUDY].records.rows == read(results).rows


def test_rows_follow_the_folder_and_are_then_still_those_of_the_report(results):
    folder = poll_folder(results.root)
    old_records = folder.studies[STUDY].records
    finish(results, 3, 0, result(94.0, "ViT-Small"))  # was not run
    finish(results, 1, 2, result(93.3))  # had failed
    results.run(run_id(3, 2)).fail(as_failure(failure()))  # was under way

    folder.poll()
    new_records = folder.studies[STUDY].records

    assert new_records.rows == read(results).rows
    changed = {row.id for old, row in zip(old_records.rows, new_records.rows, strict=True) if old != row}
    assert changed == {run_id(3, 0), run_id(1, 2), run_id(3, 2)}


def test_a_finished_result_is_read_once(results):
    """Written over in its place, so that its folder looks untouched: a second reading would find other
    numbers.
    """
    file = results.run(run_id(0, 0)).result
    folder = file.parent.stat()
    sources = poll_folder(results.root)
    file.write_text(json.dumps(result(1.0)))
    os.utime(file.parent, ns=(folder.st_atime_ns, folder.st_mtime_ns))

    sources.poll()

    assert row_of(sources, run_id(0, 0)).value("top1_accuracy") == 93.0


def test_truncated_log_is_read_again(results):
    sources = poll_folder(results.root)
    results.run(run_id(3, 2)).keep_epochs(end_epoch=1)
    append_line(results.run(run_id(3, 2)).epochs, {"epoch": 1, "train_loss": 9.0})

    sources.poll()

    lines = sources.studies[STUDY].logs[run_id(3, 2)]
    assert sorted(lines) == [0, 1]
    assert lines[1]["train_loss"] == 9.0


def test_run_counts_as_running_while_its_lock_is_held_or_its_logs_grow(results):
    """A copy of an object store has no locks."""
    folder = results.run(run_id(3, 2))
    without_lock = set(poll_folder(results.root).studies[STUDY].logs)
    with locked(folder.lock):
        for file in folder.path.iterdir():
            os.utime(file, (0, time.time() - 100))
        locked_by_worker = set(poll_folder(results.root).studies[STUDY].logs)

    assert without_lock == locked_by_worker == {run_id(3, 2)}
    assert poll_folder(results.root).studies[STUDY].logs == {}


def test_a_folder_that_changed_within_a_tick_is_read_again_whatever_its_clock_says(results):
    """The time of change of a folder stays as it was, as on a file server whose clock ticks once a second and
    is behind ours.
    """
    poller, folder, old_time = poll_folder(results.root), results.run(run_id(3, 2)), time.time_ns() - 10**12
    os.utime(folder.path, ns=(old_time, old_time))
    poller.poll()
    folder.finish(as_result(result(90.0)))
    os.utime(folder.path, ns=(old_time, old_time))
    poller.poll()

    assert row_of(poller, run_id(3, 2)).done


def test_a_failed_run_does_not_run_until_it_is_tried_again(results):
    failed = results.run(run_id(1, 2))
    append_line(failed.attempts, {"attempt": 1})
    failed.fail(as_failure(failure()))
    old_logs = set(poll_folder(results.root).studies[STUDY].logs)
    os.utime(failed.attempts, (0, time.time() + 5))

    assert run_id(1, 2) not in old_logs
    assert run_id(1, 2) in poll_folder(results.root).studies[STUDY].logs


def test_a_new_study_and_a_new_trial_are_found(tmp_path):
    results = write_search(tmp_path / "results")
    sources = poll_folder(results.root)
    trials = len(sources.studies[STUDY].records.rows)
    log = next(results.study(*STUDY).glob("trials-*.jsonl"))
    line = json.loads(log.read_text().splitlines()[0])
    append_line(log, line | {"number": 99, "id": run_id(99, 0)})
    write_json(results.study("other", "quick") / "plan.json", plan(study="other"))

    sources.poll()

    assert len(sources.studies[STUDY].records.rows) == trials + 1
    assert set(sources.studies) == {STUDY, ("other", "quick")}


@pytest.mark.parametrize("file", ["", "result.json"])
def test_a_run_that_links_to_elsewhere_is_refused(results, tmp_path, file):
    outside = Results(tmp_path / "elsewhere").create().run("secret")
    outside.finish(as_result(result(12.34567)))
    place = results.run(run_id(3, 1)).path / file
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside.path / file)

    row = row_of(poll_folder(results.root), run_id(3, 1))

    assert "link" in row.error
    assert row.value("top1_accuracy") is None


def test_stray_files_are_neither_runs_nor_studies(results):
    clean_folder = poll_folder(results.root)
    for folder in ("runs", "studies", "studies/made_up", "studies/made_up/paper"):
        (results.root / folder / ".DS_Store").touch()
    stray_folder = poll_folder(results.root)

    assert stray_folder.studies.keys() == clean_folder.studies.keys()
    assert stray_folder.studies[STUDY].records.rows == clean_folder.studies[STUDY].records.rows
    assert not stray_folder.problems


def test_a_damaged_plan_costs_its_own_study(results):
    write_json(results.study("broken", "quick") / "plan.json", {})
    folder = poll_folder(results.root)

    with pytest.raises(ConfigError, match=r"damaged"):
        folder.study("broken", "quick")
    assert len(folder.studies[STUDY].records.rows) == 12
