"""The baselines of 003: sizes, names, what is refused, and that each learns from pixels and from a frozen backbone's grid."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from recstudy.config import RunConfig, configure
from recstudy.data import PhantomCaptions
from recstudy.errors import ConfigError
from recstudy.models import CaptionTransformer, R2Gen, ShowAttendTell, ShowTell
from recstudy.models.costs import cost
from recstudy.models.networks.caption import frozen
from recstudy.tasks.captioning.decode import decode
from recstudy.testing import make_training, tiny_run
from recstudy.train.loop import Training

CPU = torch.device("cpu")
SMALL = {"backbone": "small", "weights": "random", "width": 32}
MODELS = {
    "ST": ShowTell(**SMALL),
    "SAT": ShowAttendTell(**SMALL, attention=16, dropout=0.0),
    "Transformer": CaptionTransformer(**SMALL, heads=2, layers=1, ffn_width=64),
    "R2Gen": R2Gen(**SMALL, heads=2, layers=1, ffn_width=64),
}


def training(model, **train) -> Training:
    settings = {"epochs": 1, "batch_size": 8, "learning_rate": 1e-2, "ema_decay": 0.0} | train
    return make_training(tiny_run(model, PhantomCaptions(limit=40, size=32, length=12), **settings))


@pytest.mark.parametrize(("model", "grid"), [(ShowTell(), None), (ShowAttendTell(), 14), (CaptionTransformer(), 7), (R2Gen(), 7)])
def test_what_they_read(model, grid):
    frozen_one = model.model_copy(update={"tuned": False})

    assert model.input_shape((3, 224, 224)) == (3, 224, 224)
    assert frozen_one.input_shape((3, 224, 224)) == ((grid**2, 2048) if grid else (2048,))


@pytest.mark.parametrize("name", MODELS)
def test_they_are_called_as_in_the_papers_tables(name):
    kind = type(MODELS[name])

    assert kind().title == name
    assert kind(tuned=False).title == f"{name} (ResNet-101)"
    assert MODELS[name].title == f"{name} (small CNN, random, tuned)"


@pytest.mark.parametrize("name", MODELS)
def test_each_learns(name):
    run = training(MODELS[name], epochs=8)

    lines = list(run.epochs())
    (batch, *_) = run._train.plain(4)

    assert lines[-1]["train_loss"] < 0.8 * lines[0]["train_loss"]
    assert ("extra_loss" in lines[0]) == (name == "SAT")
    assert cost(run.config).trained_params == sum(weight.numel() for weight in run.state.network.parameters())
    written = decode(run.state.network.eval(), batch.images, run.data.tokenizer, length=12, steps=1)
    assert (written[:, 0] == run.data.tokenizer.bos).all()
    assert (written > 3).any(1).all()  # each has words


@pytest.mark.parametrize("name", MODELS)
def test_a_frozen_run_reads_cached_features(name):
    model = MODELS[name].model_copy(update={"tuned": False})
    run = training(model)

    images = run.data.train.images[np.sort(run.data.train.rows)[:2]]
    with torch.no_grad():
        fresh = frozen(model)(torch.from_numpy(images).float())
    (batch, *_) = run._train.plain(2)
    (line,) = run.epochs()

    assert batch.images.shape == (2, *model.input_shape((3, 32, 32)))
    torch.testing.assert_close(batch.images, fresh, atol=1e-5, rtol=1e-4)
    assert line["train_loss"] > 0
    files = Path(os.environ["RECSTUDY_CACHE"]).glob(f"features-small{f'-{model.grid}x{model.grid}' if model.grid else ''}-*.npy")
    assert (1000, *batch.images.shape[1:]) in [np.load(file, mmap_mode="r").shape for file in files]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"family": "r2gen", "width": 12, "heads": 8}, "model.width must be a multiple of model.heads, but got 12 and 8"),
        ({"family": "caption_transformer", "heads": 5}, "model.width must be a multiple of model.heads, but got 512 and 5"),
        ({"family": "show_tell", "backbone": "fuselip"}, "model.fuselip goes with model.backbone 'fuselip'"),
        ({"family": "show_attend_tell", "alpha_c": -1}, "'model.alpha_c' must be greater than or equal to 0, but got -1"),
        ({"family": "show_tell", "backbone": "swin_t"}, "data.size must be 224 for model.backbone 'swin_t', but got 64x64"),
        ({"family": "r2gen", "slots": 0}, "'model.slots' must be greater than or equal to 1, but got 0"),
    ],
    ids=lambda value: value["family"] if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_one_clear_line(changes, message):
    with pytest.raises(ConfigError, match=message) as error:
        configure(RunConfig, {"data": {"name": "phantom_captions"}, "model": changes})

    assert "\n" not in str(error.value)


def test_what_is_read_in_place_of_images_is_told_apart():
    """A GPU keeps images by their source for the next run: pixels, pooled features and grids of them have one each."""
    runs = [training(model.model_copy(update={"tuned": tuned})) for model in MODELS.values() for tuned in (False, True)]

    sources = {run._read(run.data.train).source for run in runs}

    assert len(sources) == 4  # pixels, pooled, 14 x 14, 7 x 7
    assert len({source.partition("/")[0] for source in sources}) == 1  # of one data set


def test_flops_of_the_decoders_by_hand():
    """T = 80 tokens, P = 196 places, F = 2,048, D = A = 512, V = 1,000; 2 a multiply-add, the backbone frozen."""
    T, P, F, D, A, V = 80, 196, 2048, 512, 512, 1000
    data = PhantomCaptions(size=224, length=81, vocabulary=1000)
    words = D * A + P * A + P * F + D * F + 4 * D * (2 * D + F) + D * V  # attention, sum over places, gate, LSTM, answer

    sat, st = (cost(RunConfig(data=data, model=kind(tuned=False))).gflops for kind in (ShowAttendTell, ShowTell))

    assert sat == pytest.approx(2 * (P * F * A + F * 2 * D + T * words) / 1e9)
    assert st == pytest.approx(2 * (F * D + (T + 1) * 8 * D**2 + T * D * V) / 1e9)
