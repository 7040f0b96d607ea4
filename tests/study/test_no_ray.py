"""`--no-ray`: one run after another in this process, with the numbers, records and answers to a stop that runs on Ray have."""

import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import tiny_search
from shell import Shell

import recstudy
from recstudy.cli import main
from recstudy.errors import ConfigError
from recstudy.options import StudyOptions
from recstudy.plugins import gathering
from recstudy.records import Results, read_json
from recstudy.study.strategies import PRUNERS
from recstudy.study.study import make_plan

ONE = ("--only", "latent_steps=1, supervision_steps=1")
HOLD = """
import sys
from recstudy.train.run_folder import locked_run_folder
with locked_run_folder(sys.argv[1], ""):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def without_ray(tmp_path) -> Shell:
    """A host that has no Ray."""
    (tmp_path / "hidden" / "ray").mkdir(parents=True)
    (tmp_path / "hidden" / "ray" / "__init__.py").write_text('raise ImportError("no Ray here")\n')
    ours = Path(recstudy.__file__).parents[1]
    path = ":".join(map(str, (tmp_path / "hidden", ours, Path(tiny.__file__).parent)))
    return Shell(tmp_path, environment={"PYTHONPATH": path})


@pytest.mark.parametrize(
    "flags", [{"address": "auto"}, {"log": ("tensorboard",)}, {"trainer": "train"}], ids=lambda flags: next(iter(flags))
)
def test_what_needs_ray_is_refused_beside_it(flags):
    with pytest.raises(ConfigError, match=f"--{next(iter(flags))} needs Ray: leave it out, or --no-ray"):
        StudyOptions(no_ray=True, **flags)


def test_runs_that_ask_for_more_than_this_process_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    asked = {"workers_per_run": (2, "runs one worker"), "gpus_per_run": (2, "torch sees none"), "device": ("mps", "no Apple GPU")}
    for field, (value, words) in asked.items():
        with pytest.raises(recstudy.errors.ClusterError, match=words):
            recstudy.run(tiny.study, results=tmp_path, ray=False, set={f"place.{field}": value})


def test_a_run_that_another_process_works_on_comes_last(tmp_path, capsys):
    results = Results(tmp_path / "r").create()
    first, *others = make_plan(tiny.study).runs[:2]
    results.run(first.id).path.mkdir(parents=True)
    hold = [sys.executable, "-c", HOLD, str(results.run(first.id).path)]
    with subprocess.Popen(hold, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"

        def leave() -> None:
            while not results.run(others[0].id).finished:
                time.sleep(0.05)
            other.communicate("\n")

        leaving = threading.Thread(target=leave, daemon=True)
        leaving.start()
        found = recstudy.run(tiny.study, results=results.root, ray=False, only=[first.label, others[0].label])
        leaving.join()

    assert found.runs["status"].tolist()[:2] == ["done", "done"]
    said = capsys.readouterr().out
    assert said.index("works on it; it is put off") < said.index(f"{others[0].label}, seed 0:")


def test_a_failed_run_is_named_and_retried_by_the_next_call(tmp_path, capsys):
    results, set_fields = Results(tmp_path / "r").create(), {"train.epochs": 1}
    label = "latent_steps=2, supervision_steps=1"
    (broken,) = [run.id for run in make_plan(tiny.study, changes=set_fields).runs if run.label == label]
    obstacle = results.run(broken).path / "losses.jsonl"
    obstacle.mkdir(parents=True)
    few = ["--no-ray", "--results", str(results.root), "--only", "latent_steps=[12], supervision_steps=1", "train.epochs=1"]

    with pytest.raises(SystemExit, match=r"^7$"):
        main(tiny.study, few)

    said = capsys.readouterr().out
    assert f"{label}, seed 0: StorageError: cannot read" in said
    assert "losses.jsonl: it is a folder, where a file should be. Remove it." in said
    assert read_json(results.run(broken).failure)["class"] == "storage"
    assert "failed" in (results.study("tiny", "quick") / "report/tables/depths.md").read_text()

    obstacle.rmdir()
    with pytest.raises(SystemExit, match=r"^0$"):
        main(tiny.study, few)

    assert sorted(results.states().values()) == ["done", "done"]
    assert not results.run(broken).failure.exists()
    assert read_json(results.run(broken).result)["attempts"] == 2


@pytest.mark.whole
def test_a_host_without_ray_gives_the_numbers_of_ray(without_ray, tmp_path):
    (tmp_path / "ray").mkdir()
    on_ray = Shell(tmp_path / "ray")

    said = without_ray.run("--no-ray", *ONE)
    on_ray.run(*ONE)

    assert "1 run: 0 finished before, 1 to run" in said
    assert {run: record["metrics"] for run, record in without_ray.records().items()} == {
        run: record["metrics"] for run, record in on_ray.records().items()
    }


@pytest.mark.whole
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGKILL], ids=lambda stop: stop.name)
def test_a_run_that_was_stopped_goes_on_to_the_bit(without_ray, tmp_path, stop):
    words = ("--no-ray", *ONE, "train.epochs=40")
    with without_ray.start(*words) as process:
        while not without_ray.begun():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(stop)
        _, errors = process.communicate()
    begun = {run: len(lines) for run, lines in without_ray.lines().items()}
    whole = Shell(tmp_path / "whole", environment=without_ray.environment)
    whole.folder.mkdir()

    without_ray.run(*words)
    whole.run(*words)

    assert process.returncode == (-9 if stop == signal.SIGKILL else 130)
    assert ("Stopped" in errors) == (stop != signal.SIGKILL)
    assert [record["attempts"] for record in without_ray.records().values()] == [1 if stop == signal.SIGTERM else 2]
    assert next(iter(begun.values())) < 40
    metrics = [next(iter(shell.records().values()))["metrics"] for shell in (without_ray, whole)]
    losses = [[line["train_loss"] for line in next(iter(shell.lines().values()))] for shell in (without_ray, whole)]
    assert metrics[0] == metrics[1]
    assert losses[0] == losses[1]


def test_a_search_stops_runs_by_its_pruner(tmp_path):
    study = replace(tiny_search.study, stopping="after two", report=[])
    with gathering():
        PRUNERS.add("after two")(lambda run, others, epochs: len(run) == 2 and len(others) >= 1)
        with pytest.raises(SystemExit, match=r"^0$"):
            main(study, ["--no-ray", "--budget", "4 runs", "--seeds", "0", "--results", str(tmp_path)])

    stopped = [read_json(file) for file in tmp_path.glob("runs/*/stopped.json")]
    assert [(record["epoch"], record["by"]) for record in stopped] == [(1, "after two")] * 3
    assert sorted(len(file.read_text().splitlines()) for file in tmp_path.glob("runs/*/epochs.jsonl")) == [2, 2, 2, 6]
