"""Short trainings on real images beat chance by a stated margin: MNIST (10 %), and chest X-rays (an AUROC of
50 %).
"""

import os
from pathlib import Path

import pytest

from recstudy.recursive import (
    HRM,
    TRM,
    ChestXray14,
    DataConfig,
    HRMImage,
    Mnist,
    ModelConfig,
    RunConfig,
    TrainConfig,
)
from recstudy.recursive.testing import trained

pytestmark = pytest.mark.whole

DATA = Path(os.environ.get("RECSTUDY_DATA", "data"))
TRAIN = TrainConfig(
    epochs=4, batch_size=16, supervision_steps=2, evaluation_steps=2, halt_threshold=1.0, halt_weight=0.5, learning_rate=1e-3,
    warmup=0.1, beta2=0.95, gradient_clip=1.0, ema_decay=0.0,
)  # fmt: skip
SMALL = {"width": 64, "heads": 4}
has_mnist = pytest.mark.skipif(not (DATA / "MNIST").exists(), reason="MNIST is not below RECSTUDY_DATA")
has_xrays = pytest.mark.skipif(
    not (DATA / "nih_cxr64").exists(), reason="nih_cxr64 is not below RECSTUDY_DATA"
)


def metrics(model: ModelConfig, data: DataConfig, **train: object) -> dict[str, float]:
    return trained(RunConfig(data=data, model=model, train=TRAIN.model_copy(update=train)), DATA).finish()[
        "metrics"
    ]


@has_mnist
def test_hrm_for_small_images_reads_mnist():
    """68.7 % seen, after 4 epochs of 900 images."""
    model = HRMImage(**SMALL, low_layers=1, high_layers=1, patch=7)

    assert metrics(model, Mnist(limit=1000))["top1_accuracy"] > 50


@has_mnist
def test_trm_reads_mnist_with_samples_that_halt_by_themselves():
    """48 % seen: half as many samples as steps."""
    model = TRM(**SMALL, tokens="patch", patch=7, vocabulary=16, prefix=1, cycles=1, latent_steps=1)

    assert metrics(model, Mnist(limit=1000), halting="sample", epochs=6)["top1_accuracy"] > 30


@has_xrays
def test_hrm_reads_real_chest_x_rays():
    """Seen: a mean AUROC of 66 % in halves, effusion 70 %; 200 test images of other patients."""
    model = HRM(
        **SMALL, high_layers=1, low_layers=1, tokens="patch", patch=8, head="multilabel", halves="carry"
    )

    scores = metrics(model, ChestXray14(size=32), epochs=10)

    # a mean over 14, some of one positive image: other sums in another order gave less
    assert scores["auroc"] > 52
    assert scores["auroc.Effusion"] > 60
