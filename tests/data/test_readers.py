import hashlib
import os
import pickle
import shutil
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
from PIL import Image
from torchvision import datasets

from recstudy.data import Cifar10, Cifar100, Digits, ImageFolder, Mnist
from recstudy.data.cache import known_checksum, load
from recstudy.data.images import decode
from recstudy.data.small_images import OFFICIAL
from recstudy.errors import DataError


def real(path: str) -> Path:
    """The folder of the real sets, where it holds `path`."""
    folder = Path(os.environ.get("RECSTUDY_DATA", "missing"))
    if not (folder / path).exists():
        pytest.skip(f"RECSTUDY_DATA holds no {path}")
    return folder


def paint(file: Path, values: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values.astype(np.uint8)).save(file)


@pytest.fixture
def cats_and_dogs(tmp_path):
    """PETS/{train,test}/{cat,dog}/*.png: 8x8 images, cats of value 10, dogs of value 200."""
    for part, count in (("train", 3), ("test", 2)):
        for kind, value in (("dog", 200), ("cat", 10)):
            for number in range(count):
                paint(tmp_path / "pets" / part / kind / f"{number}.png", np.full((8, 8), value))
    return tmp_path


def pets(**fields) -> ImageFolder:
    return ImageFolder(**{"path": "pets", "class_count": 2, "size": 8, "channels": 1, **fields})


def test_digits_are_split_once_with_classes_in_proportion(tmp_path):
    digits = Digits().reader().read(tmp_path)

    assert digits.train_images.shape == (1437, 1, 8, 8)
    assert digits.test_images.shape == (360, 1, 8, 8)
    assert (digits.train_images.min(), digits.train_images.max()) == (0, 255)
    assert digits.train_labels.dtype == np.int64
    assert set(np.bincount(digits.test_labels)) <= {35, 36, 37}
    again = Digits(validation=0.2, split_seed=7).reader().read(tmp_path)
    assert np.array_equal(again.test_images, digits.test_images)


def test_digits_values_are_sixteenths_of_255(tmp_path):
    assert np.array_equal(np.unique(Digits().reader().read(tmp_path).train_images), np.round(np.arange(17) * 255 / 16))


def test_image_folder_labels_follow_the_sorted_class_names(cats_and_dogs):
    decoded = pets().reader().read(cats_and_dogs)

    assert decoded.train_images.shape == (6, 1, 8, 8)
    assert decoded.train_labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert decoded.train_images[:, 0, 0, 0].tolist() == [10, 10, 10, 200, 200, 200]
    assert decoded.test_labels.tolist() == [0, 0, 1, 1]


def test_image_folder_reads_rgb_or_gray_whatever_the_files_hold(cats_and_dogs):
    assert pets(channels=3).reader().read(cats_and_dogs).train_images.shape == (6, 3, 8, 8)


def test_wide_image_is_resized_by_its_shorter_side_and_cut_in_the_centre(cats_and_dogs):
    """16 x 32 with a white right half: the shorter side becomes 8, the middle 8 of 16 columns stay, half of them white."""
    wide = np.zeros((16, 32))
    wide[:, 16:] = 255
    paint(cats_and_dogs / "pets/train/cat/0.png", wide)

    image = pets().reader().read(cats_and_dogs).train_images[0, 0]

    assert np.all(image[:, :3] == 0)
    assert np.all(image[:, 5:] == 255)


@pytest.mark.parametrize("size", [(20, 33), (33, 20), (9, 8), (64, 64)])
def test_resize_and_crop_equal_torchvision(tmp_path, size):
    from torchvision.transforms import v2

    values = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    paint(tmp_path / "image.png", values)

    expected = v2.CenterCrop(8)(v2.Resize(8)(Image.fromarray(values)))

    assert np.array_equal(decode(tmp_path / "image.png", 8, "RGB"), np.asarray(expected).transpose(2, 0, 1))


def test_undecodable_image_is_named(cats_and_dogs):
    file = cats_and_dogs / "pets/train/dog/1.png"
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(DataError, match=r"dog/1\.png cannot be read as an image .*Replace or remove it"):
        pets().reader().read(cats_and_dogs)


def test_file_that_is_no_image_is_named(cats_and_dogs):
    (cats_and_dogs / "pets/test/cat/notes.txt").write_text("meow")
    with pytest.raises(DataError, match=r"cat/notes\.txt cannot be read as an image"):
        pets().reader().read(cats_and_dogs)


def test_hidden_files_are_no_images(cats_and_dogs):
    (cats_and_dogs / "pets/train/cat/.DS_Store").write_text("")
    assert len(pets().reader().read(cats_and_dogs).train_images) == 6


def test_sixteen_bit_image_is_refused(cats_and_dogs):
    Image.fromarray(np.full((8, 8), 40_000, np.uint16)).save(cats_and_dogs / "pets/train/cat/0.png")
    with pytest.raises(DataError, match=r"cat/0\.png has more than 8 bits a channel \(mode I;16\). Save it with 8"):
        pets().reader().read(cats_and_dogs)


def test_wrong_class_count_is_told(cats_and_dogs):
    with pytest.raises(DataError, match=r"pets/train has 2 class folders, but data.class_count is 3. Set it to 2"):
        pets(class_count=3).reader().check(cats_and_dogs)


def test_class_of_one_part_only_is_named(cats_and_dogs):
    shutil.rmtree(cats_and_dogs / "pets/test/cat")
    with pytest.raises(DataError, match=r"pets/test/cat is missing: class 'cat' is in train only"):
        pets().reader().check(cats_and_dogs)


def test_empty_class_is_named(cats_and_dogs):
    shutil.rmtree(cats_and_dogs / "pets/test/cat")
    (cats_and_dogs / "pets/test/cat").mkdir()
    with pytest.raises(DataError, match=r"pets/test/cat has no images"):
        pets().reader().check(cats_and_dogs)


def test_a_class_of_nothing_but_a_folder_is_named(cats_and_dogs):
    shutil.rmtree(cats_and_dogs / "pets/test/cat")
    (cats_and_dogs / "pets/test/cat/more").mkdir(parents=True)
    with pytest.raises(DataError, match=r"pets/test/cat has no images. Put those .* in no folder below it"):
        pets().reader().check(cats_and_dogs)


@pytest.mark.parametrize(
    ("place", "points_to", "said"),
    [
        ("train/cat/loop.png", "loop.png", "the files of 'pets' cannot be listed: .*symbolic links: .*loop.png"),
        ("train/loop", "loop", "the files of 'pets' cannot be listed: .*symbolic links: .*loop"),
        ("train/cat/gone.png", "nowhere.png", "the files of 'pets' cannot be listed: .*No such file .*gone.png"),
        (
            "train/cat/\udcff.png",
            "0.png",
            r"pets has a file whose name is no text in UTF-8: 'pets/train/cat/\\udcff.png'. Rename it",
        ),
    ],
)
def test_what_the_file_system_refuses_is_named(cats_and_dogs, place, points_to, said):
    (cats_and_dogs / "pets" / place).symlink_to(points_to)
    with pytest.raises(DataError, match=said):
        load(pets(), cats_and_dogs)
    assert not known_checksum(pets(), cats_and_dogs)


@pytest.mark.parametrize("path", ["a\0b", "x" * 300])
def test_a_name_that_no_file_has_is_refused(path, tmp_path):
    with pytest.raises(DataError, match=r"the files of .* cannot be listed: "):
        load(ImageFolder(path=path, class_count=2), tmp_path)


def test_missing_image_folder_is_not_offered_for_download(tmp_path):
    with pytest.raises(
        DataError, match=r"pets not found under .* \(pets/train is missing\). Pass --data DIR or set RECSTUDY_DATA.$"
    ):
        load(pets(), tmp_path, download=True)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Mnist(), r"^MNIST not found under DIR \(MNIST/raw is missing\)"),
        (Cifar10(), r"^CIFAR-10 not found under DIR \(cifar-10-batches-py is missing\)"),
        (Cifar100(), r"^CIFAR-100 not found under DIR \(cifar-100-python is missing\)"),
    ],
)
def test_missing_official_set_says_what_where_and_how(tmp_path, config, message):
    fix = r". Pass --data DIR, set RECSTUDY_DATA, or add --download.$"
    with pytest.raises(DataError, match=message.replace("DIR", str(tmp_path)) + fix):
        config.reader().check(tmp_path)


def test_one_missing_file_is_named(tmp_path):
    (tmp_path / "cifar-100-python").mkdir()
    (tmp_path / "cifar-100-python/train").touch()
    with pytest.raises(DataError, match=r"\(cifar-100-python/test is missing\)"):
        Cifar100().reader().read(tmp_path)


def test_digits_need_no_folder(tmp_path):
    Digits().reader().check(tmp_path / "nowhere")


def test_failed_download_is_one_line(tmp_path, monkeypatch):
    def download(*args, **kwargs):
        raise URLError("no route to host\nat all")

    monkeypatch.setattr(datasets, "MNIST", download)
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DataError, match=r"cannot download MNIST into .*no route to host. Unpack it there yourself"):
        load(Mnist(), tmp_path, download=True)


@pytest.mark.parametrize("kind", [datasets.CIFAR10, datasets.CIFAR100])
def test_official_md5s_are_those_of_torchvision(kind):
    files = dict(kind.train_list + kind.test_list) | {kind.meta["filename"]: kind.meta["md5"]}
    assert OFFICIAL[kind.__name__] == {f"{kind.base_folder}/{name}": md5 for name, md5 in files.items()}


def test_cifar100_labels_are_the_fine_ones(tmp_path, monkeypatch):
    """Two training images and one test image in the official layout, with md5s of their own."""
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    pixels = np.arange(3 * 3072, dtype=np.uint8).reshape(3, 3072)
    contents = {
        "train": {"data": pixels[:2], "fine_labels": [41, 7], "coarse_labels": [1, 2]},
        "test": {"data": pixels[2:], "fine_labels": [99], "coarse_labels": [3]},
        "meta": {"fine_label_names": ["name"] * 100},
    }
    md5s = {}
    for name, content in contents.items():
        (folder / name).write_bytes(pickle.dumps(content))
        md5s[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    monkeypatch.setitem(OFFICIAL, "CIFAR100", {f"cifar-100-python/{name}": md5 for name, md5 in md5s.items()})
    monkeypatch.setattr(datasets.CIFAR100, "train_list", [["train", md5s["train"]]])
    monkeypatch.setattr(datasets.CIFAR100, "test_list", [["test", md5s["test"]]])
    monkeypatch.setattr(datasets.CIFAR100, "meta", {**datasets.CIFAR100.meta, "md5": md5s["meta"]})

    decoded = Cifar100().reader().read(tmp_path)

    assert decoded.train_labels.tolist() == [41, 7]
    assert decoded.test_labels.tolist() == [99]
    assert np.array_equal(decoded.train_images, pixels[:2].reshape(2, 3, 32, 32))


def test_real_mnist():
    decoded = Mnist().reader().read(real("MNIST"))

    assert decoded.train_images.shape == (60_000, 1, 28, 28)
    assert decoded.test_images.shape == (10_000, 1, 28, 28)
    assert np.bincount(decoded.train_labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


def test_real_cifar10():
    decoded = Cifar10().reader().read(real("cifar-10-batches-py"))

    assert decoded.train_images.shape == (50_000, 3, 32, 32)
    assert decoded.train_images.flags.c_contiguous
    assert decoded.train_labels[:5].tolist() == [6, 9, 9, 4, 1]
    assert decoded.test_labels[:5].tolist() == [3, 8, 8, 0, 6]
    published = (125.30691805, 122.95039414, 113.86538318)
    assert decoded.train_images.mean((0, 2, 3)) == pytest.approx(published, abs=1e-6)


@pytest.mark.parametrize(
    ("config", "below", "file"),
    [(Mnist(), "MNIST/raw", "t10k-labels-idx1-ubyte"), (Cifar10(), "cifar-10-batches-py", "test_batch")],
)
def test_one_flipped_bit_names_the_file(tmp_path, config, below, file):
    shutil.copytree(real(below) / below, tmp_path / below, copy_function=os.symlink)
    damaged = bytearray((tmp_path / below / file).read_bytes())
    damaged[5000] ^= 1
    (tmp_path / below / file).unlink()
    (tmp_path / below / file).write_bytes(damaged)

    with pytest.raises(
        DataError, match=rf"{file} is damaged: its md5 .*{config.title}. Delete it and unpack or download it again"
    ):
        config.reader().read(tmp_path)


def test_real_subset_of_cifar100_as_an_image_folder():
    config = ImageFolder(path="cifar100_subset", class_count=100)
    decoded = config.reader().read(real("cifar100_subset"))

    assert decoded.train_images.shape == (10_000, 3, 32, 32)
    assert decoded.test_images.shape == (2_500, 3, 32, 32)
    assert len(np.unique(decoded.train_labels)) == 100


def test_cifars_classes_have_their_names():
    assert (Cifar10().class_names[8], len(Cifar10().class_names)) == ("ship", 10)
    assert (Cifar100().class_names[34], len(set(Cifar100().class_names))) == ("fox", 100)


def test_the_names_are_those_of_the_real_file():
    file = real("cifar-10-batches-py/batches.meta") / "cifar-10-batches-py/batches.meta"

    assert tuple(pickle.loads(file.read_bytes())["label_names"]) == Cifar10().class_names
