"""Faults 11 to 15, 17, 21, 23 and 24: numbers, memory, errors, data, clocks, definitions, code, reports and old records."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
from shell import Shell
from twice import TWO, curve

from recstudy.records import Results
from recstudy.study.study import make_plan
from recstudy.testing import make_trial
from recstudy.train.trial import run_trial

HERE = Path(__file__).parent
SAMPLES = sorted(path.parent for path in HERE.parent.glob("records/*/recstudy.json"))

RECSTUDY = str(Path(sys.executable).with_name("recstudy"))


@pytest.mark.fault
def test_11_a_run_that_diverges_is_a_result_and_not_tried_again(shell):
    chosen = ("--only", "latent_steps=1*", "--set", "train.learning_rate=1e30")

    output = shell.run(*chosen, code=3)

    assert output.count("diverged") >= 2
    assert {result["status"] for result in shell.records().values()} == {"diverged"}
    assert shell.attempts() == [1, 1]
    assert "diverged" in shell.table().decode()
    assert "diverged: 2 runs" in shell.page()
    assert "2 runs: all finished before" in shell.run(*chosen, code=3)


@pytest.mark.fault
def test_12_a_run_without_memory_is_tried_once_more_alone_and_then_marked(tmp_path):
    shell = Shell(tmp_path, HERE / "hungry.py")

    output = shell.run(code=4)

    ((run, failure),) = shell.records("failure.json").items()
    assert failure["class"] == "out of memory"
    assert "can't allocate memory" in failure["error"]
    assert len(shell.lines("attempts.jsonl")[run]) == 2
    assert [result["status"] for result in shell.records().values()] == ["done"]
    assert output.count("out of memory") >= 1
    assert "out of memory: 1 run" in shell.page()


@pytest.mark.fault
def test_12_a_run_that_ray_kills_for_the_hosts_memory_is_marked_so(shell):
    """With all but one per cent of the host's memory declared full, Ray's monitor kills every worker."""
    shell.environment = {"RAY_memory_usage_threshold": "0.01", "RAY_memory_monitor_refresh_ms": "200"}

    output = shell.run("--only", "latent_steps=1, supervision_steps=1", "--set", "train.epochs=500", code=4)

    (failure,) = shell.records("failure.json").values()
    assert (failure["class"], failure["error"]) == ("out of memory", "its node ran low on memory, and Ray ended its process")
    assert output.count("its node ran low on memory") >= 2  # tried once more, alone


@pytest.mark.fault
def test_13_a_sweep_whose_first_runs_all_fail_alike_stops(shell):
    """Six runs whose folders cannot take a log: three are tried (and those that ran beside the third), and it is said once."""
    ids = shell.plan().values()
    for run_id in ids:
        (Results(shell.results).create().run(run_id).path / "losses.jsonl").mkdir(parents=True)

    output = shell.run("--set", "place.cpus_per_run=2", code=8)  # one run at a time, on two cores

    failures = shell.records("failure.json")
    assert len(failures) < len(ids)
    assert {failure["class"] for failure in failures.values()} == {"code"}
    assert output.count("runs failed in the same way and none succeeded") == 1
    assert "IsADirectoryError" in output
    assert "Report: " in output


# Python's own calls alone: those who wait until a time of day, as Ray does, would wait for a time that is past.
SKEWED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
static void *program;
__attribute__((constructor)) static void begin(void) {
    Dl_info info;
    if (dladdr((void *)getauxval(AT_ENTRY), &info)) program = info.dli_fbase;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    Dl_info info;
    int known = clock == CLOCK_REALTIME && dladdr(__builtin_return_address(0), &info);
    if (known && (info.dli_fbase == program || strstr(info.dli_fname, "libpython"))) now->tv_sec -= 3600;
    return failed;
}
"""


@pytest.fixture
def behind(tmp_path) -> dict[str, str]:
    """The environment of processes whose wall clock is an hour behind."""
    compiler, library = shutil.which("cc") or pytest.skip("no C compiler to make a clock with"), tmp_path / "behind.so"
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(library), "-ldl"]
    subprocess.run(command, input=SKEWED, text=True, check=True, capture_output=True)
    return {"LD_PRELOAD": str(library)}


@pytest.mark.fault
def test_15_a_clock_that_is_an_hour_behind_changes_nothing(again, undisturbed, behind):
    """The second attempt runs on a node whose clock is behind: it begins before the first one did."""
    again.environment = behind

    again.run(*TWO)

    for run, attempts in again.lines("attempts.jsonl").items():
        first, second = (attempt["started"] for attempt in attempts)
        assert second < first
        assert curve(again.results / "runs" / run) == undisturbed(run)
    for result in again.records().values():
        assert result["attempts"] == 2
        assert result["provenance"]["started"] <= result["provenance"]["finished"]
        assert all(value >= 0 for value in result["cost"].values() if isinstance(value, int | float))
    assert all(line["seconds"] >= 0 for lines in again.lines().values() for line in lines if "seconds" in line)
    assert "2 of 6 done" in again.page()


@pytest.mark.parametrize("dirty", [(True, False), (False, True), (False, False)])
def test_21_a_run_of_which_any_attempt_was_of_changed_code_says_so(tmp_path, dirty):
    run = make_plan(tiny.study, changes={"train.epochs": 2}).runs[0]
    for changed, leave in zip(dirty, (True, False), strict=True):  # the first is left in its middle
        run_trial(make_trial(tmp_path, run.config, dirty=changed), lambda line: None, lambda leave=leave: leave)

    assert json.loads((tmp_path / "runs" / run.id / "result.json").read_text())["provenance"]["dirty"] is any(dirty)


@pytest.mark.fault
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_24_records_of_every_version_are_read_and_gone_on_with(tmp_path, sample):
    study = tmp_path / "sample.py"
    study.write_text("from make import STUDY\n\nfrom recstudy import main\n\nmain(STUDY)\n")
    shell = Shell(tmp_path, study, {"PYTHONPATH": str(HERE.parent / "records")})
    shutil.copytree(sample, shell.results)
    ((finished, before),) = shell.records().items()

    report, status = (command(name, shell.results) for name in ("report", "status"))
    output = shell.run()

    assert "latent steps" in report
    assert "sample (quick) can go on; its command, as recorded: python sample.py" in status
    assert "2 runs: 1 finished before, 1 to run" in output
    assert len(shell.records()) == 2
    assert shell.records()[finished] == before
    assert shell.attempts() == [1, 2]


def command(name: str, results: Path) -> str:
    done = subprocess.run([RECSTUDY, name, str(results)], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
