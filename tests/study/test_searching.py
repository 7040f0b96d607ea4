"""Real searches through a real Ray, in processes of their own."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from shell import Shell, until

pytestmark = pytest.mark.whole

TINY = Path(__file__).with_name("tiny_search.py")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path, TINY)


def trials(shell: Shell) -> list[dict]:
    (log,) = shell.results.glob("studies/tiny_search/*/trials-*.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


def numbers(shell: Shell) -> list[int]:
    return [line["number"] for line in trials(shell) if "number" in line]


def test_a_search_from_one_command_to_the_page_and_on(shell):
    output = shell.run()

    assert "Budget: 6 runs in all: 4 to search, 2 for the best 2 with fresh seeds; 0 runs made before" in output
    assert "The best 2 again with fresh seeds: 2 runs, 2 to run" in output
    assert numbers(shell) == [0, 1, 2, 3]
    assert trials(shell)[0]["params"]["model.latent_steps"] == 3  # the preset's own
    assert [line["seed"] for line in trials(shell) if "confirms" in line] == [1, 1]
    assert shell.attempts() == [1] * 6
    page = (shell.results / "studies/tiny_search/quick/report/report.html").read_text()
    assert "Which tiny model learns the digits best?" in page

    before = shell.records()
    again = shell.run()
    assert "Budget: 6 runs in all; 6 runs made before, 2 with fresh seeds: nothing is left to run" in again
    assert "Ray dashboard" not in again

    more = shell.run("--budget", "8", "--seeds", "0")
    assert "Budget: 8 runs in all, without fresh seeds; 6 runs made before" in more
    assert numbers(shell) == [0, 1, 2, 3, 4, 5]
    assert all(shell.records()[run] == result for run, result in before.items())


def test_no_setting_is_paid_for_twice(shell):
    """Nine settings, three of which a study has run before: the rest is run once each, and the search ends by itself."""
    tiny = Shell(shell.folder, Path(__file__).with_name("tiny_sweep.py"))
    tiny.run()
    paid = tiny.records()

    output = shell.run("--budget", "50", "--sampler", "random", "--seeds", "0")

    assert len(paid) == 3
    assert output.count("known from another study, not run again") == 3
    assert "All settings that fit together were tried: the space is searched." in output
    assert numbers(shell) == list(range(9))
    assert shell.attempts() == [1] * 9
    assert all(shell.records()[run] == result for run, result in paid.items())


def test_a_killed_driver_forgets_no_trial(shell):
    with shell.start("--budget", "6", "--seeds", "0") as driver:
        until(lambda: len(shell.records()) >= 2, "two results")
        os.killpg(driver.pid, signal.SIGKILL)
    finished, begun = shell.records(), numbers(shell)
    assert 2 <= len(finished) < 6

    shell.run("--budget", "6", "--seeds", "0")

    assert numbers(shell)[: len(begun)] == begun
    assert numbers(shell) == list(range(6))
    assert len(shell.records()) == 6
    assert all(shell.records()[run] == result for run, result in finished.items())


def test_asha_stops_runs_early_and_says_so(shell):
    """Twelve settings over many learning rates: the poor ones are stopped, recorded so, and not run again."""
    options = ("--preset", "wild", "--budget", "12", "--seeds", "0", "--stopping", "asha", "--set", "train.epochs=40")
    output = shell.run(*options, "--set", "model.dropout=0.1")

    stopped = shell.records("stopped.json")
    assert stopped
    assert {record["by"] for record in stopped.values()} == {"asha"}
    assert not stopped.keys() & shell.records().keys()
    assert len(stopped) + len(shell.records()) == 12
    assert output.count(": stopped") == len(stopped)
    assert f"{len(stopped)} stopped" in (shell.results / "studies/tiny_search/wild/report/report.html").read_text()
    assert "nothing is left to run" in shell.run(*options, "--set", "model.dropout=0.1")


def test_a_diverged_run_is_a_failure_to_the_sampler_and_not_to_the_search(shell):
    output = shell.run("--preset", "wild", "--budget", "8", "--seeds", "0", "--sampler", "qmc")

    kinds = [result["status"] for result in shell.records().values()]
    assert kinds.count("diverged") >= 1
    assert kinds.count("done") >= 1
    assert "diverged" in output


def test_hours_end_a_search_and_what_was_under_way_goes_on_with_more(shell):
    options = ("--seeds", "0", "--set", "train.epochs=500")
    shell.run(*options, "--budget", "0.1min", code=1)  # nothing has finished

    assert shell.records() == {}
    assert max(line["clock"]["h"] for line in trials(shell) if "clock" in line) < 1 / 60
    begun = numbers(shell)
    assert begun

    shell.run(*options, "--budget", "2")

    assert numbers(shell) == [0, 1]
    assert len(shell.records()) == 2


def test_gpu_hours_without_a_gpu_are_refused(shell):
    assert "--budget 1 GPU hour counts GPU hours, but the runs use no GPU" in shell.run("--budget", "1gpuh", code=2)


def test_optuna_dashboard_shows_a_finished_search(shell):
    journal = shell.folder / "optuna.journal"
    shell.run("--budget", "4", "--seeds", "0")
    shell.run("--budget", "4", "--seeds", "0", "--optuna-storage", str(journal))  # nothing is run: what was is written there

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("optuna-dashboard")
    server = subprocess.Popen([program, "--host", "127.0.0.1", "--port", str(port), str(journal)], stderr=subprocess.DEVNULL)
    try:
        page, studies = fetch(f"http://127.0.0.1:{port}/dashboard/"), fetch(f"http://127.0.0.1:{port}/api/studies")
        (shown,) = json.loads(studies)["study_summaries"]
        details = json.loads(fetch(f"http://127.0.0.1:{port}/api/studies/{shown['study_id']}"))
    finally:
        server.terminate()
        server.wait()

    assert "<title>Optuna Dashboard" in page
    assert re.fullmatch(r"tiny_search quick [0-9a-f]{12}", shown["study_name"])
    best = max(result["selected"]["top1_accuracy"] for result in shell.records().values())
    assert max(trial["values"][0] for trial in details["trials"]) == best
    assert len(details["trials"]) == 4


def fetch(url: str) -> str:
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
