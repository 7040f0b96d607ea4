"""Real studies through a real Ray, in processes of their own."""

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import pytest


def process_titled(title: str) -> int:
    """The process that shows `title`, as ps does; between two epochs Ray shows its own for a moment."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if process.read_bytes().split(b"\0")[0].decode() == title:
                    return int(process.parent.name)
    raise AssertionError(f"no process is titled {title!r}")


def test_a_study_from_one_command_to_the_page(shell):
    output = shell.run()

    results = shell.records()
    assert "[6/6]" in output
    assert "latent_steps=3, supervision_steps=2" in output
    assert "Report: results/studies/tiny/quick/report/report.html" in output
    assert len(results) == 6
    assert shell.attempts() == [1] * 6
    for result in results.values():
        assert result["status"] == "done"
        assert result["metrics"]["top1_accuracy"] > 15  # chance is 10
        assert set(result["provenance"]) >= {"commit", "versions", "hardware", "data_checksum"}
    page = (shell.results / "studies/tiny/quick/report/report.html").read_text()
    assert "Which of six tiny models learns the digits?" in page
    assert sorted(path.name for path in next(shell.results.glob("runs/*")).iterdir()) == [
        "attempts.jsonl", "config.json", "epochs.jsonl", "lock", "losses.jsonl", "mistakes.npz", "result.json",
        "weights.safetensors",
    ]  # fmt: skip

    before = shell.table()
    started = time.monotonic()
    again = shell.run()
    assert "6 runs: all finished before" in again
    assert "Ray dashboard" not in again
    assert time.monotonic() - started < 30
    assert shell.table() == before
    assert shell.attempts() == [1] * 6

    more = shell.run("--seeds", "2", "--only", "latent_steps=1*")
    assert "4 runs: 2 finished before, 2 to run" in more
    assert shell.attempts() == [1] * 8
    assert "(n=2)" in shell.table().decode()


def test_a_driver_killed_in_the_middle_costs_nothing(shell, tmp_path):
    undisturbed = type(shell)(tmp_path / "undisturbed")
    undisturbed.folder.mkdir()
    undisturbed.run("--seeds", "2")
    with shell.start("--seeds", "2") as driver:
        deadline = time.monotonic() + 100
        while len(shell.records()) < 4 and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(driver.pid, signal.SIGKILL)
    finished = shell.records()
    assert 4 <= len(finished) < 12

    shell.run("--seeds", "2")

    assert shell.table() == undisturbed.table()
    assert len(shell.records()) == 12
    ours, theirs = shell.records(), undisturbed.records()
    for run in theirs:
        assert ours[run]["metrics"] == theirs[run]["metrics"]
    assert all(ours[run] == result for run, result in finished.items())  # not run again
    for run in shell.results.glob("runs/*"):
        epochs = [json.loads(line)["epoch"] for line in (run / "epochs.jsonl").read_text().splitlines()]
        assert epochs == list(range(8))
        assert not list(run.glob("checkpoint-*"))


def test_a_killed_trial_goes_on_from_its_checkpoint(shell):
    with shell.start("--only", "latent_steps=1, supervision_steps=1", "--set", "train.epochs=150") as driver:
        log = shell.results / "runs"
        deadline = time.monotonic() + 100
        while not list(log.glob("*/checkpoint-00001*.pt")) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(process_titled("tiny latent_steps=1, supervision_steps=1 seed=0"), signal.SIGKILL)
        driver.communicate(timeout=150)

    assert driver.returncode == 0
    assert shell.attempts() == [2]
    (result,) = shell.records().values()
    assert result["attempts"] == 2
    (epochs,) = [path.read_text().splitlines() for path in log.glob("*/epochs.jsonl")]
    assert [json.loads(line)["epoch"] for line in epochs] == list(range(150))


def test_a_failed_run_is_named_and_retried_by_the_next_call(shell):
    plan = json.loads(shell.run("--dry-run", "--json"))
    (broken,) = [run["id"] for run in plan if run["label"] == "latent_steps=2, supervision_steps=1"]
    obstacle = shell.results / "runs" / broken / "epochs.jsonl"
    shell.run("--only", "latent_steps=1, supervision_steps=1")
    obstacle.mkdir(parents=True)

    output = shell.run("--only", "latent_steps=[12], supervision_steps=1", code=1)

    assert "latent_steps=2, supervision_steps=1, seed 0: IsADirectoryError" in output
    assert shell.records("failure.json")[broken]["class"] == "code"
    assert "failed" in shell.table().decode()
    assert len(shell.records()) == 1

    obstacle.rmdir()
    shell.run("--only", "latent_steps=[12], supervision_steps=1")

    assert len(shell.records()) == 2
    assert shell.records("failure.json") == {}
    assert shell.records()[broken]["attempts"] == 2


def test_a_sweep_whose_first_runs_all_fail_alike_stops(shell):
    """Six runs whose folders cannot take a log: three are tried (and those that ran beside the third), and it is said once."""
    ids = [run["id"] for run in json.loads(shell.run("--dry-run", "--json"))]
    shell.run("--only", "latent_steps=3, supervision_steps=2", "--set", "train.epochs=1")  # makes the folder ours
    for run_id in ids:
        (shell.results / "runs" / run_id / "epochs.jsonl").mkdir(parents=True)

    output = shell.run("--set", "place.cpus_per_run=2", code=1)  # one run at a time, on two cores

    assert len(shell.records("failure.json")) < len(ids)
    assert output.count("runs failed in the same way and none succeeded") == 1
    assert "IsADirectoryError" in output


def test_two_workers_take_the_steps_of_one(shell, tmp_path):
    """Ray Train on the CPU, gloo, the same global batch: equal losses to 1e-5."""
    alone = type(shell)(tmp_path / "alone")
    alone.folder.mkdir()
    chosen = ("--only", "latent_steps=3, supervision_steps=2", "--set", "train.augment.mixup=0.4", "--set", "train.epochs=3")
    alone.run(*chosen)

    shell.run(*chosen, "--workers-per-run", "2")

    (one,), (two,) = alone.records().values(), shell.records().values()
    assert (one["provenance"]["workers"], two["provenance"]["workers"]) == (1, 2)
    assert alone.records().keys() == shell.records().keys()
    (ours,), (theirs,) = (
        [path.read_text().splitlines() for path in each.results.glob("runs/*/epochs.jsonl")] for each in (shell, alone)
    )
    for line, other in zip(map(json.loads, ours), map(json.loads, theirs), strict=True):
        for name in ("train_loss", "selection_loss"):
            assert line[name] == pytest.approx(other[name], rel=1e-5)
    assert one["metrics"]["nll"] == pytest.approx(two["metrics"]["nll"], rel=1e-4)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_stop_keeps_what_was_finished(shell, sign):
    with shell.start() as driver:
        deadline = time.monotonic() + 100
        while not shell.records() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(driver.pid, sign)
        _, errors = driver.communicate(timeout=60)

    assert driver.returncode == 130
    assert errors.splitlines()[-1] == "Stopped. What was finished is kept; the same command goes on from there."
    kept = shell.records()
    shell.run()
    assert all(shell.records()[run] == result for run, result in kept.items())
