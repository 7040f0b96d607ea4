import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from recstudy.base.errors import ClusterError, StorageError
from recstudy.records import (
    Attempt,
    EpochLine,
    Failure,
    Results,
    RunFolder,
    read_json,
    read_log,
    write_json,
    write_whole,
)
from recstudy.study.plan import make_plan
from recstudy.study.record import record_plan
from recstudy.study.testing import make_result, tiny_study


def test_states_tell_finished_from_failed_and_stopped(results):
    results.run("a").finish(make_result())
    results.run("b").path.mkdir()
    results.run("b").begin(Attempt(started="now"))
    results.run("b").fail(Failure(error_class="code", error="it broke"))
    (results.root / "runs/c").mkdir()
    write_json(results.run("d").stopped, {"epoch": 3})

    assert results.states() == {"a": "done", "b": "failed", "d": "stopped"}
    assert read_json(results.run("a").result)["format"] == 1
    assert read_json(results.run("b").failure) == {
        "format": 1, "class": "code", "error": "it broke", "traceback": "", "calls": [], "attempts": 1
    }  # fmt: skip


def test_a_result_that_changes_is_read_again(results):
    for content, states in (("{", {}), (None, {"a": "done"}), ("{", {})):
        results.run("a").path.mkdir(exist_ok=True)
        results.run("a").finish(make_result()) if content is None else results.run("a").result.write_text(
            content
        )
        assert results.states(["a", "b"]) == states
    assert [run_id for run_id, _ in results.finished(["a"])] == []


@pytest.mark.parametrize("ending", ["failure", "stopped"])
def test_failure_is_archived_by_a_restart_and_removed_by_a_result_and_stop_marker_by_a_restart(
    tmp_path, ending
):
    folder = RunFolder(tmp_path)
    file: Path = getattr(folder, ending)
    write_json(file, {"class": "code", "epoch": 3})
    folder.begin(Attempt(started="now"))

    assert (file.exists(), len(folder.earlier_failures)) == (False, ending == "failure")
    write_json(file, {"class": "code", "epoch": 3})
    folder.finish(make_result())
    assert (folder.finished, file.exists(), folder.earlier_failures) == (True, False, [])


def test_an_attempt_that_left_a_drained_node_and_its_successor_are_one(tmp_path):
    folder = RunFolder(tmp_path)
    for commit in ("b", "a", "b", None):
        folder.begin(Attempt(started="2026-01-01T00:00:00+00:00", commit=commit))
    folder.record_drain("2020-01-01T00:00:00+00:00")  # by a clock that is wrong

    assert folder.tries == 3
    assert folder.recorded_versions("commit") == ["b", "a"]


@pytest.mark.parametrize("content", ['{"status": "do', "[]"])
def test_a_damaged_result_is_no_result_and_a_damaged_failure_none(results, content):
    folder = results.run("a")
    write_whole(folder.result, content)
    assert (folder.finished, results.states()) == (False, {})

    write_whole(folder.failure, content)
    assert (folder.last_failure, folder.reason) == (None, "not run")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("3", "it must be an object"),
        ('{"format": "x"}', "format must be a whole number"),
        ("{", "JSON"),
    ],
)
def test_a_damaged_marker_is_named_and_how_to_mend_it(tmp_path, content, words):
    """Removed, as other damaged records are, it would leave a folder of another program."""
    (tmp_path / "recstudy.json").write_text(content)

    with pytest.raises(
        StorageError, match=rf'recstudy\.json is damaged: .*{words}.*Write {{"format": 1}} into it'
    ):
        Results(tmp_path).create()

    (tmp_path / "recstudy.json").write_text('{"format": 1}')
    Results(tmp_path).create()


def test_records_of_a_newer_version_are_left_alone(tmp_path):
    Results(tmp_path).create()
    write_json(tmp_path / "recstudy.json", {"format": 99})

    with pytest.raises(StorageError, match=r"was written by a newer recstudy \(format 99\)"):
        Results(tmp_path).create()

    assert read_json(tmp_path / "recstudy.json") == {"format": 99}


def test_a_result_of_a_newer_version_is_neither_unfinished_nor_run_again(tmp_path):
    results = Results(tmp_path).create()
    write_json(results.run("a").result, {"format": 99, "status": "done"})

    for ask in (
        lambda: results.state("a"),
        lambda: results.run("a").finished,
        lambda: [*results.finished(["a"])],
    ):
        with pytest.raises(StorageError, match=r"was written by a newer recstudy \(format 99\)"):
            ask()


def test_a_plan_of_a_newer_version_is_not_replaced(tmp_path):
    results = Results(tmp_path).create()
    record_plan(make_plan(tiny_study()), results)
    (plan,) = tmp_path.glob("studies/*/*/plan.json")
    write_json(plan, {"format": 99})

    with pytest.raises(StorageError, match=r"was written by a newer recstudy \(format 99\)"):
        record_plan(make_plan(tiny_study()), results)
    assert read_json(plan) == {"format": 99}


def test_files_of_a_killed_worker_are_swept(tmp_path):
    folder = RunFolder(tmp_path)
    for name in (".checkpoint-000001.pt.77.tmp", "checkpoint-000002.pt"):
        (tmp_path / name).write_text("")

    folder.remove_leftovers()
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-000002.pt"]

    folder.finish(make_result())
    folder.remove_leftovers()
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_stray_files_are_no_records_and_of_no_other_program(tmp_path):
    """A file manager leaves one in every folder that somebody looks at."""
    (tmp_path / ".DS_Store").touch()
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(StorageError, match="holds files of another program"):
        Results(tmp_path).create()
    (tmp_path / "thesis.tex").unlink()
    results = Results(tmp_path).create()
    results.run("a").finish(make_result())
    for folder in ("runs", "runs/a"):
        (tmp_path / folder / ".DS_Store").touch()
    (tmp_path / "runs/notes.txt").touch()

    assert (results.states(), [run_id for run_id, _ in results.finished(results.run_ids())]) == (
        {"a": "done"},
        ["a"],
    )
    assert results.run_ids() == ["a"]


def test_a_file_in_place_of_a_folder_is_named(tmp_path):
    results = Results(tmp_path).create()
    (tmp_path / "runs").rmdir()
    (tmp_path / "runs").touch()

    with pytest.raises(StorageError, match=r"cannot read .*runs: Not a directory"):
        results.states()
    with pytest.raises(StorageError, match=r"cannot write results to .*runs/results: Not a directory"):
        Results(tmp_path / "runs/results").create()


def filled(folder: RunFolder) -> dict[str, str]:
    """Put a finished run's files there; their contents by name."""
    contents = {
        name: f"of {name}"
        for name in ("config.json", "epochs.jsonl", "result.json", "weights.safetensors", "answers.npz")
    }
    for name, content in contents.items():
        write_whole(folder.path / name, content)
    (folder.path / "lock").touch()
    return contents


def test_a_run_that_is_to_be_run_again_keeps_all_its_records(tmp_path):
    folder = RunFolder(tmp_path)
    for number in (1, 2):
        contents = filled(folder)

        folder.archive()

        assert {
            file.name: file.read_text() for file in (tmp_path / f"attempt-{number}").iterdir()
        } == contents
        assert folder.archive_count == number
        assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {"lock"}


@pytest.mark.parametrize("moves", range(6))
def test_a_process_that_dies_while_it_sets_a_run_aside_loses_nothing(tmp_path, monkeypatch, moves):
    """After each number of moves: the run is finished as before, or it is not and the next worker moves what
    is left.
    """
    folder, done, rename = RunFolder(tmp_path), [], Path.rename
    contents = filled(folder)

    def dying(path: Path, target: Path) -> Path:
        if len(done) == moves:
            raise KeyboardInterrupt("here")
        done.append(path)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", dying)
    with pytest.raises(KeyboardInterrupt, match="here"):
        folder.archive()
    monkeypatch.undo()

    assert folder.result.exists() == (moves == 0)
    folder.remove_leftovers()
    assert {file.name: file.read_text() for file in (tmp_path / "attempt-1").iterdir()} == contents
    assert (folder.archive_count, folder.result.exists()) == (1, False)


@pytest.mark.parametrize("line", ['{"epoch": "1"}', "[]", "\0\0\0"])
def test_run_resumes_after_a_damaged_line_of_its_epochs(tmp_path, line):
    folder = RunFolder(tmp_path)
    folder.epochs.write_text(f'{{"epoch": 0}}\n{line}\n{{"epoch": 1}}\n{{"epoch": 2}}\n')

    folder.keep_epochs(end_epoch=2)

    assert [line.epoch for line in read_log(folder.epochs, EpochLine)] == [0, 1]
    assert (folder.lost_epochs(2), folder.lost_epochs(4)) == (0, 2)


def test_a_damaged_log_of_attempts_is_refused_before_the_run_is_trained(tmp_path):
    folder = RunFolder(tmp_path)
    folder.attempts.write_text("3\n")

    with pytest.raises(
        StorageError, match=r"line 1 of .*attempts\.jsonl is damaged: it must be an object.* Remove that line"
    ):
        folder.begin(Attempt(started="now"))


def refused(results: Results, meanwhile: Callable[[], object] = bool) -> None:
    with suppress(ClusterError), results.holding("sweep", "quick"):
        meanwhile()
        raise ClusterError("a run needs 9 GPU")


def test_a_start_that_is_refused_leaves_nothing_behind(tmp_path):
    """Nor does one from under whose new folders the storage went away: it ends with what it cannot write."""
    refused(Results(tmp_path / "some" / "results"))
    assert list((tmp_path / "some").iterdir()) == []

    results = Results(tmp_path / "results")
    refused(results, lambda: results.root.rename(tmp_path / "gone"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gone", "some"]


def test_a_start_that_is_refused_takes_nothing_of_others(tmp_path):
    """Neither an empty folder that was there, nor what another study has begun in one that was not."""
    (tmp_path / "mine").mkdir()
    refused(Results(tmp_path / "mine"))
    assert (tmp_path / "mine" / "recstudy.json").exists()

    results = Results(tmp_path / "new")
    with results.holding("other", "quick") as folder:
        refused(results)
        (folder / "plan.json").write_text("{}")
    assert (folder / "plan.json").exists()
    assert (results.root / "recstudy.json").exists()
    assert (results.root / "runs").is_dir()


def test_a_start_beside_one_that_is_refused_finds_its_folder_whole(tmp_path):
    """It was made by the one that is refused, who takes it away again while the other waits for the lock."""
    results = Results(tmp_path / "new")

    def begin() -> None:
        with results.holding("sweep", "quick", on_wait=lambda holder: waits.set()) as folder:
            (folder / "plan.json").write_text("{}")

    waits, other_thread = Event(), Thread(target=begin)
    refused(results, meanwhile=lambda: (other_thread.start(), waits.wait()))
    other_thread.join()

    assert (results.study("sweep", "quick") / "plan.json").exists()
    assert (results.root / "recstudy.json").exists()
    assert (results.root / "runs").is_dir()


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder to another user, as root alone may")
@pytest.mark.parametrize("place", ["results", "results/below"])
def test_a_folder_of_another_user_is_one_line(tmp_path, place):
    folder = tmp_path / place
    folder.mkdir(parents=True)
    (tmp_path / "results").chmod(0o700)
    for parent in (tmp_path, *tmp_path.parents):
        assert parent.stat().st_mode & 0o001 or parent.chmod(parent.stat().st_mode | 0o001) is None
    os.seteuid(65534)
    try:
        with pytest.raises(
            StorageError,
            match=r"cannot read .*recstudy.json: Permission denied. Its folder belongs to another user",
        ):
            Results(folder)
    finally:
        os.seteuid(0)
