import json
import os

import pytest

from recstudy.errors import StorageError
from recstudy.records import Results, RunFolder, append_line, read_json, read_lines, write_json, write_whole


def test_epochs_from_a_resumed_one_on_are_dropped(tmp_path):
    folder = RunFolder(tmp_path)
    for epoch in range(5):
        append_line(folder.epochs, {"epoch": epoch})

    folder.keep_epochs(below=3)

    assert [line["epoch"] for line in read_lines(folder.epochs)] == [0, 1, 2]


def test_a_result_ends_a_failure(tmp_path):
    folder = RunFolder(tmp_path)
    write_json(folder.failure, {"class": "code"})

    folder.finish({"status": "done"})

    assert folder.finished
    assert not folder.failure.exists()


def test_states_tell_finished_from_failed_and_stopped(tmp_path):
    results = Results(tmp_path / "results").create()
    results.run("a").finish({"status": "done"})
    results.run("b").fail({"class": "code"})
    (results.root / "runs/c").mkdir()
    write_json(results.run("d").stopped, {"epoch": 3})

    assert results.states() == {"a": "done", "b": "failed", "d": "stopped"}


def test_what_was_stopped_is_no_longer_so_once_it_is_begun_again_or_ends(tmp_path):
    for ends in (lambda folder: folder.begin({"started": "now"}), lambda folder: folder.finish({"status": "done"})):
        folder = RunFolder(tmp_path)
        write_json(folder.stopped, {"epoch": 3})

        ends(folder)

        assert not folder.stopped.exists()


def test_an_attempt_that_left_a_drained_node_and_its_successor_are_one(tmp_path):
    folder = RunFolder(tmp_path)
    for commit in ("b", "a", "b", None):
        folder.begin({"started": "2026-01-01T00:00:00+00:00", "commit": commit})
    folder.drained({"ended": "2020-01-01T00:00:00+00:00"})  # by a clock that is wrong

    assert folder.tries == 3
    assert folder.commits == ["b", "a"]


def test_a_failure_says_its_format_and_how_often_it_was_tried(tmp_path):
    folder = RunFolder(tmp_path)
    folder.begin({"started": "now"})

    folder.fail({"class": "code", "error": "it broke"})

    assert read_json(folder.failure) == {"format": 1, "class": "code", "error": "it broke", "attempts": 1}


@pytest.mark.parametrize("content", ['{"status": "do', "{}", "[]", ""])
def test_a_damaged_result_is_no_result(tmp_path, content):
    results = Results(tmp_path / "results").create()
    folder = results.run("a")
    write_whole(folder.result, content)

    assert not folder.finished
    assert results.states() == {}


def test_records_of_a_newer_version_are_left_alone(tmp_path):
    Results(tmp_path).create()
    write_json(tmp_path / "recstudy.json", {"format": 99})

    with pytest.raises(StorageError, match=r"was written by a newer recstudy \(format 99\)"):
        Results(tmp_path).create()

    assert read_json(tmp_path / "recstudy.json") == {"format": 99}


def test_what_a_killed_worker_left_is_swept(tmp_path):
    folder = RunFolder(tmp_path)
    for name in (".checkpoint-000001.pt.77.tmp", "checkpoint-000002.pt"):
        (tmp_path / name).write_text("")

    folder.sweep()
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-000002.pt"]

    folder.finish({"status": "done"})
    folder.sweep()
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_folder_of_another_program_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("do not touch")

    with pytest.raises(StorageError, match="holds files of another program"):
        Results(tmp_path).create()

    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(StorageError, match=r"cannot write results to .*file/results: Not a directory"):
        Results(tmp_path / "file/results").create()


def test_records_are_json_that_other_programs_read(tmp_path):
    folder = RunFolder(tmp_path)
    folder.finish({"status": "done", "metrics": {"top1_accuracy": 93.1}})

    assert json.loads(folder.result.read_text())["format"] == 1
