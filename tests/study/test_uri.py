"""Studies whose results are on an object store, seen from machines that share nothing else."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from shell import Shell, kill_all, until

from recstudy.programs.attempt import Trial
from recstudy.programs.trial import run_trial
from recstudy.records.mirror import Mirror

EPOCHS = 400  # runs of some seconds
TWO = (
    "--only",
    "latent_steps=1*",
    "--set",
    f"train.epochs={EPOCHS}",
    "--set",
    "resources.checkpoint_seconds=0.5",
)
FIRST_VARIANT = "latent_steps=1, supervision_steps=1"


@pytest.fixture
def machine(object_store, tmp_path) -> Callable[[str], Shell]:
    """A machine by its name, with its own copy of the results."""

    def of(name: str) -> Shell:
        (tmp_path / name).mkdir()
        return Shell(tmp_path / name, store=object_store.uri(tmp_path.name))

    return of


@pytest.fixture
def stored(object_store, tmp_path) -> Callable[[], dict[str, bytes]]:
    """Read what the store holds, by name."""

    def read() -> dict[str, bytes]:
        shutil.rmtree(mirror.root, ignore_errors=True)
        mirror.pull(("*",))
        files = [path for path in mirror.root.rglob("*") if path.is_file()]
        return {path.relative_to(mirror.root).as_posix(): path.read_bytes() for path in files}

    mirror = Mirror(object_store.uri(tmp_path.name), tmp_path / "looked")
    return read


def results(stored: dict[str, bytes]) -> dict[str, dict]:
    return {
        name.split("/")[1]: json.loads(text) for name, text in stored.items() if name.endswith("/result.json")
    }


def run_without_ray(config: bytes, folder: Path) -> dict:
    """The result of a run in a folder, without Ray."""
    folder.mkdir(parents=True)
    trial = Trial(json.loads(config), "x", str(folder), "data")
    assert run_trial(trial, lambda line: None)["status"] == "done"
    return json.loads((folder / "result.json").read_text())


@pytest.mark.whole
def test_a_study_on_a_store_leaves_there_what_a_folder_holds(machine, stored, tmp_path):
    shell = machine("a")
    shell.run("--only", FIRST_VARIANT)

    stored_files = stored()
    ((run, result),) = results(stored_files).items()
    assert (
        result["metrics"]
        == run_without_ray(stored_files[f"runs/{run}/config.json"], tmp_path / "alone/runs/x")["metrics"]
    )
    assert not [name for name in stored_files if name.endswith(("/lock", ".pt"))]
    assert {f"runs/{run}/answers.npz", f"runs/{run}/weights.safetensors", "recstudy.json"} < set(stored_files)
    assert {"studies/tiny/quick/plan.json", "studies/tiny/quick/report/report.html"} < set(stored_files)
    assert not list(shell.results.with_suffix(".work").glob("*"))

    other_machine = machine("b")
    assert "1 run: all finished before" in other_machine.run("--only", FIRST_VARIANT)
    assert other_machine.table() == shell.table()
    other_machine.run("--no-ray", "--only", FIRST_VARIANT, "--init-from", run, "--set", "train.epochs=0")
    stored_after = stored()
    (weights,) = (
        name for name in stored_after if name.startswith("weights/") and name.endswith(".safetensors")
    )
    assert stored_after[weights] == stored_files[f"runs/{run}/weights.safetensors"]
    (judged,) = (judged_result for id, judged_result in results(stored_after).items() if id != run)
    assert judged["provenance"]["initial"]["source"] == f"run {run}"
    # it trains on nothing
    expected_metrics = {
        name: value for name, value in result["metrics"].items() if name != "train_top1_accuracy"
    }
    assert judged["metrics"] == expected_metrics


@pytest.mark.fault
def test_a_lost_machines_study_is_finished_by_another(machine, stored, tmp_path):
    lost_machine, other_machine = machine("a"), machine("b")
    with lost_machine.start(*TWO) as driver:
        until(
            lambda: len({name.split("/")[1] for name in stored() if "checkpoint" in name}) == 2, "checkpoints"
        )
        kill_all(driver)
    shutil.rmtree(lost_machine.folder)

    with other_machine.start(*TWO) as driver:
        output, errors = driver.communicate(timeout=900)
    assert driver.returncode == 0, output + errors
    stored_files = stored()
    assert len(results(stored_files)) == 2
    for run, result in results(stored_files).items():
        assert (
            result["metrics"]
            == run_without_ray(stored_files[f"runs/{run}/config.json"], tmp_path / f"alone/runs/{run}")[
                "metrics"
            ]
        )
        assert result["attempts"] == 2
        lines = map(json.loads, stored_files[f"runs/{run}/epochs.jsonl"].splitlines())
        assert [line["epoch"] for line in lines] == list(range(EPOCHS))
