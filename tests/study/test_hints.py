from recstudy.config import RunConfig, TrainConfig
from recstudy.data import Digits
from recstudy.models import ViTRM
from recstudy.study.dry_run import hints, optimiser_steps

RUN = RunConfig(data=Digits(), model=ViTRM(patch=2), train=TrainConfig(epochs=2, batch_size=64, ema_decay=0.999))


def test_optimiser_steps_by_hand():
    """1,437 - 144 = 1,293 images: 21 batches of 64 an epoch."""
    assert optimiser_steps(RUN) == 42
    assert optimiser_steps(RUN.with_changes({"train.supervision_steps": 3})) == 126
    assert optimiser_steps(RUN.with_changes({"train.supervision_steps": 3, "train.detach_carry": False})) == 42
    assert optimiser_steps(RUN.with_changes({"train.selection": "last", "data.limit": 100})) == 4


def test_an_average_longer_than_the_run_is_said_once():
    (line,) = hints([RUN, RUN])

    assert line.startswith("Note: the moving average of the weights spans 1,000 steps, but a run makes 42.")
    assert list(hints([RUN.with_changes({"train.ema_decay": 0.9}), RUN.with_changes({"train.epochs": 100})])) == []
