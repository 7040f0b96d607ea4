import json
import os
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recstudy.errors import StorageError
from recstudy.records import Results, RunFolder, append_line, locked, read_json, read_lines, write_json, write_whole


@given(st.lists(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3), max_size=6), st.data())
def test_a_log_torn_anywhere_keeps_its_whole_lines_and_takes_more(tmp_path_factory, lines, data):
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    for line in lines:
        append_line(path, line)
    whole = path.read_bytes() if lines else b""
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")

    assert read_lines(path) == lines[:kept]

    append_line(path, {"more": 1})

    assert read_lines(path) == [*lines[:kept], {"more": 1}]


def test_a_torn_tail_longer_than_a_page_is_cut(tmp_path):
    path = tmp_path / "log.jsonl"
    append_line(path, {"epoch": 0})
    with open(path, "ab") as file:
        file.write(b'{"epoch": 1, "text": "' + b"x" * 10_000)

    append_line(path, {"epoch": 1})

    assert read_lines(path) == [{"epoch": 0}, {"epoch": 1}]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "values.json"
    write_json(path, {"a": 1})

    with pytest.raises(ValueError, match="Out of range float"):
        write_json(path, {"a": float("nan")})

    assert read_json(path) == {"a": 1}
    assert os.listdir(tmp_path) == ["values.json"]


def test_a_write_killed_half_way_leaves_the_old_file(tmp_path):
    """A real process, killed between the write and the rename."""
    path = tmp_path / "values.json"
    write_whole(path, "old")
    code = (
        "import os, sys, signal, pathlib\nfrom recstudy import records\n"
        "os.replace = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"records.write_whole(pathlib.Path({str(path)!r}), 'new')"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert path.read_text() == "old"


def test_damaged_json_is_named(tmp_path):
    (tmp_path / "result.json").write_text('{"status": "do')

    with pytest.raises(StorageError, match=r"result.json is damaged"):
        read_json(tmp_path / "result.json")


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


def test_states_tell_finished_from_failed(tmp_path):
    results = Results(tmp_path / "results").create()
    results.run("a").finish({"status": "done"})
    write_json(results.run("b").failure, {"class": "code"})
    (results.root / "runs/c").mkdir()

    assert results.states() == {"a": "done", "b": "failed"}


@pytest.mark.parametrize("content", ['{"status": "do', "{}", "[]", ""])
def test_a_damaged_result_is_no_result(tmp_path, content):
    results = Results(tmp_path / "results").create()
    folder = results.run("a")
    write_whole(folder.result, content)

    assert not folder.finished
    assert results.states() == {}


def test_a_log_is_read_up_to_its_first_damaged_line(tmp_path):
    (tmp_path / "log").write_bytes(b'{"epoch": 0}\n\x00\x00\n{"epoch": 2}\n')

    assert read_lines(tmp_path / "log") == [{"epoch": 0}]


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


def test_a_lock_says_who_holds_it_and_is_freed_by_a_kill(tmp_path):
    lock = tmp_path / "study/lock"
    code = (
        "import pathlib, time\nfrom recstudy.records import locked\n"
        f"with locked(pathlib.Path({str(lock)!r}), 'process 7 on moon'):\n    print('held', flush=True)\n    time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(StorageError, match="in use by process 7 on moon"), locked(lock, "me"):
            pass
        holder.kill()
        holder.wait()

        with locked(lock, "me"):
            assert lock.read_text() == "me"


def test_a_waiting_lock_waits(tmp_path):
    order = []

    def second():
        with locked(tmp_path / "lock", "second", wait=True):
            order.append("second")

    with locked(tmp_path / "lock", "first"):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.1)
        order.append("first")
    thread.join(10)

    assert order == ["first", "second"]


def test_records_are_json_that_other_programs_read(tmp_path):
    folder = RunFolder(tmp_path)
    folder.finish({"status": "done", "metrics": {"top1_accuracy": 93.1}})

    assert json.loads(folder.result.read_text())["format"] == 1
