"""`--no-ray`: one run after another in this process, with the numbers, records and answers to a stop that
runs on Ray have.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pytest
import tiny
import tiny_search
from logs import read_lines
from shell import Shell

import recstudy
from recstudy.base.errors import ConfigError, StorageError
from recstudy.cli.options import StudyOptions
from recstudy.cluster.without_ray import LocalRunner
from recstudy.plugins import gathering
from recstudy.records import Attempt, Failure, Results, read_json, write_json
from recstudy.study.plan import make_plan
from recstudy.study.strategies import PRUNERS

HOLD = """
import sys
from recstudy.programs.run_folder import locked_run_folder
with locked_run_folder(sys.argv[1], ""):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize(
    "flags",
    [{"address": "auto"}, {"log": ("tensorboard",)}, {"trainer": "train"}],
    ids=lambda flags: next(iter(flags)),
)
def test_option_that_needs_ray_is_refused_with_no_ray(flags):
    with pytest.raises(ConfigError, match=f"--{next(iter(flags))} needs Ray. Remove --"):
        StudyOptions(no_ray=True, **flags)


@pytest.mark.parametrize("flags", [{"check_setup": True}, {"write_config": Path("fields.yaml")}])
def test_option_without_a_document_is_refused_with_json(flags):
    with pytest.raises(ConfigError, match="--check-setup and --write-config print no JSON document"):
        StudyOptions(json=True, **flags)


def test_runs_that_ask_for_more_than_this_process_are_refused(tmp_path, monkeypatch):
    # of the cached function, torch._dynamo reads `__wrapped__`
    monkeypatch.setattr("torch.backends.mps.is_available", cache(lambda: False))
    requests = {
        "workers": (2, "runs one worker"),
        "gpus": (2, "this machine has none"),
        "device": ("mps", "no Apple GPU"),
    }
    for field, (value, words) in requests.items():
        with pytest.raises(recstudy.base.errors.ClusterError, match=words):
            recstudy.run(tiny.study, results=tmp_path, ray=False, set={f"resources.{field}": value})


@contextmanager
def locked_by_another(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Give a process that locks a run's folder until it gets a line."""
    folder.mkdir(parents=True)
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other_process:
        assert other_process.stdout.readline() == "held\n"
        yield other_process
        if other_process.poll() is None:
            other_process.communicate("\n")


def of_depths(program) -> recstudy.Study:
    variants, metrics = recstudy.grid({"depth": [1, 2, 4]}), {"accuracy": recstudy.Metric("%")}
    return recstudy.Study(
        "depths", program=program, settings={"depth": 1}, metrics=metrics, variants=variants
    )


def test_a_run_that_another_process_has_locked_is_tried_last(tmp_path):
    depths = []

    def train(run):
        depths.append(run.settings["depth"])
        if run.settings["depth"] == 4:
            other_process.communicate("\n")
        return {"accuracy": 90}

    study = of_depths(recstudy.Function(train, name="tried last"))
    with locked_by_another(Results(tmp_path).create().run(make_plan(study).runs[0].id).path) as other_process:
        loaded = recstudy.run(study, results=tmp_path, ray=False)

    assert depths == [2, 4, 1]
    assert loaded.runs["status"].tolist() == ["done"] * 3


def test_runs_that_other_processes_run_or_have_tried_are_left_to_them(tmp_path, typed):
    def train(run):
        results.run(failed.id).fail(Failure(error_class="code", error="by another process"))
        write_json(results.run(done.id).result, {"status": "done", "metrics": {"accuracy": 91}})
        return {"accuracy": 90}

    study = of_depths(recstudy.Function(train, name="left to others"))
    results = Results(tmp_path).create()
    locked, ours, done, failed = make_plan(study, seeds=2).runs[:4]
    with locked_by_another(results.run(locked.id).path) as other_process:
        output = typed("--no-ray", "--seeds", "2", "--results", tmp_path, code=8, study=study)
        assert f"Left to other processes: 1 run: {locked} (process {other_process.pid} on" in output
        assert [len(read_lines(results.run(run.id).attempts)) for run in (locked, ours, done, failed)] == [
            0,
            1,
            0,
            0,
        ]
        results.run(failed.id).failure.unlink()
        typed("--no-ray", "--seeds", "1", "--results", tmp_path, study=study)


def test_a_retry_that_another_process_has_left_is_run(tmp_path):
    def train(run):
        if run.settings["depth"] == 2:
            results.run(failed.id).begin(Attempt(started="now"))  # by a process that was killed
        return {"accuracy": 90}

    study = of_depths(recstudy.Function(train, name="left retry"))
    results = Results(tmp_path).create()
    failed = make_plan(study).runs[0]
    results.run(failed.id).path.mkdir()
    results.run(failed.id).fail(Failure(error_class="code", error="by this process"))

    loaded = recstudy.run(study, results=tmp_path, ray=False)

    assert loaded.runs["status"].tolist() == ["done"] * 3


def test_a_failed_run_is_named_and_retried_by_the_next_call(results, command):
    label = "latent_steps=2, supervision_steps=1"
    (broken,) = [
        run.id for run in make_plan(tiny.study, changes={"train.epochs": 1}).runs if run.label == label
    ]
    obstacle = results.run(broken).path / "losses.jsonl"
    obstacle.mkdir(parents=True)
    options = ("--only", "latent_steps=[12], supervision_steps=1", "train.epochs=1")

    output = command(*options, code=7)

    assert f"{label}, seed 0: StorageError: cannot read" in output
    assert "losses.jsonl: it is a folder and not a file. Remove it." in output
    assert read_json(results.run(broken).failure)["class"] == "storage"
    assert "failed" in (results.study("tiny", "quick") / "report/tables/depths.md").read_text()

    obstacle.rmdir()
    command(*options)

    assert sorted(results.states().values()) == ["done", "done"]
    assert not results.run(broken).failure.exists()
    assert read_json(results.run(broken).result)["attempts"] == 2


def test_a_broken_variant_does_not_block_an_extension(tmp_path, capsys):
    """Old failures are retried last, and after three equal errors the variant is skipped."""
    tried: list[tuple[int, int]] = []

    def train(run):
        depth = run.settings["depth"]
        tried.append((depth, run.seed))
        if depth == 1:
            raise ValueError("no such kernel")
        return {"accuracy": 80 + run.seed}

    study = of_depths(recstudy.Function(train, name="broken variant"))
    recstudy.run(study, results=tmp_path, ray=False, seeds=3)
    tried.clear()

    loaded = recstudy.run(study, results=tmp_path, ray=False, seeds=9)

    assert tried[:3] == [(1, 3), (2, 3), (4, 3)]
    assert [seed for depth, seed in tried if depth == 1] == [3, 4, 5]
    assert loaded.runs.groupby("status").size().to_dict() == {"done": 18, "failed": 6, "not run": 3}
    output = capsys.readouterr().out
    assert "depth=1: 3 runs failed with the same error, so its other 6 were skipped." in output
    assert "Stopped" not in output


def test_text_that_utf_8_cannot_encode_fails_its_run_alone(tmp_path):
    def train(run):
        if run.settings["depth"] == 1:
            (run.folder / "caf\udce9.txt").touch()
            raise ValueError(f"cannot read {next(run.folder.iterdir()).name}")
        return {"accuracy": 80} | ({"caf\udce9": 1} if run.settings["depth"] == 2 else {})

    runs = recstudy.run(
        of_depths(recstudy.Function(train, name="surrogates")), results=tmp_path, ray=False
    ).runs

    assert runs["status"].tolist() == ["failed", "failed", "done"]
    assert runs["error_class"].tolist()[:2] == ["code", "code"]
    assert "ValueError: cannot read caf\\udce9.txt" in runs["error"][0]
    assert "not declared as metrics: caf\\udce9'. Rename the file, level or setting" in runs["error"][1]


def test_a_level_or_a_results_folder_that_utf_8_cannot_encode_is_refused_in_one_line(tmp_path, typed):
    program = recstudy.Function(lambda run: {"accuracy": 80}, name="encodable")
    metrics = {"accuracy": recstudy.Metric("%")}
    study = recstudy.Study(
        "encodable", program=program, settings={"kind": "a"}, metrics=metrics, variants=recstudy.grid({})
    )
    for folder, level in ((tmp_path / "results", "caf\udce9"), (tmp_path / "caf\udce9", "b")):
        options = ("--no-ray", "--results", folder, "--vary", f"kind=a,{level}")
        errors = typed(*options, code=2, study=study)
        assert errors.startswith("ConfigError: ")
        assert (errors.count("\n"), "caf\\udce9" in errors) == (1, True)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def command(typed, results):
    """Type options of the tiny study."""
    return partial(typed, "--no-ray", "--results", results.root, study=tiny.study)


@pytest.mark.parametrize(("good", "failures"), [(0, 3), (1, 5)])
def test_a_study_whose_first_runs_all_fail_alike_stops(results, command, good, failures):
    for run in make_plan(tiny.study, changes={"train.epochs": 1}).runs[good:]:
        (results.run(run.id).path / "losses.jsonl").mkdir(parents=True)

    output = command("train.epochs=1", code=7)

    assert len(list(results.root.glob("runs/*/failure.json"))) == failures
    assert ("Stopped: 3 runs failed with the same error, none succeeded" in output) == (good == 0)


def test_a_run_that_diverges_is_a_result_and_not_tried_again(results, command):
    options = ("--only", "latent_steps=1, supervision_steps=1", "train.learning_rate=1e30")
    for _ in range(2):
        output = command(*options, code=3)

    (run,) = results.root.glob("runs/*")
    assert read_json(run / "result.json")["status"] == "diverged"
    assert len(read_lines(run / "attempts.jsonl")) == 1
    assert "1 run: all finished before" in output
    assert "diverged" in (results.study("tiny", "quick") / "report/tables/depths.md").read_text()


@pytest.mark.whole
def test_stopped_and_killed_run_resumes_bit_equal_on_a_host_without_ray(tmp_path):
    (tmp_path / "hidden" / "ray").mkdir(parents=True)
    (tmp_path / "hidden" / "ray" / "__init__.py").write_text('raise ImportError("no Ray here")\n')
    path = ":".join(
        map(str, (tmp_path / "hidden", Path(recstudy.__file__).parents[1], Path(tiny.__file__).parent))
    )
    shell = Shell(tmp_path, environment={"PYTHONPATH": path})
    label = "latent_steps=1, supervision_steps=1"
    words = ("--no-ray", "--only", label, "train.epochs=50")
    recstudy.run(tiny.study, results=tmp_path / "whole", ray=False, only=[label], set={"train.epochs": 50})
    (folder,) = (tmp_path / "whole/runs").iterdir()

    for stop, epochs, code in ((signal.SIGTERM, 5, 130), (signal.SIGKILL, 15, -9)):
        with shell.start(*words) as process:
            while not any(len(lines) >= epochs for lines in shell.lines().values()):
                assert process.poll() is None
                time.sleep(0.05)
            process.send_signal(stop)
            _, errors = process.communicate()
        assert process.returncode == code
        for words_of_stop in ("Stopping: the run finishes its epoch first", "Stopped"):
            assert (words_of_stop in errors) == (stop == signal.SIGTERM)
        assert not shell.records()
    assert "1 run: 0 finished before, 1 to run" in shell.run(*words)

    ((run, result),) = shell.records().items()
    assert (run, result["attempts"]) == (folder.name, 2)  # of which a polite stop counts none
    assert result["metrics"] == read_json(folder / "result.json")["metrics"]
    losses = [
        [line["train_loss"] for line in lines]
        for lines in (shell.lines()[run], read_lines(folder / "epochs.jsonl"))
    ]
    assert losses[0] == losses[1]


def test_a_pruner_that_raises_ends_the_search(tmp_path, typed):
    with gathering():
        PRUNERS.add("broken")(lambda run, other_runs, epochs: 1 / 0)
        typed("--no-ray", "--stopping", "broken", "--results", tmp_path, code=2, study=tiny_search.study)

    assert len([*tmp_path.glob("runs/*/attempts.jsonl")]) == 1
    assert not [*tmp_path.glob("runs/*/failure.json")]


def test_storage_that_fails_during_runs_has_its_exit_code(tmp_path, monkeypatch, typed):
    def run(*_):
        raise StorageError("the disk is full")

    monkeypatch.setattr(LocalRunner, "run", run)
    typed("--no-ray", "--results", tmp_path, code=7, study=tiny.study)


def test_a_search_stops_runs_by_its_pruner(tmp_path, typed):
    study = replace(tiny_search.study, stopping="after two", report=[])
    with gathering():
        PRUNERS.add("after two")(lambda run, other_runs, epochs: len(run) == 2 and len(other_runs) >= 1)
        typed("--no-ray", "--budget", "4 runs", "--seeds", "0", "--results", tmp_path, study=study)

    stopped = [read_json(file) for file in tmp_path.glob("runs/*/stopped.json")]
    assert [(record["epoch"], record["by"]) for record in stopped] == [(1, "after two")] * 3
    assert sorted(len(file.read_text().splitlines()) for file in tmp_path.glob("runs/*/epochs.jsonl")) == [
        2,
        2,
        2,
        6,
    ]
