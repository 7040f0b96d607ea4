"""Ray's loggers, told of runs as a sweep tells them."""

import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import tiny
from rich.console import Console

from recstudy.base.errors import ConfigError
from recstudy.cli import study as study_command
from recstudy.cluster.trackers import PACKAGES, Logger
from recstudy.cluster.view import View
from recstudy.records import Results, Run, append_line
from recstudy.study.plan import make_plan

FIRST, SECOND, *_ = make_plan(tiny.study).runs


@pytest.fixture
def view() -> View:
    return View(Console(file=io.StringIO(), width=200))


def epoch(number: int, loss: float) -> dict[str, Any]:
    """As the driver hears it of Tune, which adds numbers of its own."""
    line = {
        "epoch": number,
        "epochs_done": number + 1,
        "epochs": 8,
        "train_loss": loss,
        "selection_top1_accuracy": 50.0,
    }
    return line | {"training_iteration": 1, "time_total_s": 0.5, "pid": 1, "date": "today"}


def tell(logger: Logger, run: Run, losses: dict[int, float], outcome: dict[str, Any] | None = None) -> None:
    logger.on_start(run)
    for number, loss in losses.items():
        logger.on_epoch(run, epoch(number, loss))
    if outcome is not None:
        logger.on_end(run, outcome)


def scalars(folder: Path) -> dict[tuple[str, int], float]:
    """What a run's event files hold: value by name and step."""
    return {(value.tag, step): value.simple_value for step, value in summaries(folder)}


def summaries(folder: Path) -> Iterator[tuple[int, Any]]:
    from tensorboardX.proto.event_pb2 import Event

    for file in sorted(folder.glob("events.out.*")):
        rest = file.read_bytes()
        while rest:  # length (8 bytes), its checksum (4), the event, its checksum (4)
            length = int.from_bytes(rest[:8], "little")
            event, rest = Event.FromString(rest[12 : 12 + length]), rest[16 + length :]
            yield from ((event.step, value) for value in event.summary.value)


@pytest.mark.parametrize("losses", [True, False])
def test_tensorboard_shows_epochs_by_number_and_losses_where_asked_for(tmp_path, view, losses):
    """The driver does not hear of every epoch; a run whose process is lost goes on in its folder.

    By hand: every second update from number 4 on is 4, 6, 8.
    """
    results = Results(tmp_path).create()
    results.run(FIRST.id).path.mkdir(parents=True)
    append_line(results.run(FIRST.id).losses, {"epoch": 0, "first": 0, "every": 2, "losses": [3.0, 2.5]})
    append_line(results.run(FIRST.id).losses, {"epoch": 1, "first": 4, "every": 2, "losses": [2.0, 1.5, 1.0]})
    logger = Logger("tensorboard", "tiny", results, view, losses)
    tell(logger, FIRST, {0: 2.0, 3: 1.5})
    tell(logger, FIRST, {4: 1.0, 7: 0.5}, {"status": "done", "score": 75.0})
    tell(logger, SECOND, {0: 3.0}, {"status": "failed", "class": "code", "error": "it broke"})
    logger.close()

    first_folder, two = sorted((tmp_path / "logs/tensorboard/tiny").iterdir())
    assert first_folder.name == f"latent_steps=1, supervision_steps=1, seed 0 ({FIRST.id[:6]})"
    values = scalars(first_folder)
    assert {step: loss for (name, step), loss in values.items() if name == "train_loss"} == {
        1: 2.0,
        4: 1.5,
        5: 1.0,
        8: 0.5,
    }
    updates = {step: loss for (name, step), loss in values.items() if name == "update_loss"}
    assert updates == ({0: 3.0, 2: 2.5, 4: 2.0, 6: 1.5, 8: 1.0} if losses else {})
    assert values["test_top1_accuracy", 8] == 75.0
    assert "time_total_s" not in {name for name, _ in values}
    assert scalars(two)["train_loss", 1] == 3.0
    # its table of hyperparameters
    assert any("train.batch_size" in str(value.metadata) for _, value in summaries(first_folder))


def test_a_tracker_that_breaks_is_named_once_and_ends_nothing(tmp_path, view):
    logger = Logger("tensorboard", "tiny", Results(tmp_path), view)
    (tmp_path / "logs/tensorboard/tiny").write_text("in the way")

    tell(logger, FIRST, {0: 2.0}, {"status": "done", "score": 75.0})
    logger.close()

    (line,) = view.console.file.getvalue().splitlines()
    assert line.startswith("--log tensorboard has stopped, the runs continue: NotADirectoryError: ")


def test_a_tracker_that_cannot_begin_is_refused(tmp_path, view):
    (tmp_path / "logs").write_text("in the way")

    with pytest.raises(ConfigError, match="--log tensorboard cannot start: NotADirectoryError: "):
        Logger("tensorboard", "tiny", Results(tmp_path), view)


def test_a_missing_package_is_named_before_anything_starts(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(PACKAGES, "wandb", "not_there")

    with pytest.raises(SystemExit, match=r"^2$"):
        study_command.main(tiny.study, ["--log", "tensorboard", "wandb", "--results", str(tmp_path / "r")])

    assert capsys.readouterr().err == (
        "ConfigError: --log wandb needs the package not_there, which is not installed: pip install not_there\n"
    )
    assert not (tmp_path / "r/studies").exists()


def test_trackio_gets_fields_and_metrics_in_a_database_of_its_own(tmp_path, view, monkeypatch, capsys):
    assert find_spec("trackio") or pytest.skip("trackio is not installed")
    monkeypatch.delenv("TRACKIO_DIR", raising=False)
    logger = Logger("trackio", "tiny", Results(tmp_path), view)
    tell(logger, FIRST, {0: 2.0, 3: 1.5}, {"status": "done", "score": 75.0})
    tell(logger, SECOND, {0: 3.0})
    logger.close()

    with closing(sqlite3.connect(tmp_path / "logs/trackio/tiny.db")) as database:
        lines = database.execute("SELECT run_name, step, metrics FROM metrics ORDER BY id").fetchall()
        (config, *_) = database.execute("SELECT config FROM configs ORDER BY id").fetchone()
    one, two = (f"latent_steps=1, supervision_steps={steps}, seed 0" for steps in (1, 2))
    assert [(name, step, json.loads(numbers)) for name, step, numbers in lines] == [
        (one, 1, {"train_loss": 2.0, "selection_top1_accuracy": 50.0}),
        (one, 4, {"train_loss": 1.5, "selection_top1_accuracy": 50.0}),
        (one, 4, {"test_top1_accuracy": 75.0}),
        (two, 1, {"train_loss": 3.0, "selection_top1_accuracy": 50.0}),
    ]
    assert json.loads(config)["train.epochs"] == FIRST.config.train.epochs
    assert capsys.readouterr().out == view.console.file.getvalue() == ""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the database library that mlflow brings
def test_mlflow_gets_fields_and_metrics_in_a_database_of_its_own(tmp_path, view, monkeypatch):
    """Also in a folder with characters that separate the parts of an address."""
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    from mlflow.tracking import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "a%20b?c#d"
    logger = Logger("mlflow", "tiny", Results(results), view)
    tell(logger, FIRST, {0: 2.0, 3: 1.5}, {"status": "done", "score": 75.0})
    logger.close()

    (results / "logs/mlflow/mlflow.db").rename(tmp_path / "mlflow.db")
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    experiment = client.get_experiment_by_name("tiny")
    (logged_run,) = client.search_runs([experiment.experiment_id])
    assert (logged_run.info.run_name, logged_run.info.status) == (f"{FIRST.label}, seed 0", "FINISHED")
    assert logged_run.data.params["model.latent_steps"] == "1"
    assert logged_run.data.metrics["test_top1_accuracy"] == 75.0
    assert [point.step for point in client.get_metric_history(logged_run.info.run_id, "train_loss")] == [1, 4]
