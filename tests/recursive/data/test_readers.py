import hashlib
import os
import pickle
import re
import shutil  # noqa: F401 - for refused.txt
import struct
import zlib
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
from layouts import paint
from PIL import Image
from refusals import refused
from torchvision import datasets
from torchvision.transforms import v2

from recstudy.base.errors import DataError
from recstudy.recursive import Cifar10, Cifar100, Digits, ImageFolder, Mnist
from recstudy.recursive.data.cache import known_checksum, load
from recstudy.recursive.data.images import decode_image
from recstudy.recursive.data.reading import read_data
from recstudy.recursive.data.small_images import OFFICIAL


def real(path):
    """The folder of the real sets, where it holds `path`."""
    folder = Path(os.environ.get("RECSTUDY_DATA", "missing"))
    if not (folder / path).exists():
        pytest.skip(f"RECSTUDY_DATA holds no {path}")
    return folder


@pytest.fixture
def cats_and_dogs(tmp_path):
    """PETS/{train,test}/{cat,dog}/*.png: 8x8 images, cats of value 10, dogs of value 200."""
    for part, count in (("train", 3), ("test", 2)):
        for kind, value in (("dog", 200), ("cat", 10)):
            for number in range(count):
                paint(tmp_path / "pets" / part / kind / f"{number}.png", np.full((8, 8), value))
    return tmp_path


def pets(**fields):
    return ImageFolder(**{"path": "pets", "class_count": 2, "size": 8, "channels": 1, **fields})


def test_digits_are_split_once_with_classes_in_proportion(tmp_path):
    """Values are sixteenths of 255; no folder is needed."""
    digits = read_data(Digits().reader(), tmp_path)

    assert (digits.train_images.shape, digits.test_images.shape) == ((1437, 1, 8, 8), (360, 1, 8, 8))
    assert np.array_equal(np.unique(digits.train_images), np.round(np.arange(17) * 255 / 16))
    assert set(np.bincount(digits.test_labels)) <= {35, 36, 37}
    repeated = read_data(Digits(validation=0.2, split_seed=7).reader(), tmp_path / "nowhere")
    assert np.array_equal(repeated.test_images, digits.test_images)


@pytest.mark.parametrize("channels", [1, 3])
def test_image_folder_labels_follow_the_sorted_class_names(cats_and_dogs, channels):
    """Whatever the files hold; hidden ones are no images."""
    (cats_and_dogs / "pets/train/cat/.DS_Store").write_text("")
    decoded = read_data(pets(channels=channels).reader(), cats_and_dogs)

    assert decoded.train_images.shape == (6, channels, 8, 8)
    assert (decoded.train_labels.tolist(), decoded.test_labels.tolist()) == ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1])
    assert decoded.train_images[:, 0, 0, 0].tolist() == [10, 10, 10, 200, 200, 200]


def test_copies_across_splits_and_under_two_labels_are_noted(tmp_path):
    """One test image is a training image of the other class, one is a copy within the test split, one is
    new.
    """
    for place, value in {
        "train/cat/0": 1,
        "train/dog/0": 2,
        "test/cat/0": 2,
        "test/dog/0": 3,
        "test/dog/1": 3,
    }.items():
        paint(tmp_path / f"pets/{place}.png", np.full((8, 8), value))

    assert load(pets(), tmp_path).notes == (
        "Repeated items: 1 of 3 test images are exact copies of training images",
        "Repeated items: 1 images have several copies with different labels",
    )


@pytest.mark.parametrize("size", [(20, 33), (9, 8), (64, 64)])
def test_resize_and_crop_equal_torchvision(tmp_path, size):
    values = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    paint(tmp_path / "image.png", values)
    expected = v2.CenterCrop(8)(v2.Resize(8)(Image.fromarray(values)))

    assert np.array_equal(
        decode_image(tmp_path / "image.png", 8, "RGB").pixels, np.asarray(expected).transpose(2, 0, 1)
    )


def strokes(mode, colour=0):
    """A square of one colour on a transparent ground, which has other colours hidden in it."""
    channels = len(mode)
    values = np.random.default_rng(0).integers(0, 256, (16, 16, channels), np.uint8)
    values[..., -1] = 0
    values[4:12, 4:12] = colour
    values[4:12, 4:12, -1] = 255
    return Image.fromarray(values, mode)


def test_a_transparent_ground_is_white_and_counted(cats_and_dogs):
    strokes("RGBA", 90).save(cats_and_dogs / "pets/train/cat/0.png")
    strokes("LA").save(cats_and_dogs / "pets/train/dog/0.png")
    palette = strokes("RGBA", 90).convert("RGB").quantize(4)
    palette.save(cats_and_dogs / "pets/test/cat/0.png", transparency=palette.getpixel((8, 8)))
    Image.new("RGBA", (16, 16), (7, 7, 7, 255)).save(cats_and_dogs / "pets/test/dog/0.png")
    decoded = read_data(pets(size=16).reader(), cats_and_dogs)

    assert decoded.train_images[[0, 3], 0, 0, 0].tolist() == [255, 255]
    assert decoded.train_images[[0, 3], 0, 4, 4].tolist() == [90, 0]
    assert (decoded.test_images[0, 0, 4, 4], decoded.test_images[2, 0, 4, 4]) == (255, 7)
    assert decoded.notes[:1] == ("3 images are partly transparent: shown on white",)


@pytest.mark.parametrize("ending", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize(("mark", "corner"), [(1, [0, 0]), (3, [-1, -1]), (6, [0, -1]), (8, [-1, 0])])
def test_an_image_is_turned_by_its_exif_mark(tmp_path, ending, mark, corner):
    values = np.zeros((16, 16), np.uint8)
    values[:8, :8] = 255
    exif = Image.Exif()
    exif[0x0112] = mark
    Image.fromarray(values).convert("RGB").save(tmp_path / f"a.{ending}", exif=exif)

    pixels = decode_image(tmp_path / f"a.{ending}", 16, "L").pixels[0]
    row, column = corner
    assert pixels[row, column] > 250
    assert (pixels > 128).sum() == 64


def test_further_frames_are_counted(cats_and_dogs):
    for ending in ("gif", "tif"):
        file = cats_and_dogs / f"pets/train/cat/two.{ending}"
        Image.new("L", (16, 16), 40).save(file, save_all=True, append_images=[Image.new("L", (16, 16), 90)])
    decoded = read_data(pets(channels=1).reader(), cats_and_dogs)

    assert 40 in decoded.train_images
    assert 90 not in decoded.train_images
    assert decoded.notes[:1] == ("2 images are of several frames or pages: the first one is read",)


def deep_png(file, values):
    """Write (H, W, C) of 16 bits a channel, which Pillow reads and cannot write: grey and alpha, or
    colours.
    """
    height, width, channels = values.shape

    def chunk(kind, content):
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    head = struct.pack(">IIBBBBB", width, height, 16, {2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_sixteen_bits_a_channel_beside_grey_are_refused(tmp_path, channels):
    """Pillow gives the high bytes of such a file: of 12 bits 16 values would be left."""
    deep_png(tmp_path / "a.png", np.full((16, 16, channels), 300))
    for mode, bits in (("RGB", 0), ("L", 16)):
        with pytest.raises(DataError, match=r"a.png .*16 bits per channel\). Save it "):
            decode_image(tmp_path / "a.png", 16, mode, bits)


@refused(globals(), "change fields", "a bad folder of images")
def test_a_bad_image_folder_is_refused(cats_and_dogs, change, fields, message):
    change(cats_and_dogs / "pets")
    with pytest.raises(DataError, match=message):
        load(pets(**fields), cats_and_dogs, download=not (cats_and_dogs / "pets").exists())
    assert not known_checksum(pets(**fields), cats_and_dogs)


@pytest.mark.parametrize(
    ("config", "missing_path"), [(Mnist(), "MNIST/raw"), (Cifar10(), "cifar-10-batches-py")]
)
def test_a_missing_official_set_says_what_where_and_how(tmp_path, config, missing_path):
    fix = r"Pass --data DIR, set RECSTUDY_DATA, or add --download. docs/data/(mnist|cifar10).md has .*$"
    with pytest.raises(
        DataError, match=rf"^{config.title} not found under {tmp_path} \({missing_path} is missing\). {fix}"
    ):
        read_data(config.reader(), tmp_path)


@pytest.mark.parametrize(
    ("config", "archive"), [(Mnist(), "MNIST/raw/t10k-images-idx3-ubyte.gz"), (Cifar10(), "cifar-10-python.tar.gz"),
                            (Cifar100(), "cifar-100-python.tar.gz")]
)  # fmt: skip
def test_an_archive_beside_a_missing_file_is_named(tmp_path, config, archive):
    (tmp_path / archive).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / archive).touch()
    for name in (
        [name for name in config.reader().official if name != archive.removesuffix(".gz")]
        if config == Mnist()
        else []
    ):
        (tmp_path / name).touch()
    with pytest.raises(DataError, match=rf"is missing\). Unpack {re.escape(archive)} in its folder.$"):
        config.reader().check(tmp_path)


def test_failed_download_is_one_line(tmp_path, monkeypatch):
    def download(*args, **kwargs):
        raise URLError("no route to host\nat all")

    monkeypatch.setattr(datasets, "MNIST", download)
    with pytest.raises(
        DataError, match=r"^cannot download MNIST into .*no route to host. Unpack it there by hand[^\n]*$"
    ):
        load(Mnist(), tmp_path, download=True)


def test_cifar100_labels_are_the_fine_ones_and_one_flipped_bit_names_the_file(tmp_path, monkeypatch):
    """Two training images and one test image in the official layout, with md5s of their own."""
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    pixels = np.arange(3 * 3072, dtype=np.uint8).reshape(3, 3072)
    contents = {
        "train": {"data": pixels[:2], "fine_labels": [41, 7], "coarse_labels": [1, 2]},
        "test": {"data": pixels[2:], "fine_labels": [99], "coarse_labels": [3]},
        "meta": {"fine_label_names": ["name"] * 100},
    }
    for name, content in contents.items():
        (folder / name).write_bytes(pickle.dumps(content))
    md5s = {name: hashlib.md5((folder / name).read_bytes()).hexdigest() for name in contents}
    kind = datasets.CIFAR100
    official = dict(kind.train_list + kind.test_list) | {kind.meta["filename"]: kind.meta["md5"]}
    assert OFFICIAL["CIFAR100"] == {f"{kind.base_folder}/{name}": md5 for name, md5 in official.items()}
    monkeypatch.setitem(OFFICIAL, "CIFAR100", {f"cifar-100-python/{name}": md5 for name, md5 in md5s.items()})
    monkeypatch.setattr(kind, "train_list", [["train", md5s["train"]]])
    monkeypatch.setattr(kind, "test_list", [["test", md5s["test"]]])
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": md5s["meta"]})
    decoded = read_data(Cifar100().reader(), tmp_path)

    assert (decoded.train_labels.tolist(), decoded.test_labels.tolist()) == ([41, 7], [99])
    assert np.array_equal(decoded.train_images, pixels[:2].reshape(2, 3, 32, 32))
    damaged = bytearray((folder / "test").read_bytes())
    damaged[500] ^= 1
    (folder / "test").write_bytes(damaged)
    with pytest.raises(
        DataError, match=r"test is damaged: its md5 .*CIFAR-100. Delete it and unpack or download it again"
    ):
        read_data(Cifar100().reader(), tmp_path)


def test_real_mnist():
    decoded = read_data(Mnist().reader(), real("MNIST"))

    assert (decoded.train_images.shape, decoded.test_images.shape) == (
        (60_000, 1, 28, 28),
        (10_000, 1, 28, 28),
    )
    assert np.bincount(decoded.train_labels).tolist() == [
        5923,
        6742,
        5958,
        6131,
        5842,
        5421,
        5918,
        6265,
        5851,
        5949,
    ]
