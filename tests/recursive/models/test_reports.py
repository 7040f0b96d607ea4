"""The baselines of 003: each learns from pixels and from a frozen backbone's grid; names, and FLOPs by
hand.
"""

import numpy as np
import pytest
import torch

from recstudy.recursive import CaptionTransformer, PhantomCaptions, R2Gen, RunConfig, ShowAttendTell, ShowTell
from recstudy.recursive.contract.checks import training_of
from recstudy.recursive.models.costs import cost
from recstudy.recursive.models.networks.caption import frozen
from recstudy.recursive.testing import tiny_run

SMALL = {"backbone": "small", "weights": "random", "width": 32}
MODELS = {
    "ST": ShowTell(**SMALL),
    "SAT": ShowAttendTell(**SMALL, attention=16, dropout=0.0),
    "Transformer": CaptionTransformer(**SMALL, heads=2, layers=1, ffn_width=64),
    "R2Gen": R2Gen(**SMALL, heads=2, layers=1, ffn_width=64),
}


@pytest.mark.parametrize(("name", "grid"), [("ST", None), ("SAT", 14), ("Transformer", 7), ("R2Gen", 7)])
def test_a_frozen_run_reads_cached_features(name, grid):
    """Pooled, or a grid of places; a tuned one reads pixels. A GPU tells them apart by their source."""
    model, data = (
        MODELS[name].model_copy(update={"tuned": False}),
        PhantomCaptions(limit=40, size=32, length=12),
    )
    run = training_of(tiny_run(model, data, epochs=1, batch_size=8, learning_rate=1e-2, ema_decay=0.0))
    with torch.no_grad():
        fresh = frozen(model)(
            torch.from_numpy(run.data.train.images[np.sort(run.data.train.rows)[:2]]).float()
        )
    (batch, *_) = run._train.evaluation_batches(2)
    (line,) = run.epochs()

    assert model.input_shape((3, 32, 32)) == ((grid**2, 64) if grid else (256,)) == batch.images.shape[1:]
    assert MODELS[name].input_shape((3, 32, 32)) == (3, 32, 32)
    torch.testing.assert_close(batch.images, fresh, atol=1e-5, rtol=1e-4)
    assert line["train_loss"] > 0
    assert (type(model)().title, MODELS[name].title) == (name, f"{name} (small CNN, random, tuned)")
    assert f"small{f'-{grid}x{grid}' if grid else '-random'}" in run._read(run.data.train).source


def test_flops_of_the_decoders_by_hand():
    """T = 6 tokens, P = 196 places, F = 2,048, D = A = 512, V = 1,000; 2 a multiply-add, the backbone
    frozen.
    """
    T, P, F, D, A, V = 6, 196, 2048, 512, 512, 1000
    data = PhantomCaptions(size=224, length=7, vocabulary=1000)
    # attention, sum over places, gate, LSTM, answer
    words = D * A + P * A + P * F + D * F + 4 * D * (2 * D + F) + D * V

    sat, st = (
        cost(RunConfig(data=data, model=kind(tuned=False))).gflops for kind in (ShowAttendTell, ShowTell)
    )

    assert sat == pytest.approx(2 * (P * F * A + F * 2 * D + T * words) / 1e9)
    assert st == pytest.approx(2 * (F * D + (T + 1) * 8 * D**2 + T * D * V) / 1e9)
