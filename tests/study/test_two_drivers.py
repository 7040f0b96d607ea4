"""Two commands on one study at once: neither loses what the other plans and runs. Real processes, without
Ray.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny
from processes import run_python

from recstudy.base.errors import StorageError
from recstudy.cli.report import ReportCommand
from recstudy.records import Attempt, Results
from recstudy.records.locks import is_locked
from recstudy.records.mirror import Mirror
from recstudy.records.stores import write_object
from recstudy.study.plan import make_plan
from recstudy.study.record import record_plan, recorded
from recstudy.study.testing import finish_runs

DRIVER = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import tiny
from recstudy.records import Results
from recstudy.study.record import record_plan
from recstudy.study.plan import make_plan
results = Results(sys.argv[1])
with results.holding("tiny", "quick"):
    record_plan(make_plan(tiny.study, seeds=3), results)
    print("planned", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def results(tmp_path) -> Results:
    """Seed 0 of every variant is finished."""
    results = Results(tmp_path / "results").create()
    finish_runs(results, make_plan(tiny.study, seeds=1))
    return results


@pytest.fixture
def driver(results) -> Iterator[subprocess.Popen[str]]:
    """A driver that runs three seeds."""
    command = [sys.executable, "-c", DRIVER, str(results.root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "planned\n"
        yield process
        process.kill()


def seeds(results: Results, file: str = "plan.json") -> list[int]:
    record = json.loads((results.study("tiny", "quick") / file).read_text())
    assert [run[1] for run in record["runs"]] == [
        seed for seed in record["seeds"] for _ in tiny.study.variants
    ]
    return record["seeds"]


def test_finished_command_of_fewer_seeds_keeps_the_plan_of_the_running_driver(results, driver):
    done = run_python(tiny.__file__, "--seeds", 1, "--results", results.root)

    assert "6 runs: all finished before" in done.stdout
    assert driver.poll() is None  # which it did not wait for
    assert seeds(results) == [0, 1, 2]


def test_a_command_without_ray_runs_what_the_driver_has_planned_and_does_not_wait_for_it(results, driver):
    options = "--no-ray", "--only", "latent_steps=1, supervision_steps=1", "--seeds", 2
    done = run_python(tiny.__file__, *options, "--results", results.root)

    assert "2 runs: 1 finished before, 1 to run" in done.stdout
    assert "Waiting" not in done.stdout
    assert (driver.poll(), seeds(results)) == (None, [0, 1, 2])


def test_a_finished_command_that_the_driver_does_not_run_waits_for_it(results, driver):
    (results.study("tiny", "quick") / "plan.json").unlink()
    command = [sys.executable, tiny.__file__, "--seeds", "1", "--results", str(results.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as waiting:
        assert waiting.stdout is not None
        assert f"Waiting for process {driver.pid}" in waiting.stdout.readline()
        driver.communicate("\n")
        assert "6 runs: all finished before" in waiting.communicate(timeout=120)[0]
    assert seeds(results) == [0]


def test_plan_of_fewer_seeds_keeps_started_runs(results):
    three, single_seed = make_plan(tiny.study, seeds=3), make_plan(tiny.study, seeds=1)
    record_plan(three, results)
    assert recorded(single_seed, results)
    run = next(run for run in three.runs if run.seed == 1)
    results.run(run.id).path.mkdir()
    results.run(run.id).begin(Attempt())

    record_plan(single_seed, results)

    assert seeds(results) == seeds(results, f"plan-{single_seed.definition}.json") == [0, 1]
    assert not recorded(three, results)


def test_damaged_plan_is_rewritten(results):
    plan = make_plan(tiny.study, seeds=1)
    record_plan(plan, results)
    (results.study("tiny", "quick") / f"plan-{plan.definition}.json").write_text("{")

    record_plan(plan, results)

    assert seeds(results, f"plan-{plan.definition}.json") == [0]


def test_two_drivers_begin_in_one_fresh_folder(tmp_path):
    """One comes between the other's marker and its renaming."""
    (tmp_path / "fresh").mkdir()
    (tmp_path / "fresh/.recstudy.json.7.tmp").touch()
    assert Results(tmp_path / "fresh").create().root.exists()
    (tmp_path / "fresh/recstudy.json").unlink()
    (tmp_path / "fresh/other.tmp").touch()
    with pytest.raises(StorageError, match="holds files of another program"):
        Results(tmp_path / "fresh").create()


def test_two_drivers_begin_in_one_fresh_folder_of_a_store(object_store, tmp_path, monkeypatch):
    """The other one tries out whether it can write there."""
    monkeypatch.setenv("RECSTUDY_SCRATCH", str(tmp_path / "here"))
    uri = object_store.uri(tmp_path.name)
    other_mirror = Mirror(uri, tmp_path / "there")
    write_object(other_mirror.fs, other_mirror.key(other_mirror.root / ".probe-7"), b"")

    assert Results(uri).create().pull().states() == {}


def test_the_report_command_locks_the_report_that_it_writes(results, monkeypatch):
    record_plan(make_plan(tiny.study, seeds=1), results)
    lock, states = results.study("tiny", "quick") / "report/.lock", []
    monkeypatch.setattr("recstudy.report.writing.show_report", lambda *_: states.append(is_locked(lock)))
    ReportCommand(str(results.root)).run()
    assert states == [True]
