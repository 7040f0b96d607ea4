import json

from safetensors.torch import load_file

from recstudy.config import RunConfig, TrainConfig
from recstudy.data import Digits
from recstudy.models import ViTRM
from recstudy.records import RunFolder, read_lines
from recstudy.train.trial import Trial, run_trial

RUN = RunConfig(
    data=Digits(limit=32),
    model=ViTRM(width=8, heads=2, layers=1, patch=4, latent_tokens=2, latent_steps=1),
    train=TrainConfig(epochs=3, batch_size=16, ema_decay=0.9),
)


def trial(tmp_path, **changes) -> Trial:
    config = RUN.with_changes({"place.gpus_per_run": 0, **{name.replace("__", "."): value for name, value in changes.items()}})
    folder = tmp_path / "runs" / config.run_id
    folder.mkdir(parents=True, exist_ok=True)
    values = {**config.values, "place": config.place.model_dump()}
    return Trial("s", "v", values, config.run_id, str(folder), str(tmp_path), False, str(tmp_path), "abc", False)


def test_a_run_leaves_config_epochs_result_and_weights(tmp_path):
    for selection in ("validation", "last"):
        work = trial(tmp_path, train__selection=selection)
        reported = []

        outcome = run_trial(work, reported.append)

        folder = RunFolder(tmp_path / "runs" / work.run_id)
        result = json.loads(folder.result.read_text())
        assert outcome["score"] == result["metrics"]["top1_accuracy"]
        assert [line["epoch"] for line in reported] == [line["epoch"] for line in read_lines(folder.epochs)] == [0, 1, 2]
        assert json.loads(folder.config.read_text())["train"]["selection"] == selection
        assert (result["provenance"]["commit"], result["attempts"]) == ("abc", 1)
        assert load_file(folder.weights).keys() >= {"classify.weight", "z_start"}


def test_a_finished_run_is_not_run_again(tmp_path):
    work = trial(tmp_path)
    run_trial(work, lambda line: None)
    before = (tmp_path / "runs" / work.run_id / "result.json").read_text()

    assert run_trial(work, lambda line: 1 / 0) == {"status": "done"}
    assert (tmp_path / "runs" / work.run_id / "result.json").read_text() == before


def test_a_loss_that_is_not_finite_is_a_result_not_a_failure(tmp_path):
    work = trial(tmp_path, train__learning_rate=1e30)

    outcome = run_trial(work, lambda line: None)

    folder = RunFolder(tmp_path / "runs" / work.run_id)
    assert outcome["status"] == "diverged"
    assert json.loads(folder.result.read_text())["metrics"] == {}
    assert not folder.weights.exists()


def test_what_it_cost_counts_the_steps_that_were_made(tmp_path):
    """29 training images, 2 batches, 2 supervision steps, 3 epochs."""
    work = trial(tmp_path, train__supervision_steps=2, train__halt_threshold=1)
    run_trial(work, lambda line: None)

    cost = json.loads((tmp_path / "runs" / work.run_id / "result.json").read_text())["cost"]

    assert cost["supervision_steps_used"] == 2
    assert cost["train_pflop"] == 29 * 3 * cost["train_gflops"] / 1e6
