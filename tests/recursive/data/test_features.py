import numpy as np
import pytest
import torch

from recstudy.recursive import CaptionTransformer, ImageLSTM
from recstudy.recursive.data import cache as data_cache
from recstudy.recursive.data.cache import Split
from recstudy.recursive.models.networks.caption import frozen
from recstudy.recursive.tasks.captioning.encoders import features

CPU = torch.device("cpu")
# one whole batch and a short one
IMAGES = np.random.default_rng(0).integers(0, 256, (70, 3, 32, 32), np.uint8)


def split_of(source, images=IMAGES):
    return Split(images, np.zeros(len(images), np.int64), np.arange(5), source)


def network(kind=ImageLSTM, **fields):
    """A backbone, and how many images it has seen, batch by batch."""
    backbone, batch_sizes = frozen(kind(backbone="small", weights="random", **fields)), []
    backbone.register_forward_hook(lambda layer, inputs, output: batch_sizes.append(len(inputs[0])))
    return backbone, batch_sizes


def test_cached_features_equal_fresh_ones(monkeypatch):
    """Of all images of the official split, whatever the rows; the second time no image is looked at. Each
    batch is reported, which a watchdog takes for a sign of life; training may not write into the cache."""
    (backbone, batch_sizes), signs = network(), []
    monkeypatch.setattr(data_cache, "heartbeat", lambda: signs.append(1))
    first = features(split_of("a/train"), backbone, "small", CPU)
    with torch.no_grad():
        fresh = torch.cat([backbone(torch.from_numpy(part).float()) for part in (IMAGES[:64], IMAGES[64:])])
    assert (first.shape, first.dtype, len(signs)) == ((70, 256), np.float32, 2)
    assert np.array_equal(first, fresh.numpy())

    first[:] = 0
    assert np.array_equal(features(split_of("a/train"), backbone, "small", CPU), fresh.numpy())
    assert batch_sizes == [64, 6] * 2


def test_features_of_another_split_or_other_weights_are_computed_again():
    backbone, batch_sizes = network()
    for source, images in (("a/train", IMAGES), ("a/test", IMAGES[:3]), ("b/train", IMAGES)):
        features(split_of(source, images), backbone, "small", CPU)
    for weight in backbone.parameters():
        weight.data += 1
    features(split_of("a/train"), backbone, "small", CPU)

    assert batch_sizes == [64, 6, 3, 64, 6, 64, 6]


def test_a_grid_is_another_file(cache):
    """The weights are the same; the pooled features and each grid of them stand apart."""
    backbone, _ = network(CaptionTransformer, tuned=False)
    grid = features(split_of("a/train"), backbone, "small-7x7", CPU)
    pooled = features(split_of("a/train"), network()[0], "small", CPU)

    assert (grid.shape, pooled.shape) == ((70, 49, 64), (70, 256))
    assert len(list(cache.glob("features-small*.npy"))) == 2


@pytest.mark.parametrize("damage", [lambda content: content[:1000], lambda content: content[:-9] + bytes(9)])
def test_a_damaged_file_is_computed_again(cache, damage):
    backbone, batch_sizes = network()
    expected = np.array(features(split_of("a/train"), backbone, "small", CPU))
    (file,) = cache.glob("features-*.npy")
    content = file.read_bytes()
    file.unlink()  # `whole` still maps the old one
    file.write_bytes(damage(content))

    assert np.array_equal(features(split_of("a/train"), backbone, "small", CPU), expected)
    assert len(batch_sizes) == 4
