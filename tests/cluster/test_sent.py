"""Finished runs sent to trackers after the fact: as live, each once, and whole after a kill."""

import shlex
from pathlib import Path

import pytest
from test_loggers import scalars

from recstudy.cluster.sent import send
from recstudy.cluster.trackers import SENT, make_loggers
from recstudy.command import main
from recstudy.records import Results, append_line, write_json
from recstudy.study.study import make_plan
from recstudy.testing import make_failure, make_result, tiny_study, write_study


@pytest.fixture
def results(tmp_path, monkeypatch) -> Results:
    """Four runs: three are done, one failed."""
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_PROJECT", "WANDB_ENTITY"):
        monkeypatch.delenv(name, raising=False)
    plan = make_plan(tiny_study(), seeds=2)
    last = plan.runs[-1].id
    results = write_study(
        tmp_path / "results", seeds=2, score=lambda run: make_failure() if run.id == last else make_result(75.0)
    )
    for run in plan.runs:
        write_json(results.run(run.id).config, run.config.values)
        for epoch, loss in enumerate((2.0, 1.5)):
            append_line(results.run(run.id).epochs, {"epoch": epoch, "train_loss": loss, "selection_top1_accuracy": 50.0})
        append_line(results.run(run.id).losses, {"epoch": 0, "first": 0, "every": 2, "losses": [3.0, 2.5]})
    return results


class Deaf:
    def logger_failed(self, name, error):
        raise AssertionError(error)


def test_tensorboard_has_the_same_as_from_a_live_run_and_each_run_once(results, tmp_path):
    run = make_plan(tiny_study(), seeds=2).runs[0]
    (live,) = make_loggers(["tensorboard"], "tiny", Results(tmp_path / "live"), Deaf())
    live.started(run)
    for epoch, loss in enumerate((2.0, 1.5)):
        live.epoch(run, {"epoch": epoch, "epochs_done": epoch + 1, "train_loss": loss, "selection_top1_accuracy": 50.0})
    live.ended(run, {"status": "done", "score": 75.0})

    assert send(results, "tiny", "quick", "tensorboard") == (3, 0)
    folder = next((results.root / "logs/tensorboard/tiny").glob(f"*({run.id[:6]})"))
    ours = scalars(next((tmp_path / "live/logs/tensorboard/tiny").iterdir()))
    assert scalars(folder) == ours
    assert ours["test_top1_accuracy", 2] == 75.0

    assert send(results, "tiny", "quick", "tensorboard") == (0, 3)
    (folder / f"{run.id}{SENT}").unlink()  # as where the command was killed
    assert send(results, "tiny", "quick", "tensorboard") == (1, 2)
    assert len([*folder.glob("events.out.*")]) == 1
    assert scalars(folder) == ours


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the database library that mlflow brings
def test_mlflow_is_asked_for_the_run_s_id(results, tmp_path):
    tracking = pytest.importorskip("mlflow.tracking")
    uri = f"sqlite:///{tmp_path}/mlflow.db"

    assert send(results, "tiny", "quick", "mlflow", uri) == (3, 0)
    assert send(results, "tiny", "quick", "mlflow", uri) == (0, 3)

    client = tracking.MlflowClient(uri)
    experiment = client.get_experiment_by_name("tiny").experiment_id
    runs = client.search_runs([experiment])
    assert {run.data.tags["recstudy.run"] for run in runs} == {run for run, state in results.states().items() if state == "done"}
    assert runs[0].data.metrics["test_top1_accuracy"] == 75.0
    assert [(point.step, point.value) for point in client.get_metric_history(runs[0].info.run_id, "train_loss")] == [
        (1, 2.0),
        (2, 1.5),
    ]
    assert runs[0].data.params["train.batch_size"] == "16"
    client.update_run(runs[0].info.run_id, status="RUNNING")  # as where the command was killed
    assert send(results, "tiny", "quick", "mlflow", uri) == (1, 2)
    assert len(client.search_runs([experiment])) == 3


def test_wandb_offline_has_one_folder_a_run(results, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")

    assert send(results, "tiny", "quick", "wandb", losses=True) == (3, 0)
    assert send(results, "tiny", "quick", "wandb") == (0, 3)

    folders = {path.name.rpartition("-")[2]: path for path in (results.root / "logs/wandb/wandb").glob("offline-run-*")}
    assert set(folders) == {run for run, state in results.states().items() if state == "done"}
    run = min(folders)
    (results.root / f"logs/wandb/wandb/{run}{SENT}").unlink()
    assert send(results, "tiny", "quick", "wandb") == (1, 2)
    assert len([*(results.root / "logs/wandb/wandb").glob(f"offline-run-*-{run}")]) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the database library that mlflow brings
def test_the_commands_of_the_documentation_run(results, monkeypatch, capsys):
    pytest.importorskip("mlflow")
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    page = (Path(__file__).parents[2] / "docs/how-to/trackers.md").read_text()
    lines = [shlex.split(line, comments=True)[1:] for line in page.splitlines() if line.startswith("recstudy log ")]

    for words in lines:
        with pytest.raises(SystemExit, match=r"^0$"):
            main(words)

    assert capsys.readouterr().out.count("tiny (quick): 3 finished runs sent to") == len(lines) == 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the database library that mlflow brings
def test_a_folder_without_a_study_and_a_tracker_that_fails_are_one_line(results, tmp_path, capsys):
    pytest.importorskip("mlflow")
    for words, said in (
        (["log", str(tmp_path / "none"), "--to", "tensorboard"], "no study in"),
        (["log", "s3://bucket/x", "--to", "tensorboard"], "is on an object store: copy it to a folder first"),
        (["log", "results", "--to", "mlflow", "--uri", "sqlite:////dev/null/where.db"], "--log mlflow cannot begin: "),
    ):
        with pytest.raises(SystemExit, match=r"^2$"):
            main(words)
        assert said in capsys.readouterr().err
