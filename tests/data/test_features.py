import numpy as np
import pytest
import torch

from recstudy.data.cache import Split
from recstudy.errors import DataError
from recstudy.models import CaptionTransformer, ImageLSTM
from recstudy.models.networks.caption import BackboneNetwork, frozen
from recstudy.tasks.captioning.encoders import features

CPU = torch.device("cpu")
IMAGES = np.random.default_rng(0).integers(0, 256, (70, 3, 32, 32), np.uint8)  # one whole batch and a short one


class Counted(torch.nn.Module):
    """A backbone that tells how many images it has seen."""

    def __init__(self, backbone: torch.nn.Module) -> None:
        super().__init__()
        self.backbone, self.seen = backbone, 0

    def forward(self, images):
        self.seen += len(images)
        return self.backbone(images)


def split_of(source: str, images=IMAGES) -> Split:
    return Split(images, np.zeros(len(images), np.int64), np.arange(5), source)


def backbone() -> Counted:
    return Counted(frozen(ImageLSTM(backbone="small", weights="random")))


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_cached_features_equal_fresh_ones():
    """Of all images of the official split, whatever the rows; the second time no image is looked at."""
    network = backbone()
    first = features(split_of("a/train"), network, "small", CPU)
    again = features(split_of("a/train"), network, "small", CPU)
    with torch.no_grad():
        fresh = torch.cat([network.backbone(torch.from_numpy(part).float()) for part in (IMAGES[:64], IMAGES[64:])])

    assert network.seen == 70
    assert first.shape == (70, 256)
    assert first.dtype == np.float32
    assert np.array_equal(first, again)
    assert np.array_equal(first, fresh.numpy())


def test_another_split_or_other_weights_are_computed_anew():
    network = backbone()
    features(split_of("a/train"), network, "small", CPU)
    features(split_of("a/test", IMAGES[:3]), network, "small", CPU)
    features(split_of("b/train"), network, "small", CPU)
    assert network.seen == 70 + 3 + 70

    torch.manual_seed(1)
    other = Counted(BackboneNetwork("small", "random").eval())
    features(split_of("a/train"), other, "small", CPU)
    assert other.seen == 70


def test_a_grid_is_another_file(own_cache):
    """The weights are the same; the pooled features and each grid of them stand apart."""
    model = CaptionTransformer(backbone="small", weights="random", tuned=False)
    grid = features(split_of("a/train"), frozen(model), "small-7x7", CPU)
    pooled = features(split_of("a/train"), backbone().backbone, "small", CPU)
    with torch.no_grad():
        fresh = frozen(model)(torch.from_numpy(IMAGES[:64]).float())

    assert (grid.shape, pooled.shape) == ((70, 49, 64), (70, 256))
    assert np.array_equal(grid[:64], fresh.numpy())
    assert len(list(own_cache.glob("features-small*.npy"))) == 2


def test_each_batch_is_reported():
    """A watchdog takes it for a sign of life."""
    signs = []
    features(split_of("a/train"), backbone(), "small", CPU, lambda: signs.append(1))

    assert len(signs) == 2


@pytest.mark.parametrize("damage", [lambda content: content[:1000], lambda content: b"", lambda content: content[:-9] + bytes(9)])
def test_a_damaged_file_is_computed_again(own_cache, damage):
    network = backbone()
    whole = np.array(features(split_of("a/train"), network, "small", CPU))
    (file,) = own_cache.glob("features-*.npy")
    content = file.read_bytes()
    file.unlink()  # `whole` still maps the old one
    file.write_bytes(damage(content))

    assert np.array_equal(features(split_of("a/train"), network, "small", CPU), whole)
    assert network.seen == 140


def test_training_may_not_write_into_the_cache():
    """Its maps are copy-on-write."""
    network = backbone()
    features(split_of("a/train"), network, "small", CPU)[:] = 0

    assert features(split_of("a/train"), network, "small", CPU).any()


def test_a_folder_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "file"))

    with pytest.raises(DataError, match="Set RECSTUDY_CACHE to a folder that can be written"):
        features(split_of("a/train"), backbone(), "small", CPU)
