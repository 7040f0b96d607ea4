from dataclasses import replace

import numpy as np
import pytest
import torch

from recstudy.config import Augment
from recstudy.data import Digits, batches
from recstudy.data.batches import Batches
from recstudy.data.cache import DataSet, Split, load

CPU = torch.device("cpu")
EVERYTHING = Augment(crop=1, flip=True, randaugment_ops=2, mixup=0.2, cutmix=1.0)


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> DataSet:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECSTUDY_CACHE", str(tmp_path_factory.mktemp("cache")))
        return load(Digits(limit=500), tmp_path_factory.mktemp("data"))


def numbered(count: int) -> Split:
    """`count` images of 1x1 whose value and label are their number; every second row, from 1 on, belongs to the split."""
    images = np.arange(2 * count, dtype=np.uint8).reshape(-1, 1, 1, 1)
    return Split(images, np.arange(2 * count), np.arange(1, 2 * count, 2), "numbered/train")


def make(split: Split, batch_size: int = 4, augment: Augment | None = None, seed: int = 0, **place) -> Batches:
    """Batches that are not standardised: mean 0 and deviation 1/255."""
    classes = int(split.labels.max()) + 1
    channels = split.images.shape[1]
    return Batches(split, (0.0,) * channels, (1 / 255,) * channels, classes, batch_size, augment or Augment(), seed, CPU, **place)


def equal(one: list, other: list) -> bool:
    """Whether two lists of batches are the same, bit by bit."""
    pairs = zip(one, other, strict=True)
    return all(torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y for a, b in pairs for x, y in zip(a, b, strict=True))


def test_epoch_holds_each_image_of_the_split_once():
    made = list(make(numbered(10)).epoch(0))

    assert [len(batch.images) for batch in made] == [4, 4, 2]
    assert [batch.total for batch in made] == [4, 4, 2]
    labels = torch.cat([batch.labels for batch in made])
    assert sorted(labels.tolist()) == list(range(1, 20, 2))
    assert torch.cat([batch.images for batch in made]).flatten().tolist() == pytest.approx(labels.tolist())
    assert all(batch.targets is None for batch in made)


def test_plain_keeps_the_order_and_the_pixels():
    made = list(make(numbered(5), augment=EVERYTHING).plain(batch_size=3))

    assert [batch.labels.tolist() for batch in made] == [[1, 3, 5], [7, 9]]
    assert torch.cat([batch.images for batch in made]).flatten().tolist() == pytest.approx([1, 3, 5, 7, 9])


def test_images_are_standardised_per_channel():
    """(value / 255 - mean) / deviation by hand: (1 - 0.5) / 0.25 = 2 in channel one, (0.4 - 0.2) / 0.1 = 2 in channel two."""
    images = np.array([255, 102], np.uint8).reshape(1, 2, 1, 1)
    split = Split(images, np.zeros(1, np.int64), np.arange(1), "hand/train")
    (batch,) = Batches(split, (0.5, 0.2), (0.25, 0.1), 2, 1, Augment(), 0, CPU).plain()

    assert batch.images.flatten().tolist() == pytest.approx([2.0, 2.0])


def test_training_images_have_mean_0_and_deviation_1(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path))
    data = load(Digits(), tmp_path, hold_out=False)
    (batch,) = Batches(data.train, data.mean, data.std, 10, 64, Augment(), 0, CPU).plain()

    assert batch.images.mean().item() == pytest.approx(0, abs=1e-5)
    assert batch.images.std(correction=0).item() == pytest.approx(1, abs=1e-5)


def test_mean_0_and_deviation_1_in_255_give_the_256_grey_levels_exactly():
    levels = np.arange(256, dtype=np.uint8).repeat(3).reshape(256, 3, 1, 1)
    split = Split(levels, np.zeros(256, np.int64), np.arange(256), "levels/train")
    (batch,) = Batches(split, (0.0,) * 3, (1 / 255,) * 3, 1, 2, Augment(), 0, CPU).plain()

    assert torch.equal(batch.images, torch.arange(256, dtype=torch.float32).view(256, 1, 1, 1).expand(256, 3, 1, 1))


def with_patients(count: int) -> Split:
    """As `numbered`, in patients of two images, with three labels an image."""
    split = numbered(count)
    return replace(split, labels=np.stack([split.labels, split.labels * 0 - 1, split.labels * 0], 1), groups=split.labels // 2)


@pytest.mark.parametrize("world", [1, 3])
def test_patients_and_several_labels_follow_their_images(world):
    for rank in range(world):
        made = make(with_patients(10), batch_size=6, rank=rank, world=world)
        for batch in [*made.epoch(0), *made.plain()]:
            values = batch.images.flatten().long()
            assert batch.labels.tolist() == [[value, -1, 0] for value in values.tolist()]
            assert torch.equal(batch.told, values // 2)
            assert (batch.told.dtype, batch.targets) == (torch.int64, None)


def test_sets_without_patients_have_no_groups(digits):
    assert {batch.told for batch in [*make(digits.train).epoch(0), *make(digits.train).plain()]} == {None}


def test_constant_channel_becomes_zero():
    split = Split(np.full((2, 1, 1, 1), 51, np.uint8), np.arange(2), np.arange(2), "constant/train")
    (batch,) = Batches(split, (0.2,), (0.0,), 2, 2, Augment(), 0, CPU).plain()
    assert batch.images.flatten().tolist() == pytest.approx([0, 0], abs=1e-6)


@pytest.mark.parametrize("augment", [Augment(), EVERYTHING])
def test_epoch_can_be_made_again(digits, augment):
    first, again = make(digits.train, 32, augment), make(digits.train, 32, augment)
    list(again.epoch(4))

    assert equal(list(first.epoch(5)), list(again.epoch(5)))


@pytest.mark.parametrize("augment", [Augment(), EVERYTHING])
def test_epochs_and_seeds_differ(digits, augment):
    one = list(make(digits.train, 32, augment).epoch(0))
    assert not equal(one, list(make(digits.train, 32, augment).epoch(1)))
    assert not equal(one, list(make(digits.train, 32, augment, seed=1).epoch(0)))


def test_chunks_draw_independently(digits, monkeypatch):
    """The same image in two chunks of one epoch is augmented differently."""
    monkeypatch.setattr(batches, "CHUNK_IMAGES", 32)
    same = Split(digits.train.images, digits.train.labels, np.full(64, 7), "same/train")
    first, second = make(same, 32, Augment(crop=2, randaugment_ops=2)).epoch(0)
    assert not torch.equal(first.images, second.images)


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("augment", [Augment(), EVERYTHING])
def test_shares_of_the_workers_make_up_what_one_sees(digits, augment, world):
    alone = list(make(digits.train, 48, augment).epoch(3))
    shares = [list(make(digits.train, 48, augment, rank=rank, world=world).epoch(3)) for rank in range(world)]

    for whole, *parts in zip(alone, *shares, strict=True):
        assert torch.equal(torch.cat([part.images for part in parts]), whole.images)
        assert torch.equal(torch.cat([part.labels for part in parts]), whole.labels)
        assert {part.total for part in parts} == {whole.total} == {len(whole.images)}
        if whole.targets is not None:
            assert torch.equal(torch.cat([part.targets for part in parts]), whole.targets)


def test_plain_is_shared_too(digits):
    (alone,) = make(digits.test).plain()
    parts = [batch for rank in range(3) for batch in make(digits.test, rank=rank, world=3).plain()]

    assert torch.equal(torch.cat([part.images for part in parts]), alone.images)
    assert sum(len(part.labels) for part in parts) == parts[0].total == len(digits.test)


@pytest.mark.parametrize(("count", "world", "expected"), [(10, 2, 3), (10, 3, 2), (9, 2, 2), (8, 4, 2), (3, 4, 0)])
def test_last_batch_goes_where_a_worker_would_get_none(count, world, expected):
    made = make(numbered(count), world=world)
    assert len(made) == len(list(made.epoch(0))) == expected


def test_empty_split_has_no_batches():
    made = make(replace(numbered(4), rows=np.arange(0)))
    assert (len(made), list(made.epoch(0)), list(made.plain())) == (0, [], [])


def test_mixed_batches_keep_the_labels(digits):
    for batch in make(digits.train, 64, Augment(mixup=1.0)).epoch(0):
        assert batch.targets.shape == (len(batch.labels), 10)
        assert batch.targets.gather(1, batch.labels[:, None]).min() > 0


def test_chunk_is_whole_batches_and_small_for_large_images(monkeypatch):
    made = make(numbered(10), batch_size=300)
    assert made._chunk(300) == 1800
    assert made._chunk(5000) == 5000
    monkeypatch.setattr(batches, "CHUNK_BYTES", 650)  # images of one byte
    assert made._chunk(300) == 600


def test_cpu_images_are_the_memory_map_itself(digits):
    made = make(digits.train)
    assert made.images.data_ptr() == digits.train.images.ctypes.data


def test_gpu_keeps_what_the_last_run_read_and_no_other_features_of_the_same_images(digits, monkeypatch):
    monkeypatch.setattr(batches, "_ON_GPU", {})
    meta = torch.device("meta")
    for split in (digits.train, digits.test):
        batches._resident(split, meta)
    for reading in ("resnet101-14x14-random", "resnet18-random"):
        read = [replace(split, source=f"{split.source}/{reading}") for split in (digits.train, digits.test)]
        for split in read:
            batches._resident(split, meta)

    assert list(batches._ON_GPU) == [(split.source, meta) for split in read]


def test_images_that_would_fill_a_gpu_come_chunk_by_chunk(digits, monkeypatch):
    """Features of a grid of places of all images may be larger than any GPU: 196 x 2,048 of 69,862 are 112 GB."""
    monkeypatch.setattr(batches, "_ON_GPU", {})
    monkeypatch.setattr(batches, "SHARE", 0.0)
    meta = torch.device("meta")
    there = Batches(digits.train, digits.mean, digits.std, 10, 32, Augment(), 0, meta)
    batch, on_cpu = next(there.epoch(0)), next(make(digits.train, 32).epoch(0))

    assert (there.images.device.type, there.labels.device.type) == ("cpu", "meta")
    assert there.images.data_ptr() == digits.train.images.ctypes.data
    assert (batch.images.device.type, batch.images.shape, batch.images.dtype) == ("meta", on_cpu.images.shape, torch.float32)


def test_gpu_gets_the_images_of_a_data_set_once(digits, monkeypatch):
    """On `meta` in a GPU's place: a second run finds the copy, validation shares it, another data set replaces it."""
    monkeypatch.setattr(batches, "_ON_GPU", {})
    meta = torch.device("meta")
    first, again = (batches._resident(split, meta)[0] for split in (digits.train, digits.validation))
    batches._resident(digits.test, meta)

    assert first is again
    assert len(batches._ON_GPU) == 2
    batches._resident(numbered(3), meta)
    assert list(batches._ON_GPU) == [("numbered/train", meta)]
