from dataclasses import replace

import numpy as np
import pytest
import torch

from recstudy.recursive import Augment, Digits
from recstudy.recursive.data import batches
from recstudy.recursive.data.batches import Batches
from recstudy.recursive.data.cache import Split, load

CPU, META = torch.device("cpu"), torch.device("meta")
ALL_AUGMENTATIONS = Augment(crop=1, flip=True, randaugment_ops=2, mixup=0.2, cutmix=1.0)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECSTUDY_CACHE", str(tmp_path_factory.mktemp("cache")))
        return load(Digits(limit=500), tmp_path_factory.mktemp("data"))


def numbered(count):
    """`count` images of 1x1 whose value and label are their number; every second row, from 1 on, belongs to
    the split.
    """
    images = np.arange(2 * count, dtype=np.uint8).reshape(-1, 1, 1, 1)
    return Split(images, np.arange(2 * count), np.arange(1, 2 * count, 2), "numbered/train")


def make(split, batch_size=4, augment=None, seed=0, **place):
    """Batches that are not standardised: mean 0 and deviation 1/255."""
    classes = int(split.labels.max()) + 1
    channels = split.images.shape[1]
    return Batches(
        split,
        (0.0,) * channels,
        (1 / 255,) * channels,
        classes,
        batch_size,
        augment or Augment(),
        seed,
        CPU,
        Digits(),
        **place,
    )


def equal_batches(batches_a, batches_b):
    """Whether two lists of batches are the same, bit by bit."""
    pairs = zip(batches_a, batches_b, strict=True)
    return all(
        torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y
        for a, b in pairs
        for x, y in zip(a, b, strict=True)
    )


def test_epoch_holds_each_image_of_the_split_once_and_plain_keeps_the_order():
    epoch_batches, plain_batches = (
        list(make(numbered(10)).epoch(0)),
        list(make(numbered(5), augment=ALL_AUGMENTATIONS).evaluation_batches(batch_size=3)),
    )
    labels = torch.cat([batch.labels for batch in epoch_batches])

    assert [(len(batch.images), batch.total, batch.targets, batch.context) for batch in epoch_batches] == [
        (n, n, None, None) for n in (4, 4, 2)
    ]
    assert sorted(labels.tolist()) == list(range(1, 20, 2)) != labels.tolist()
    assert torch.equal(torch.cat([batch.images for batch in epoch_batches]).flatten(), labels.float())
    assert [batch.labels.tolist() for batch in plain_batches] == [[1, 3, 5], [7, 9]]
    assert torch.cat([batch.images for batch in plain_batches]).flatten().tolist() == [1, 3, 5, 7, 9]
    empty = make(replace(numbered(4), rows=np.arange(0)))
    assert (len(empty), list(empty.epoch(0)), list(empty.evaluation_batches(4))) == (0, [], [])


def test_images_are_standardised_per_channel():
    """(value / 255 - mean) / deviation by hand: (1 - 0.5) / 0.25 = 2 in channel one, (0.4 - 0.2) / 0.1 = 2 in
    channel two. A constant channel, of deviation 0, becomes 0."""
    images = np.array([255, 102, 51], np.uint8).reshape(1, 3, 1, 1)
    split = Split(images, np.zeros(1, np.int64), np.arange(1), "hand/train")
    (batch,) = Batches(
        split, (0.5, 0.2, 0.2), (0.25, 0.1, 0.0), 2, 1, Augment(), 0, CPU, Digits()
    ).evaluation_batches(1)

    assert batch.images.flatten().tolist() == pytest.approx([2.0, 2.0, 0.0], abs=1e-6)


def test_patients_and_several_labels_follow_their_images():
    """Patients of two images, two labels an image."""
    split = numbered(10)
    labels = np.stack([split.labels, split.labels * 0 - 1], 1)
    worker_batches = make(
        replace(split, labels=labels, groups=split.labels // 2), batch_size=6, rank=1, world=3
    )
    for batch in [*worker_batches.epoch(0), *worker_batches.evaluation_batches(6)]:
        values = batch.images.flatten().long()
        assert batch.labels.tolist() == [[value, -1] for value in values.tolist()]
        assert torch.equal(batch.context, values // 2)


@pytest.mark.parametrize("augment", [Augment(), ALL_AUGMENTATIONS])
def test_epoch_can_be_made_again_and_epochs_and_seeds_differ(digits, augment):
    first, repeated = make(digits.train, 32, augment), make(digits.train, 32, augment)
    list(repeated.epoch(4))
    epoch = list(first.epoch(5))

    assert equal_batches(epoch, list(repeated.epoch(5)))
    assert not equal_batches(epoch, list(repeated.epoch(6)))
    assert not equal_batches(epoch, list(make(digits.train, 32, augment, seed=1).epoch(5)))


def test_chunks_draw_independently(digits, monkeypatch):
    """The same image in two chunks of one epoch is augmented differently."""
    monkeypatch.setattr(batches, "CHUNK_IMAGES", 32)
    same_split = Split(digits.train.images, digits.train.labels, np.full(64, 7), "same/train")
    first, second = make(same_split, 32, Augment(crop=2, randaugment_ops=2)).epoch(0)
    assert not torch.equal(first.images, second.images)


@pytest.mark.parametrize("augment", [Augment(), ALL_AUGMENTATIONS])
def test_shares_of_the_workers_make_up_what_one_sees(digits, augment):
    single_worker = list(make(digits.train, 48, augment).epoch(3))
    shares = [list(make(digits.train, 48, augment, rank=rank, world=3).epoch(3)) for rank in range(3)]

    for whole_batch, *parts in zip(single_worker, *shares, strict=True):
        for name in ("images", "labels", *(["targets"] if augment.mixup else [])):
            assert torch.equal(torch.cat([getattr(part, name) for part in parts]), getattr(whole_batch, name))
        assert {part.total for part in parts} == {whole_batch.total} == {len(whole_batch.images)}


@pytest.mark.parametrize(
    ("count", "world", "expected"), [(10, 2, 3), (10, 3, 2), (9, 2, 2), (8, 4, 2), (3, 4, 0)]
)
def test_last_batch_goes_where_a_worker_would_get_none(count, world, expected):
    batches_of_worker = make(numbered(count), world=world)
    assert len(batches_of_worker) == len(list(batches_of_worker.epoch(0))) == expected


def test_images_that_would_fill_a_gpu_come_chunk_by_chunk(digits, monkeypatch):
    """Features of a grid of places of all images may be larger than any GPU: 196 x 2,048 of 69,862 are 112
    GB.
    """
    monkeypatch.setattr(batches, "_ON_GPU", {})
    monkeypatch.setattr(batches, "SHARE", 0.0)
    gpu_batches = Batches(digits.train, digits.mean, digits.std, 10, 32, Augment(), 0, META, Digits())
    images = next(gpu_batches.epoch(0)).images

    # the memory map
    assert (
        gpu_batches.images.data_ptr()
        == make(digits.train).images.data_ptr()
        == digits.train.images.ctypes.data
    )
    assert gpu_batches.labels.device == images.device == META
    assert images.dtype == torch.float32


def test_gpu_gets_the_images_of_a_data_set_once(digits, monkeypatch):
    """On `meta` in a GPU's place: a second run finds the copy, validation shares it, what the next run reads
    replaces it.
    """
    monkeypatch.setattr(batches, "_ON_GPU", {})
    first, repeated = (batches._resident(split, META)[0] for split in (digits.train, digits.validation))
    assert first is repeated

    for reading in ("resnet101-14x14-random", "resnet18-random"):
        read = [replace(split, source=f"{split.source}/{reading}") for split in (digits.train, digits.test)]
        for split in read:
            batches._resident(split, META)
    assert list(batches._ON_GPU) == [(split.source, META) for split in read]
    batches._resident(numbered(3), META)
    assert list(batches._ON_GPU) == [("numbered/train", META)]
