import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from processes import run_python

from recstudy.records import (
    Failure,
    PlanRecord,
    Results,
    append_record,
    clean,
    locked,
    write_json,
    write_record,
)
from recstudy.records.clean import left_outside, reclaimable
from recstudy.records.study_schema import Run, TrialLine, VariantRecord
from recstudy.study.testing import make_result


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch) -> Path:
    """A machine's temporary folders, those of this test alone."""
    for name in ("tmp", "ray"):
        (tmp_path / "machine" / name).mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "machine/tmp"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "machine/tmp"))
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "machine"))
    return tmp_path / "machine"


@pytest.fixture
def results(tmp_path) -> Results:
    """Five runs of a study in different states, a trial of a search, a run that no study names, and
    leftovers.
    """
    results = Results(tmp_path / "results").create()
    study = results.study("depths", "quick")
    names = ["done", "failed", "stopped", "cut", "busy"]
    planned(study, *names)
    trial = TrialLine(number=0, params={}, variant=VariantRecord(label="trial"), seed=0, id="trial")
    append_record(study / "trials-abc.jsonl", trial)
    for name in (*names, "trial", "orphan"):
        folder = results.run(name)
        folder.path.mkdir(parents=True)
        folder.config.write_text("{}")
        (folder.path / "checkpoint-000001.pt").write_bytes(b"x" * 1000)
        (folder.path / ".epochs.jsonl.7.tmp").write_bytes(b"x" * 10)
    results.run("done").finish(make_result())
    for kept_file in (results.run("done").weights, results.run("done").answers, results.run("done").measured):
        kept_file.write_bytes(b"kept")
    results.run("failed").fail(Failure(error_class="code"))
    results.run("failed").hang_log(0).write_text("stack")
    write_json(results.run("stopped").stopped, {"epoch": 1})
    (results.root / "recstudy-4u1b").mkdir()
    (results.root / "recstudy-4u1b/state").write_bytes(b"x" * 100)
    (study / ".plan.json.7.tmp").write_bytes(b"x")
    for leftover in results.root.rglob(".*.tmp"):
        grown_old(leftover)
    return results


def grown_old(file: Path) -> None:
    """Nobody has written to it for two minutes."""
    os.utime(file, (time.time() - 120,) * 2)


def planned(study: Path, *names: str) -> None:
    """A study of one variant, with a seed a run."""
    runs = tuple(Run(0, seed, name) for seed, name in enumerate(names))
    variants = (VariantRecord(label="all"),)
    record = PlanRecord(
        study="depths", preset="quick", base={}, variants=variants, seeds=(0,), runs=runs, report=()
    )
    write_record(study / "plan.json", record)


def reclaimable_files(results: Results, orphans: bool = False) -> dict[str, tuple[int, str]]:
    return {
        str(path.relative_to(results.root)): (size, why)
        for path, size, why, _ in reclaimable(results, orphans)[0]
    }


def remove_orphans(results: Results, typed, code: int = 0) -> str:
    return typed("clean", results.root, "--orphans", "--yes", code=code)


TEMPORARY = (10, "half-written by a killed process")
CAN_GO = {
    "recstudy-4u1b": (100, "Ray's temporary files of a killed driver"),
    "runs/cut/.epochs.jsonl.7.tmp": TEMPORARY,
    "runs/done/.epochs.jsonl.7.tmp": TEMPORARY,
    "runs/done/checkpoint-000001.pt": (1000, "checkpoint of a finished run"),
    "runs/failed/.epochs.jsonl.7.tmp": TEMPORARY,
    "runs/failed/hang-0.log": (5, "stack traces of a hang, which the next attempt would report"),
    "runs/orphan/.epochs.jsonl.7.tmp": TEMPORARY,
    "runs/stopped/.epochs.jsonl.7.tmp": TEMPORARY,
    "runs/stopped/checkpoint-000001.pt": (
        1000,
        "checkpoint of a stopped run, which would start from the beginning",
    ),
    "runs/trial/.epochs.jsonl.7.tmp": TEMPORARY,
    "studies/depths/quick/.plan.json.7.tmp": (1, "half-written by a killed process"),
}


def test_reclaimable_files_are_needed_by_no_report_and_no_running_run(results):
    """A run that no study names goes only when that is asked for."""
    with locked(results.run("busy").lock):
        assert dict(sorted(reclaimable_files(results).items())) == CAN_GO
    assert reclaimable_files(results, orphans=True)["runs/orphan"] == (1012, "no study plans this run")


def test_half_written_file_of_a_living_writer_is_not_listed(results):
    """That of a driver, which holds its study, and of `recstudy report`, which holds nothing."""
    report = results.study("depths", "quick") / "report/.report.html.7.tmp"
    report.parent.mkdir()
    report.write_text("half")
    assert not any("report" in name for name in reclaimable_files(results))

    grown_old(report)
    with locked(results.study("depths", "quick") / "lock"):
        # nor its scratch
        assert not any(name.startswith(("studies/", "recstudy-")) for name in reclaimable_files(results))
    assert reclaimable_files(results)["studies/depths/quick/report/.report.html.7.tmp"] == (
        4,
        "half-written by a killed process",
    )


def test_the_command_shows_first_and_removes_with_yes(results, typed):
    old_files = sorted(results.root.rglob("*"))
    with locked(results.run("busy").lock):
        output = typed("clean", results.root, "--orphans")
        assert "no study plans this run" in output
        assert "0.0 MB in total. Nothing was removed. Add --yes to remove these files." in output
        assert sorted(path for path in results.root.rglob("*") if path.name != "lock") == old_files

        assert "Removed 11 files and folders" in remove_orphans(results, typed)

    assert reclaimable_files(results) == {"runs/busy/.epochs.jsonl.7.tmp": TEMPORARY}  # no longer busy
    assert results.states() == {"done": "done", "failed": "failed", "stopped": "stopped"}
    assert results.run("done").weights.exists()
    assert sorted(os.listdir(results.root / "runs/cut")) == ["checkpoint-000001.pt", "config.json", "lock"]
    assert not results.run("orphan").path.exists()


WORK = """
import pathlib, sys
from recstudy.records import Result, RunFolder, locked
run = RunFolder(pathlib.Path(sys.argv[1]))
with locked(run.lock, wait=True):
    for file in (run.config, run.weights):
        file.write_text("of the worker")
    print("holds it", flush=True)
    sys.stdin.readline()
    assert run.weights.read_text() == "of the worker"
    run.finish(Result(status="done", metrics={}))
"""


def test_a_run_that_is_planned_and_finished_meanwhile_is_kept(results, typed, monkeypatch):
    named_runs = clean.named_runs

    def late(path: Path) -> set[str]:
        if not results.run("meanwhile").path.exists():
            results.run("meanwhile").path.mkdir()
            results.run("meanwhile").finish(make_result())
            planned(results.study("meanwhile", "quick"), "meanwhile")
        return named_runs(path)

    monkeypatch.setattr(clean, "named_runs", late)
    remove_orphans(results, typed)

    assert "meanwhile" in results.states()
    assert not results.run("orphan").path.exists()


def test_no_orphan_is_removed_while_a_driver_holds_a_study(results, typed):
    """It may have taken the orphan for finished, and has not written its plan yet."""
    with results.holding("another", "quick"):
        assert "another/quick is in use, and its driver may plan more runs" in remove_orphans(
            results, typed, 2
        )
    assert results.run("orphan").path.exists()


def test_a_driver_that_begins_while_runs_are_removed_waits_and_does_not_count_on_them(results):
    states: list[bool] = []

    def drive() -> None:
        with results.holding("another", "quick"):
            states.append(results.run("orphan").path.exists())

    driver = threading.Thread(target=drive)
    with results.cleaning():
        driver.start()
        while not (results.study("another", "quick") / "lock").exists():
            time.sleep(0.01)
        time.sleep(0.5)
        shutil.rmtree(results.run("orphan").path)
        assert states == []
    driver.join()

    assert states == [False]


def test_a_worker_that_begins_a_run_while_it_is_removed_loses_nothing(results, typed, monkeypatch):
    """It comes when the first file is about to go: a real process, which ends when it is told to."""
    rmtree, run, workers = shutil.rmtree, results.run("orphan"), []

    def slow(path, *args, **kwargs):
        if "orphan" in str(path):
            command = [sys.executable, "-c", WORK, str(run.path)]
            workers.append(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            assert workers[-1].stdout.readline() == "holds it\n"
        rmtree(path, *args, **kwargs)

    monkeypatch.setattr(shutil, "rmtree", slow)
    remove_orphans(results, typed)
    monkeypatch.setattr(shutil, "rmtree", rmtree)

    (worker,) = workers
    worker.communicate("\n")
    assert worker.returncode == 0
    assert results.states()["orphan"] == "done"
    assert run.weights.read_text() == "of the worker"
    assert not (run.path / "checkpoint-000001.pt").exists()


def test_checkpoint_that_a_run_has_resumed_from_stays(results):
    """The stopped run was begun again after it had been listed, and interrupted."""
    run = results.run("stopped")
    listed_files, _ = clean.reclaimable(results)
    run.stopped.unlink()

    (checkpoint,) = (item for item in listed_files if item.path == run.path / "checkpoint-000001.pt")
    assert not clean._remove(results, checkpoint)
    assert checkpoint.path.exists()


def test_a_link_is_never_followed(results, typed, tmp_path):
    """A run that is a link, and one of its files: what they lead to belongs to somebody else."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "checkpoint-000001.pt").write_text("theirs")
    (outside / "result.json").write_text('{"status": "done"}')
    for linked in ("runs/linked", "runs/.linked", "recstudy-linked", "runs/orphan/linked"):
        (results.root / linked).symlink_to(outside)

    remove_orphans(results, typed)

    assert "is no results folder: recstudy.json is missing" in remove_orphans(Results(outside), typed, 2)
    assert sorted(os.listdir(outside)) == ["checkpoint-000001.pt", "result.json"]
    assert (results.root / "runs/linked").is_symlink()
    assert not results.run("orphan").path.exists()


def test_runs_of_a_linked_study_are_no_orphans(results, typed, tmp_path):
    (results.root / "studies/depths").rename(tmp_path / "depths")
    (results.root / "studies/depths").symlink_to(tmp_path / "depths")

    assert "studies/depths is a link." in remove_orphans(results, typed, 2)
    assert results.run("orphan").path.exists()


def test_leftovers_of_a_killed_clean_go_with_the_next(results, typed):
    code = (
        "import os, shutil, signal, sys\nfrom recstudy.cli import main\n"
        "shutil.rmtree = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "main(['clean', sys.argv[1], '--orphans', '--yes'])"
    )
    run_python("-c", code, results.root, code=-signal.SIGKILL)
    (left,) = results.root.glob("runs/.orphan.*.tmp")
    assert (
        reclaimable_files(results)[str(left.relative_to(results.root))][1]
        == "half-removed by a killed process"
    )

    remove_orphans(results, typed)

    assert not list(results.root.glob("runs/.*"))


def test_run_named_by_a_damaged_record_is_no_orphan(results, typed):
    """Neither the runs of a plan nor a trial behind a damaged line."""
    log, plan = (results.study("depths", "quick") / name for name in ("trials-abc.jsonl", "plan.json"))
    log.write_bytes(b'{"number": 0, "id\n' + (log_bytes := log.read_bytes()))

    assert "line 1 of" in remove_orphans(results, typed, 2)
    assert results.run("trial").path.exists()

    log.write_bytes(log_bytes)
    plan.write_text('{"runs": [[0')
    output = remove_orphans(results, typed, 2)
    assert "plan.json is damaged" in output
    assert "Until this is fixed, no run counts as an orphan." in output
    assert results.run("orphan").path.exists()
    assert not (results.root / "runs/done/checkpoint-000001.pt").exists()


LEAVE = """
import sys, time
from contextlib import ExitStack
from pathlib import Path
from recstudy.records.locks import locked, temporary
with temporary() as own, locked(Path(sys.argv[1], "ray/session_7/recstudy.lock")):
    (own / "state").write_bytes(b"x" * 100)
    print(own.parent.name, flush=True)
    time.sleep(60)
"""


def test_temporary_folders_of_killed_processes_are_listed_and_those_in_use_are_not(results, typed, machine):
    """Of ours alone: a Ray that somebody has started by hand, and a folder of another program, have no lock
    of ours.
    """
    (machine / "ray/session_8").mkdir()
    (machine / "tmp/recstudy-of-others").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", LEAVE, str(machine)], stdout=subprocess.PIPE, text=True
    ) as process:
        name = process.stdout.readline().strip()
        assert list(left_outside()) == []
        process.kill()
    left = {path: why for path, _, why, _ in left_outside()}

    assert left.pop(machine / "tmp" / name) == "temporary files of a killed process"
    assert left.pop(machine / "ray/session_7") == "the logs of a Ray whose driver was killed"
    assert not left
    assert "Removed 14 files and folders" in typed("clean", results.root, "--yes")
    assert sorted(path.name for path in machine.glob("*/*")) == ["recstudy-of-others", "session_8"]
