"""A data set from outside: a config and its reader, as `Reader` documents them."""

import importlib
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from layouts import paint
from refusals import refused

from recstudy.base.errors import ConfigError, DataError
from recstudy.plugins.registry import gathering
from recstudy.programs.settings import configure
from recstudy.recursive import (  # noqa: F401 - for refused.txt
    CNN,
    HRM,
    Arrays,
    Augment,
    DataConfig,
    ModelConfig,
    PhantomCaptions,
    Reader,
    ResNet,
    RunConfig,
    Shape,
    TrainConfig,
)
from recstudy.recursive.data.batches import Batches
from recstudy.recursive.data.cache import load
from recstudy.recursive.data.reading import checked, read_data
from recstudy.recursive.models.networks.contract import Network, Output
from recstudy.recursive.program import RECURSIVE_MODELS


class Cells(DataConfig):
    name: str = "cells"
    path: str = "cells.npz"
    shape: ClassVar[Shape] = (1, 4, 4)
    classes: ClassVar[int] = 3
    several: bool = False

    @property
    def task(self) -> str:
        return "multilabel" if self.several else "multiclass"

    def reader(self) -> Reader:
        return CellsReader(self)


class CellsReader(Reader):
    def sources(self, folder: Path) -> list[str]:
        return [self.config.path]

    def decode(self, folder: Path) -> Arrays:
        with np.load(folder / self.config.path) as file:
            return Arrays(**file)


def test_an_npz_file_is_a_data_set(tmp_path):
    """20 images of value k in pairs of a group, of which 4 are held out, and 10 test images of value 100 +
    k.
    """
    values = {
        "train_labels": np.arange(20) % 3,
        "test_labels": np.arange(10) % 3,
        "train_groups": np.arange(20) // 2,
    }
    values |= {"test_groups": 10 + np.arange(10) // 5, "train_held": np.arange(20) >= 16}
    train, test = (
        np.arange(*bounds, dtype=np.uint8)[:, None, None, None].repeat(4, 2).repeat(4, 3)
        for bounds in ((20,), (100, 110))
    )
    np.savez(tmp_path / "cells.npz", train_images=train, test_images=test, **values)
    data = load(Cells(), tmp_path)

    assert (data.validation.rows.tolist(), len(data.train), len(data.test)) == ([16, 17, 18, 19], 16, 10)
    assert (data.train.images[:, 0, 0, 0].tolist(), data.train.labels.tolist()) == (
        list(range(20)),
        [k % 3 for k in range(20)],
    )
    assert data.test.images[:, 0, 3, 3].tolist() == list(range(100, 110))
    assert (data.group_count, data.test.groups.tolist()) == (12, [10] * 5 + [11] * 5)


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A new module of the source that it is given; what this registers is forgotten afterwards."""
    names = iter(f"outside{number}" for number in range(9))

    def imported(source: str) -> Any:
        name = next(names)
        (tmp_path / f"{name}.py").write_text(source)
        return importlib.import_module(name)

    monkeypatch.syspath_prepend(str(tmp_path))
    with gathering():
        yield imported
    for name in [name for name in sys.modules if name.startswith("outside")]:
        del sys.modules[name]


def test_the_documented_reader_works(tmp_path, fresh):
    lines = (Reader.__doc__ or "").splitlines()
    module = fresh("\n".join(line[8:] for line in lines if line.startswith(8 * " ")))
    images, labels = np.zeros((20, 1, 28, 28), np.uint8), np.arange(20) % 5
    np.savez(tmp_path / "cells.npz", train_x=images, train_y=labels, test_x=images, test_y=labels)

    run = configure(RunConfig, {"data": {"name": "cells"}, "model": CNN()})
    assert run.data == module.Cells()
    assert len(load(run.data, tmp_path).test) == 20


OWN_LAYOUT = """
from recstudy.recursive import DATASETS, CaptionFiles, CaptionReader, CaptionRow

@DATASETS.add("listed")
class Listed(CaptionFiles):
    name: str = "listed"
    title = property(lambda self: self.path)

    def reader(self):
        return ListedReader(self)

class ListedReader(CaptionReader):
    tables = ("list.txt",)

    def rows(self, place):
        file = place / "list.txt"
        for number, line in enumerate(file.read_text().splitlines(), 1):
            image, _, caption = line.partition(" ")
            yield CaptionRow(file, f"line {number}", (image,), caption)
"""


def test_a_captioned_set_in_a_layout_of_its_own(tmp_path, fresh):
    config = fresh(OWN_LAYOUT).Listed(path="own", size=16, length=8)
    with pytest.raises(DataError, match=r"^own not found under .* \(own is missing\)"):
        load(config, tmp_path)
    for k in range(30):
        paint(tmp_path / f"own/i{k}.png", np.full((16, 16), k))
    (tmp_path / "own/list.txt").write_text("".join(f"i{k}.png this is {k}\n" for k in range(30)))
    data = load(config, tmp_path)

    assert (len(data.train), len(data.validation), len(data.test)) == (24, 3, 3)
    for split in (data.train, data.test):
        assert split.captions[0] == [f"this is {split.images[0, 0, 0, 0]}"]


SHADES = """
import numpy as np
from help_shades import read
from recstudy.recursive import DataConfig
from recstudy.recursive import Arrays, Reader

class Shades(DataConfig):
    '''A set in a module of its own.'''
    name: str = "shades"
    shape = property(lambda self: (1, 4, 4))
    classes = property(lambda self: 2)

    def reader(self):
        return ShadesReader(self)

class ShadesReader(Reader):
    def sources(self, folder):
        return ["labels.txt"]

    def decode(self, folder):
        labels = np.array([read(cell) for cell in (folder / "labels.txt").read_text().split()])
        images = np.zeros((len(labels), 1, 4, 4), np.uint8)
        return Arrays(images, labels, images, labels)
"""


def test_an_edited_reader_and_its_edited_helper_read_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "labels.txt").write_text("0 1 " * 16)
    inverted = SHADES.replace("([read(cell)", "([1 - read(cell)")
    cases = [
        (SHADES, "int(cell)", [0, 1]),
        (inverted, "int(cell)", [1, 0]),
        (inverted, "1 - int(cell)", [0, 1]),
    ]
    for reader, helper, labels in cases:
        (tmp_path / "shades.py").write_text(reader)
        (tmp_path / "help_shades.py").write_text(f"def read(cell):\n    return {helper}\n")
        importlib.invalidate_caches()
        data = load(importlib.import_module("shades").Shades(), tmp_path)
        for name in ("shades", "help_shades"):
            del sys.modules[name]
        assert data.test.labels[:2].tolist() == labels


IMAGES, LABELS = np.zeros((20, 1, 4, 4), np.uint8), np.arange(20) % 3
FLOATS = np.ones((20, 1, 4, 4), np.float32)
FINDINGS = np.eye(3, dtype=np.int64)[LABELS]
GOOD = Arrays(IMAGES, LABELS, IMAGES, LABELS)


@refused(globals(), "changes", "arrays of a reader")
def test_arrays_of_a_reader_are_checked(changes, message):
    several = "several" in changes
    good = GOOD._replace(train_labels=FINDINGS, test_labels=-FINDINGS) if several else GOOD
    changes = {name: array for name, array in changes.items() if name != "several"}
    assert checked(good, Cells(several=several)).train_groups is None
    with pytest.raises(DataError, match=f"^the reader of Cells returned wrong data: {message}.$"):
        checked(good._replace(**changes), Cells(several=several))


@pytest.mark.parametrize(
    ("dtype", "unit", "statistics"),
    [("uint8", 255, None), ("uint16", 65_535, None), ("float32", 1, None), ("float32", 1, 2.0)],
)
def test_images_of_other_types_are_standardised_alike(tmp_path, monkeypatch, dtype, unit, statistics):
    """By hand: of the training images with the values v, mean and deviation of v / unit; or what the config
    states.
    """
    moments = None if statistics is None else ((statistics,), (3.0,))
    monkeypatch.setattr(Cells, "moments", property(lambda self: moments))
    values = np.random.default_rng(0).integers(0, 256, (20, 1, 4, 4)).astype(dtype)
    np.savez(tmp_path / "cells.npz", train_images=values, train_labels=LABELS.astype(np.uint8), test_images=values[:3],
             test_labels=LABELS[:3].astype(np.int32))  # fmt: skip
    data = load(Cells(), tmp_path, hold_out=False)
    scaled = values.astype(np.float64) / unit

    assert (data.train.images.dtype, data.train.labels.dtype) == (
        "uint8" if dtype == "uint8" else "float32",
        "int64",
    )
    assert (*data.mean, *data.std) == pytest.approx(
        (scaled.mean(), scaled.std()) if statistics is None else (2.0, 3.0)
    )
    batch = next(
        Batches(
            data.test, data.mean, data.std, 3, 3, Augment(), 0, torch.device("cpu"), Cells()
        ).evaluation_batches(10)
    )
    assert np.allclose(batch.images.numpy(), (scaled[:3] - data.mean[0]) / data.std[0], atol=1e-5)


class SevenNetwork(Network):
    """Gives seven outputs whatever the classes."""

    def __init__(self, config, shape, classes):
        super().__init__()
        self.head = torch.nn.Linear(16, 7)

    def start(self, images, context=None):
        return ()

    def forward(self, images, carry):
        return Output(self.head(images.flatten(1))), carry


class Seven(ModelConfig):
    family: str = "seven"
    network: ClassVar[str] = f"{__name__}:SevenNetwork"


@refused(globals(), "arrays parts", "data and model of a dry run")
def test_a_dry_run_checks_the_users_data_and_model(tmp_path, arrays, parts, message):
    good = {"train_images": IMAGES, "train_labels": LABELS, "test_images": IMAGES, "test_labels": LABELS}
    config = RunConfig(**{"data": Cells(), "model": CNN(), **parts})
    assert RECURSIVE_MODELS.check_data([config], tmp_path)[0].startswith("Not checked: Cells not found under")
    np.savez(tmp_path / "cells.npz", **good)
    assert RECURSIVE_MODELS.check_data([RunConfig(data=Cells(), model=CNN())], tmp_path) == []
    np.savez(tmp_path / "cells.npz", **(good | arrays))
    with pytest.raises((ConfigError, DataError), match=message):
        RECURSIVE_MODELS.check_data([config], tmp_path)


@refused(globals(), "changes", "captions of a reader")
def test_captions_are_checked(tmp_path, changes, message):
    config = PhantomCaptions(size=16, length=8)
    with pytest.raises(DataError, match=f"^the reader of Phantom .* returned wrong data: {message}.$"):
        checked(read_data(config.reader(), tmp_path)._replace(**changes), config)


@pytest.mark.parametrize(
    ("method", "replacement", "message"),
    [
        ("sources", lambda *args: [], "names no source file. Return the files in `sources`, or the name"),
        (
            "sources",
            lambda *args: "cells.npz",
            "must return a list from `sources`, but returned the text 'cells.npz'.",
        ),
        (
            "sources",
            lambda *args: ["far/away.npz"],
            r"Cells not found under .* \(far is missing\). Pass --data DIR or set REC",
        ),
        (
            "decode",
            lambda *args: tuple(GOOD),
            "must return a recstudy.recursive.Arrays, but returned a tuple.",
        ),
        (
            "decode",
            lambda *args: {}["pictures"],
            r"failed: test_own_reader.py, line \d+: KeyError: .*pictures",
        ),
    ],
)
def test_invalid_reader_is_named(tmp_path, monkeypatch, method, replacement, message):
    (tmp_path / "cells.npz").touch()
    monkeypatch.setattr(CellsReader, method, replacement)
    with pytest.raises(DataError, match=f"^(the reader of Cells )?[^\n]*{message}[^\n]*$"):
        load(Cells(), tmp_path)
    with pytest.raises(
        ConfigError, match=r"has no reader. Define `reader`, which returns a recstudy.recursive.Reader$"
    ):
        DataConfig.reader(Cells())
