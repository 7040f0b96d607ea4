import json
import os
import pickle
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from processes import run_python

from recstudy.base.errors import DataError
from recstudy.recursive import Cifar10, Cifar100, Digits, ImageFolder
from recstudy.recursive.config.reader import Arrays
from recstudy.recursive.data import cache as cache_module
from recstudy.recursive.data.cache import load
from recstudy.recursive.data.reading import read_data
from recstudy.recursive.data.small_images import CIFAR10_MOMENTS, OFFICIAL, TorchvisionReader


@pytest.fixture
def shades(tmp_path):
    """SHADES/{train,test}/{dark,light}: 20 + 20 images of 4x4 and one value each; the training mean is
    127.5.
    """
    for part in ("train", "test"):
        for kind, value in (("dark", 0), ("light", 255)):
            folder = tmp_path / "data/shades" / part / kind
            folder.mkdir(parents=True)
            for number in range(20):
                Image.new("L", (4, 4), value).save(folder / f"{number:02}.png")
    return tmp_path / "data"


def shades_config(**fields) -> ImageFolder:
    return ImageFolder(path="shades", class_count=2, size=4, channels=1, **fields)


def count_reads(monkeypatch) -> list[str]:
    reads = []

    def counted(reader, folder):
        reads.append(reader.config.name)
        return read_data(reader, folder)

    monkeypatch.setattr("recstudy.recursive.data.cache.read_data", counted)
    return reads


def test_arrays_are_mapped_and_hold_what_was_decoded(tmp_path):
    data, decoded = load(Digits(), tmp_path), read_data(Digits().reader(), tmp_path)

    assert isinstance(data.train.images, np.memmap)
    assert np.array_equal(data.train.images, decoded.train_images)
    assert np.array_equal(data.test.labels, decoded.test_labels)
    assert data.train.images is data.validation.images


def test_warm_entry_loads_no_decoder_and_no_torch(tmp_path):
    load(Digits(), tmp_path)
    script = (
        "import sys; from pathlib import Path; from recstudy.recursive import Digits; from recstudy.recursive.data.cache import load\n"
        "load(Digits(), Path('.')); print(sorted({'torch', 'torchvision', 'sklearn', 'PIL'} & set(sys.modules)))"
    )
    assert run_python("-c", script).stdout == "[]\n"


def test_another_limit_and_seed_read_the_same_entry_and_its_statistics_equal_numpys(tmp_path, monkeypatch):
    reads = count_reads(monkeypatch)
    full, limited = load(Digits(), tmp_path), load(Digits(limit=16, split_seed=3), tmp_path)
    values = np.asarray(full.train.images, np.float64) / 255

    assert full.mean == pytest.approx((values.mean(),), abs=1e-12)
    assert full.std == pytest.approx((values.std(),), abs=1e-12)
    assert (limited.mean, limited.std, limited.checksum) == (full.mean, full.std, full.checksum)
    assert reads == ["digits"]


def test_cifar_can_take_the_published_statistics_of_cifar10(tmp_path, monkeypatch):
    images, labels = np.arange(20 * 3072).astype(np.uint8).reshape(20, 3, 32, 32), np.arange(20) % 10
    (tmp_path / "source").touch()
    monkeypatch.setattr(TorchvisionReader, "sources", lambda *args: ["source"])
    monkeypatch.setitem(OFFICIAL, "CIFAR100", {})
    monkeypatch.setattr(TorchvisionReader, "decode", lambda *args: Arrays(images, labels, images, labels))

    borrowed, own_statistics = (load(Cifar100(statistics=kind), tmp_path) for kind in ("cifar10", "own"))

    assert (borrowed.mean, borrowed.std) == CIFAR10_MOMENTS
    assert (own_statistics.mean, own_statistics.std) != CIFAR10_MOMENTS
    assert own_statistics.checksum == borrowed.checksum


def test_limit_holds_in_train_and_test_and_keeps_classes_in_proportion(shades):
    data = load(shades_config(limit=16, validation=0.25), shades)

    assert (len(data.train), len(data.validation), len(data.test)) == (12, 4, 16)
    for split in (data.train, data.validation, data.test):
        assert np.bincount(split.labels[split.rows]).tolist() == [len(split) // 2] * 2


def test_split_seed_draws_the_validation_images(tmp_path):
    first, same_seed, other_seed = (
        load(Digits(split_seed=seed), tmp_path).validation.rows for seed in (0, 0, 1)
    )

    assert np.array_equal(first, same_seed)
    assert not np.array_equal(first, other_seed)


def test_changed_source_is_decoded_again(shades, monkeypatch):
    reads = count_reads(monkeypatch)
    first_load = load(shades_config(), shades)
    Image.new("L", (4, 4), 7).save(shades / "shades/train/dark/00.png")

    second_load = load(shades_config(), shades)

    assert len(reads) == 2
    assert second_load.checksum != first_load.checksum
    assert second_load.train.images[0, 0, 0, 0] == 7


def test_another_size_is_another_entry(shades, cache):
    load(shades_config(), shades)
    load(ImageFolder(path="shades", class_count=2, size=8, channels=1), shades)
    assert len(list(cache.glob("folder-*"))) == 2


@pytest.mark.parametrize("damage", ["truncate", "remove", "overwrite", "meta", "stamp"])
def test_damaged_entry_is_built_again(tmp_path, cache, damage):
    checksum, pixels = load(Digits(), tmp_path).checksum, np.array(load(Digits(), tmp_path).train.images)
    (entry,) = cache.glob("digits-*")
    match damage:
        case "overwrite":
            overwrite(entry / "train_images.npy")
        case "stamp":
            entry.with_name(f".{entry.name}.stamp").write_text("[")
        case "truncate":
            os.truncate(entry / "train_images.npy", 1000)
        case "remove":
            (entry / "test_labels.npy").unlink()
        case "meta":
            (entry / "meta.json").write_text("{")

    repeated = load(Digits(), tmp_path)

    assert repeated.checksum == checksum
    assert np.array_equal(repeated.train.images, pixels)
    assert json.loads((entry / "meta.json").read_text())["counts"] == {"train": 1437, "test": 360}


def overwrite(file: Path) -> None:
    """Its last 100 bytes, in place and a tick of the file system's clock later."""
    time.sleep(0.02)
    with open(file, "r+b") as stream:
        stream.seek(-100, os.SEEK_END)
        stream.write(bytes(100))


def test_an_entry_copied_with_its_times_is_not_decoded_again(tmp_path, cache, monkeypatch):
    reads = count_reads(monkeypatch)
    load(Digits(), tmp_path)
    shutil.copytree(cache, tmp_path / "copy")
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "copy"))

    load(Digits(), tmp_path)

    assert reads == ["digits"]


def test_left_over_of_a_killed_build_is_no_obstacle(tmp_path, cache):
    load(Digits(), tmp_path)
    (entry,) = cache.glob("digits-*")
    entry.rename(cache / f".{entry.name}.tmp")

    assert len(load(Digits(), tmp_path).train) == 1293
    assert [path.name for path in cache.iterdir() if path.is_dir()] == [entry.name]


def test_two_concurrent_loads_decode_once(tmp_path, monkeypatch):
    reads = count_reads(monkeypatch)
    counted = cache_module.read_data
    monkeypatch.setattr(cache_module, "read_data", lambda *args: (time.sleep(0.2), counted(*args))[1])

    threads = [threading.Thread(target=load, args=(Digits(), tmp_path)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert reads == ["digits"]


def test_cache_that_cannot_be_written_names_the_variable(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "file/cache"))
    with pytest.raises(
        DataError, match=r"cannot keep decoded images in .*file/cache: Not a directory. Set RECSTUDY_CACHE"
    ):
        load(Digits(), tmp_path)


def test_full_disk_names_the_variable(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(DataError, match=r"No space left on device. Set RECSTUDY_CACHE"):
        load(Digits(), tmp_path)


def test_missing_source_leaves_no_cache(tmp_path, cache):
    with pytest.raises(DataError, match="CIFAR-10 not found"):
        load(Cifar10(), tmp_path)
    assert not cache.exists()


def test_real_cifar10_has_the_published_statistics():
    folder = Path(os.environ.get("RECSTUDY_DATA", "missing"))
    if not (folder / "cifar-10-batches-py").exists():
        pytest.skip("RECSTUDY_DATA holds no cifar-10-batches-py")

    data = load(Cifar10(), folder)

    assert (data.train.labels[:5].tolist(), data.test.labels[:5].tolist()) == (
        [6, 9, 9, 4, 1],
        [3, 8, 8, 0, 6],
    )
    names = pickle.loads((folder / "cifar-10-batches-py/batches.meta").read_bytes())["label_names"]
    assert tuple(names) == Cifar10().class_names
    assert data.mean == pytest.approx(CIFAR10_MOMENTS[0], abs=1e-4)
    assert data.std == pytest.approx(CIFAR10_MOMENTS[1], abs=1e-4)
    assert np.bincount(data.validation.labels[data.validation.rows]).tolist() == [500] * 10
