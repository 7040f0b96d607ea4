"""Decodes a data set from its official layout into uint8 arrays.

This runs once a machine: `cache.py` keeps what it gives. The official files are checked against their published md5s,
because a damaged or silently replaced file would otherwise only show as a strange accuracy. Everything that decodes
(torchvision, scikit-learn, Pillow) is imported where it is used, so that a warm cache costs none of it.

Shapes: N images, C channels, H height, W width.
"""

import hashlib
import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from recstudy.config import DataConfig
from recstudy.data import caption_decoding, caption_readers, caption_tables, chest, phantom, phantom_captions
from recstudy.data.captions import CaptionFiles, PhantomCaptions
from recstudy.data.images import Decoded, decode
from recstudy.data.sets import ImageFolder
from recstudy.data.xray import ChestXray14, PhantomXray
from recstudy.errors import DataError
from recstudy.registry import Registry

# Folder below the data folder, and the md5 of each unpacked file: the tables of torchvision.datasets.CIFAR10 and CIFAR100.
# torchvision lists the archives of MNIST only; these are the md5s of what is in them.
OFFICIAL: dict[str, tuple[str, dict[str, str]]] = {
    "mnist": (
        "MNIST/raw",
        {
            "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
            "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
            "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
            "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
        },
    ),
    "cifar10": (
        "cifar-10-batches-py",
        {
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
            "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
        },
    ),
    "cifar100": (
        "cifar-100-python",
        {
            "train": "16019d7e3df5f24257cddd939b257f8d",
            "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
            "meta": "7973b15100ade9c7d40fb424638fde48",
        },
    ),
}


# A new data set adds its decoder here by name; its files are those of `sources`.
DECODERS: Registry[Callable[[Any, Path], Decoded]] = Registry("reader of the data set")
DECODERS.add("chest_xray14")(chest.decode_set)
DECODERS.add("phantom_xray")(phantom.draw_set)
DECODERS.add("phantom_captions")(phantom_captions.draw_set)
for _captioned in caption_tables.LAYOUTS:
    DECODERS.add(_captioned)(caption_decoding.decode_set)


def read(config: DataConfig, folder: Path, download: bool = False) -> Decoded:
    """Decode `config` from below `folder`; a DataError names the file that is missing, damaged or undecodable."""
    check(config, folder, download)
    fetch(config, folder)
    _verify(config, folder)
    decoded = DECODERS[config.name](config, folder)
    return Decoded._make(np.ascontiguousarray(part) if isinstance(part, np.ndarray) else part for part in decoded)


def check(config: DataConfig, folder: Path, download: bool = False) -> None:
    """Refuse (DataError) a set whose files are not below `folder`. Opens no image and imports no decoder."""
    if isinstance(config, ImageFolder):
        _check_classes(config, folder)
    elif isinstance(config, ChestXray14):
        chest.choose(config, folder)
    elif isinstance(config, CaptionFiles):
        caption_readers.choose(config, folder)
    elif not download and (missing := absent(config, folder)):
        raise _not_found(config, folder, missing, can_download=True)


def absent(config: DataConfig, folder: Path) -> str | None:
    """The first official folder or file that is missing, below `folder`; None where all are there."""
    if config.name not in OFFICIAL:
        return None
    below, md5s = OFFICIAL[config.name]
    return next((path for path in (below, *(f"{below}/{name}" for name in md5s)) if not (folder / path).exists()), None)


def sources(config: DataConfig, folder: Path) -> list[str]:
    """The files that decide the decoded images, as paths below `folder`; none for what is embedded in a package."""
    if config.name in OFFICIAL:
        below, md5s = OFFICIAL[config.name]
        return [f"{below}/{name}" for name in md5s]
    if isinstance(config, ImageFolder):
        kinds = [f"{config.path}/{part}/{kind}" for part in ("train", "test") for kind in _classes(config, folder, part)]
        return [f"{kind}/{file}" for kind in kinds for file in _files(folder / kind)]
    if isinstance(config, CaptionFiles):
        return caption_readers.sources(config, folder)
    return chest.sources(config, folder) if isinstance(config, ChestXray14) else []


def program(config: DataConfig) -> list[str | int]:
    """What decides the decoded images of a set without files: the program that holds or draws it, and its version."""
    if isinstance(config, PhantomXray):
        return ["phantom", phantom.DRAWING]
    if isinstance(config, PhantomCaptions):
        return ["phantom captions", phantom_captions.DRAWING]
    return ["scikit-learn", version("scikit-learn")]


def fetch(config: DataConfig, folder: Path) -> None:
    """Download an official set that is not below `folder` (shows a progress bar); a DataError says why it failed."""
    if not absent(config, folder):
        return
    try:
        _torchvision(config)(folder, download=True)
    except (OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0].rstrip(":")
        raise DataError(
            f"cannot download {config.title} into {folder}: {reason}. Unpack it there yourself, or pass --data DIR."
        ) from None


@DECODERS.add("digits")
def _digits(config: DataConfig, folder: Path) -> Decoded:
    """Values 0..16 become 0..255. One split for every run: 1,437 to train, 360 to test."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    values_NHW, labels = load_digits(return_X_y=True)
    images = np.round(values_NHW.reshape(-1, 1, 8, 8) * 255 / 16).astype(np.uint8)
    train, test, train_labels, test_labels = train_test_split(images, labels, test_size=360, stratify=labels, random_state=0)
    return Decoded(train, train_labels.astype(np.int64), test, test_labels.astype(np.int64))


@DECODERS.add("mnist")
@DECODERS.add("cifar10")
@DECODERS.add("cifar100")
def _official(config: DataConfig, folder: Path) -> Decoded:
    parts: list[npt.NDArray[Any]] = []
    for train in (True, False):
        part = _torchvision(config)(folder, train=train)
        images = np.asarray(part.data)
        parts.append(images.transpose(0, 3, 1, 2) if images.ndim == 4 else images[:, None])
        parts.append(np.asarray(part.targets, dtype=np.int64))
    return Decoded(parts[0], parts[1], parts[2], parts[3])


@DECODERS.add("folder")
def _folder(config: ImageFolder, folder: Path) -> Decoded:
    """Labels are the positions of the sorted class names."""
    parts: list[npt.NDArray[Any]] = []
    for part in ("train", "test"):
        place = folder / config.path / part
        kinds = enumerate(_classes(config, folder, part))
        files = [(place / kind / file, label) for label, kind in kinds for file in _files(place / kind)]
        images = np.empty((len(files), *config.shape), np.uint8)
        for image, (file, _) in zip(images, files, strict=True):
            image[:] = decode(file, config.size, "RGB" if config.channels == 3 else "L")
        parts += [images, np.array([label for _, label in files], np.int64)]
    return Decoded(parts[0], parts[1], parts[2], parts[3])


def _classes(config: ImageFolder, folder: Path, part: str) -> list[str]:
    try:
        with os.scandir(folder / config.path / part) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        raise _not_found(config, folder, f"{config.path}/{part}", can_download=False) from None


def _files(kind: Path) -> list[str]:
    """The images of one class. Every visible file counts, so that a stray one is named rather than skipped."""
    with os.scandir(kind) as entries:
        return sorted(entry.name for entry in entries if entry.is_file() and not entry.name.startswith("."))


def _check_classes(config: ImageFolder, folder: Path) -> None:
    train, test = (set(_classes(config, folder, part)) for part in ("train", "test"))
    place, found = folder / config.path, len(train)
    for name in sorted(train ^ test):
        has, lacks = ("train", "test") if name in train else ("test", "train")
        raise DataError(f"{place / lacks / name} is missing: class {name!r} is in {has} only. Give both the same class folders.")
    if found != config.class_count:
        raise DataError(
            f"{place / 'train'} has {found} class folders, but data.class_count is {config.class_count}. Set it to {found}."
        )
    for empty in (place / part / kind for part in ("train", "test") for kind in sorted(train)):
        if not any(empty.iterdir()):
            raise DataError(f"{empty} is empty. Put the images of its class there, or remove the class from train and test.")


def _verify(config: DataConfig, folder: Path) -> None:
    if config.name not in OFFICIAL:
        return
    below, md5s = OFFICIAL[config.name]
    for name, official in md5s.items():
        with open(folder / below / name, "rb") as file:
            if hashlib.file_digest(file, "md5").hexdigest() != official:
                raise DataError(
                    f"{folder / below / name} is damaged: its md5 is not the official one of {config.title}. "
                    "Delete it and unpack or download it again."
                )


def _torchvision(config: DataConfig) -> Any:
    from torchvision import datasets

    return {"mnist": datasets.MNIST, "cifar10": datasets.CIFAR10, "cifar100": datasets.CIFAR100}[config.name]


def _not_found(config: DataConfig, folder: Path, missing: str, can_download: bool) -> DataError:
    fix = "Pass --data DIR, set RECSTUDY_DATA, or add --download." if can_download else "Pass --data DIR or set RECSTUDY_DATA."
    return DataError(f"{config.title} not found under {folder} ({missing} is missing). {fix}")
