"""Studies whose results are on an object store, seen from machines that share nothing else."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow.fs import FileSelector
from shell import TINY, Shell, kill_all, until

from recstudy.records.mirror import Mirror
from recstudy.train.trial import Trial, run_trial

EPOCHS = 400
SOME = ("--set", f"train.epochs={EPOCHS}", "--set", "place.checkpoint_seconds=0.5")  # runs of some seconds
TWO = ("--only", "latent_steps=1*", *SOME)
ONE = "latent_steps=1, supervision_steps=1"


@pytest.fixture
def machine(object_store, tmp_path) -> Callable[..., Shell]:
    """A machine by its name, with its own copy of the results."""

    def of(name: str, study: Path = TINY) -> Shell:
        (tmp_path / name).mkdir()
        return Shell(tmp_path / name, study, store=object_store.uri(tmp_path.name))

    return of


class Stored:
    """What the store holds, by name."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror

    def __call__(self) -> dict[str, bytes]:
        shutil.rmtree(self.mirror.root, ignore_errors=True)
        self.mirror.pull(("*",))
        found = {path.relative_to(self.mirror.root): path for path in self.mirror.root.rglob("*") if path.is_file()}
        return {name.as_posix(): path.read_bytes() for name, path in found.items()}

    def begun(self) -> int:
        """How many runs have a checkpoint."""
        return len({name.rpartition("/")[0] for name in self._names() if "checkpoint" in name})

    def _names(self) -> list[str]:
        found = self.mirror.fs.get_file_info(FileSelector(self.mirror.base, allow_not_found=True, recursive=True))
        return [info.path for info in found]


@pytest.fixture
def stored(object_store, tmp_path) -> Stored:
    return Stored(Mirror(object_store.uri(tmp_path.name), tmp_path / "looked"))


def results(stored: dict[str, bytes]) -> dict[str, dict]:
    return {name.split("/")[1]: json.loads(text) for name, text in stored.items() if name.endswith("/result.json")}


def epochs(stored: dict[str, bytes]) -> list[list[int]]:
    logs = (text for name, text in stored.items() if name.endswith("/epochs.jsonl"))
    return [[json.loads(line)["epoch"] for line in log.splitlines()] for log in logs]


def alone(config: bytes, folder: Path) -> dict:
    """The result of a run in a folder, without Ray."""
    folder.mkdir(parents=True)
    trial = Trial("tiny", "alone", json.loads(config), "x", str(folder), "data", False, ".", None, False)
    assert run_trial(trial, lambda line: None)["status"] == "done"
    return json.loads((folder / "result.json").read_text())


def recstudy(shell: Shell, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "from recstudy.command import main; main()", *arguments], cwd=shell.folder,
        env={**os.environ, **shell.environment}, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.whole
def test_a_study_on_a_store_leaves_there_what_a_folder_holds(machine, stored, tmp_path):
    shell = machine("a")
    shell.run("--only", ONE)

    there = stored()
    ((run, result),) = results(there).items()
    kept = {
        "answers.npz",
        "attempts.jsonl",
        "config.json",
        "epochs.jsonl",
        "files.json",
        "losses.jsonl",
        "mistakes.npz",
        "result.json",
        "weights.safetensors",
    }
    files = {name.rpartition("/")[2] for name in there if name.startswith("runs/")}
    assert files == kept
    assert {"recstudy.json", "studies/tiny/quick/plan.json", "studies/tiny/quick/report/report.html"} < set(there)
    assert result["metrics"] == alone(there[f"runs/{run}/config.json"], tmp_path / "alone/runs/x")["metrics"]
    assert not list(shell.results.with_suffix(".work").glob("*"))

    other = machine("b")
    assert "1 run: all finished before" in other.run("--only", ONE)
    assert other.table() == shell.table()
    other.run("--only", ONE, "--init-from", run, "--set", "train.epochs=0", "--workers-per-run", "2")
    again = results(stored())
    (weights,) = (name for name in stored() if name.startswith("weights/") and name.endswith(".safetensors"))
    judged = next(one for id, one in again.items() if id != run)
    assert there[f"runs/{run}/weights.safetensors"] == stored()[weights]  # which two workers, on Ray, had from the store
    assert (judged["provenance"]["initial"]["source"], judged["provenance"]["workers"]) == (f"run {run}", 2)
    known = {name: value for name, value in result["metrics"].items() if name != "train_top1_accuracy"}  # it trains on nothing
    assert judged["metrics"] == known
    assert "Report: scratch/" in recstudy(machine("c"), "report", other.place)
    assert "tiny" in recstudy(machine("d"), "status", other.place)


@pytest.mark.fault
def test_killed_workers_and_drivers_go_on_from_the_store_over_a_torn_folder(machine, stored):
    shell = machine("a")
    with shell.start(*TWO) as driver:
        until(stored.begun, "a checkpoint")
        os.kill(shell.process(shell.begun()[0]), signal.SIGKILL)
        until(lambda: any(text.count(b"started") == 2 for text in stored().values()), "a second attempt")
        kill_all(driver)
    assert not results(stored())
    for path in [*shell.results.rglob("*.json*"), *shell.results.with_suffix(".work").rglob("*.*")]:
        path.write_bytes(path.read_bytes()[:-7])

    output = shell.run(*TWO)

    assert "Waiting" not in output  # for the dead of this machine
    there = stored()
    assert sorted(result["attempts"] for result in results(there).values()) == [2, 3]
    assert epochs(there) == [list(range(EPOCHS))] * 2
    assert stored.begun() == 0


@pytest.mark.fault
def test_a_lost_machines_study_is_finished_by_another(machine, stored, tmp_path):
    """Which waits as long as the lost one might come back: for the study, then for the runs."""
    lost, other = machine("a"), machine("b")
    with lost.start(*TWO) as driver:
        until(lambda: stored.begun() == 2, "checkpoints")
        kill_all(driver)
    shutil.rmtree(lost.folder)

    with other.start(*TWO) as driver:
        output, errors = driver.communicate(timeout=900)
    assert driver.returncode == 0, output + errors
    assert "Waiting for process" in output

    there = stored()
    for run, result in results(there).items():
        assert result["metrics"] == alone(there[f"runs/{run}/config.json"], tmp_path / f"alone/runs/{run}")["metrics"]
        assert result["attempts"] == 2
    assert epochs(there) == [list(range(EPOCHS))] * 2


def test_a_store_that_cannot_be_used_is_one_line(machine, object_store, tmp_path):
    (tmp_path / "x").mkdir()
    for store, words in (
        ("s4://bucket/x", "unsupported URI scheme 's4'"),
        (object_store.uri("x", bucket="none"), "bucket does not exist"),
    ):
        (line,) = Shell(tmp_path / "x", store=store).run(code=2).splitlines()
        assert words in line
