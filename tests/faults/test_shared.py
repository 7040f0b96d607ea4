"""Array jobs: processes without Ray that share a study's runs, are killed at random moments and started
again.
"""

import csv
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import shared
from logs import read_lines
from shell import Shell

from recstudy.records import Results
from recstudy.report.study_records import load_study
from recstudy.study.plan import make_plan

PROCESSES, KILLS = 4, 12
SCRIPT = Path(__file__).parents[2] / "dashboards/cluster/slurm_array.sh"


@pytest.mark.fault
def test_four_processes_that_are_killed_at_random_moments_run_each_run_once(tmp_path):
    seed = time.time_ns() % 10**6
    print(f"seed {seed}")
    chance = random.Random(seed)
    shell = Shell(tmp_path, Path(shared.__file__))
    runs = make_plan(shared.study).runs
    processes = [shell.start("--no-ray") for _ in range(PROCESSES)]

    kills = 0
    while kills < KILLS:
        wait_for_results(shell, chance.randrange(10), processes)
        time.sleep(chance.uniform(0, 0.1))
        victim = chance.randrange(PROCESSES)
        if processes[victim].poll() is None:
            processes[victim].send_signal(signal.SIGKILL)
            processes[victim].communicate()
            kills += 1
        else:
            assert processes[victim].communicate()[1] == ""
        processes[victim] = shell.start("--no-ray")
    for process in processes:
        output, errors = process.communicate()
        assert (process.returncode, errors) == (0, ""), output

    results = shell.records()
    assert {run.id: 80 + run.config.settings["depth"] + run.seed / 100 for run in runs} == {
        run_id: result["metrics"]["accuracy"] for run_id, result in results.items()
    }
    for run_id, result in results.items():  # no attempt begins after the one that has finished the run
        assert result["attempts"] == len(read_lines(shell.results / "runs" / run_id / "attempts.jsonl"))
    assert sum(result["attempts"] for result in results.values()) <= len(runs) + KILLS
    assert not shell.records("failure.json")
    assert {row.status for row in load_study(Results(shell.results), "shared", "default").rows} == {"done"}
    table = shell.results / "studies/shared/default/report/tables/depths.csv"
    with table.open() as file:
        assert {(row["row"], row["n"]) for row in csv.DictReader(file)} == {
            ("depth 1", "40"),
            ("depth 2", "40"),
            ("depth 4", "40"),
        }


@pytest.mark.fault
def test_a_task_of_an_array_job_leaves_before_its_time_limit_and_queues_itself_again(tmp_path):
    shell = Shell(tmp_path, Path(shared.__file__))
    (tmp_path / "bin").mkdir()
    for program, line in (("scontrol", 'echo "$@" > queued'), ("sleep", "true")):
        (tmp_path / "bin" / program).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / "bin" / program).chmod(0o755)
    slurm = {"SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "3", "VENV": sys.prefix}
    command = ["bash", SCRIPT, str(shell.study), "--results", str(shell.results)]
    environment = os.environ | slurm | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}

    with subprocess.Popen(command, cwd=tmp_path, env=environment) as task:
        wait_for_results(shell, 2, [task])
        task.send_signal(signal.SIGUSR1)

    assert (task.returncode, (tmp_path / "queued").read_text()) == (130, "requeue 70_3\n")
    assert 2 <= len(shell.records()) < len(make_plan(shared.study).runs)


def wait_for_results(shell: Shell, count: int, processes) -> None:
    """Wait until `count` more runs have finished, or no process is left."""
    old_count = len(shell.records())
    while len(shell.records()) < old_count + count and any(process.poll() is None for process in processes):
        time.sleep(0.01)
