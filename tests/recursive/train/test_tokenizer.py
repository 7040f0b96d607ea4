import pytest
import torch

from recstudy.base.errors import DataError
from recstudy.recursive.models.fuselip import SMOKE
from recstudy.recursive.models.networks.vq import VQNetwork, unit
from recstudy.recursive.tasks.captioning.tokenizer import psnr, quality, train_tokenizer

CPU = torch.device("cpu")
SMALL = SMOKE.model_copy(update={"size": 16, "codes": 8, "codebook": 64})


def discs(count: int, size: int = 16) -> torch.Tensor:
    """A disc of one colour on a ground of another, (N, 3, size, size) of 8 bits."""
    draw = torch.Generator().manual_seed(0)
    places = torch.arange(size, dtype=torch.float32)
    x, y, radius = (size * torch.rand(3, count, 1, 1, generator=draw)).unbind(0)
    inside = (places - x) ** 2 + (places[:, None] - y) ** 2 < (radius / 4) ** 2
    disc, ground = torch.rand(2, count, 3, 1, 1, generator=draw)
    return (255 * torch.where(inside[:, None], disc, ground)).to(torch.uint8)


@pytest.mark.whole
def test_training_draws_images_better_than_their_mean():
    """By 5 dB at least on images held out, in 10 seconds; measured 9.0 dB. An untrained one is worse than the
    mean.
    """
    images = discs(256)
    shares = images.float() / 255

    _, facts = train_tokenizer(images, SMALL, 60, 0, CPU)
    _, untrained_facts = train_tokenizer(images, SMALL, 0, 0, CPU)

    mean = psnr(shares.mean(0, keepdim=True).expand_as(shares), shares)
    assert untrained_facts["psnr"] < mean < facts["psnr"] - 5
    assert facts["used_percent"] > 50
    assert (facts["images"], facts["epochs"], facts["seed"]) == (230, 60, 0)


def test_quality_is_that_of_all_images():
    """200, in batches of 32."""
    images, network = discs(200), VQNetwork(SMALL.model_copy(update={"width": 16, "layers": 1}))

    facts = quality(network, images)

    with torch.no_grad():
        reconstruction, codes = network(unit(images))
    assert facts["psnr"] == pytest.approx(psnr(reconstruction, unit(images)), abs=1e-4)
    assert facts["used_percent"] == 100 * len(codes.ids.unique()) / SMALL.codebook


def test_the_seed_decides_everything():
    weights = [train_tokenizer(discs(40), SMALL, 1, seed, CPU)[0].state_dict() for seed in (3, 3, 4)]
    name = "tokenizer.quantiser.codebook"

    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    assert not torch.equal(weights[0][name], weights[2][name])


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (discs(4, 8), "standin-vq needs 8-bit images of 3x16x16, but got torch.uint8 of 3x8x8"),
        (discs(1), "needs at least 2 images, of which one is held out, but got 1"),
    ],
)
def test_images_that_cannot_be_learned_from_are_refused(images, message):
    with pytest.raises(DataError, match=message):
        train_tokenizer(images, SMALL, 1, 0, CPU)
