"""A data set from outside: a config and its reader, as `Reader` documents them."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

from recstudy.config import DATASETS, DataConfig, RunConfig, Shape, configure
from recstudy.data import Captioned, Decoded, Reader
from recstudy.data.cache import load
from recstudy.data.text import with_tokens
from recstudy.errors import ConfigError, DataError
from recstudy.models import CNN


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

    def decode(self, folder: Path) -> Decoded:
        with np.load(folder / self.config.path) as file:
            return Decoded(**file)


def arrays(**changes: Any) -> dict[str, Any]:
    """20 training images of value k and 10 test images of value 100 + k, in three classes."""
    values = {
        "train_images": np.broadcast_to(np.arange(20, dtype=np.uint8)[:, None, None, None], (20, 1, 4, 4)),
        "train_labels": np.arange(20) % 3,
        "test_images": np.broadcast_to(np.arange(100, 110, dtype=np.uint8)[:, None, None, None], (10, 1, 4, 4)),
        "test_labels": np.arange(10) % 3,
    }
    return values | changes


def labelled(**changes: Any) -> dict[str, Any]:
    """The same with three labels an image."""
    train, test = (np.eye(3, dtype=np.int64)[np.arange(count) % 3] for count in (20, 10))
    return arrays(**{"train_labels": train, "test_labels": test} | changes)


def write(folder: Path, values: dict[str, Any]) -> Path:
    np.savez(folder / "cells.npz", **{name: value for name, value in values.items() if value is not None})
    return folder


def test_an_npz_file_is_a_data_set_that_is_read_anew_where_it_changed(tmp_path):
    data = load(Cells(), write(tmp_path, arrays()))

    assert (len(data.train), len(data.validation), len(data.test), data.classes) == (18, 2, 10, 3)
    assert (data.train.images[:, 0, 0, 0].tolist(), data.train.labels.tolist()) == (list(range(20)), [k % 3 for k in range(20)])
    assert data.test.images[:, 0, 3, 3].tolist() == list(range(100, 110))
    after = load(Cells(), write(tmp_path, arrays(train_labels=np.arange(20) // 7)))
    assert after.checksum != data.checksum
    assert after.train.labels.tolist() == [k // 7 for k in range(20)]


def test_several_labels_groups_and_a_validation_split_of_its_own(tmp_path):
    groups, held = np.arange(20) // 2, np.arange(20) >= 16
    values = labelled(train_groups=groups, test_groups=10 + np.arange(10) // 5, train_held=held)
    data = load(Cells(several=True), write(tmp_path, values))

    assert (data.validation.rows.tolist(), data.train.labels.shape) == ([16, 17, 18, 19], (20, 3))
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
    known = dict(DATASETS)
    yield imported
    DATASETS.clear()
    DATASETS.update(known)
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
from recstudy.data import DATASETS, CaptionFiles, CaptionReader, CaptionRow

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
    config = fresh(OWN_LAYOUT).Listed(path="own", size=16, length=8, tokenizer="word", vocabulary=16)
    with pytest.raises(DataError, match=r"^own not found under .* \(own is missing\)"):
        load(config, tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own/list.txt").write_text("".join(f"i{k}.png this is {k % 2}\n" for k in range(30)))
    for k in range(30):
        Image.new("RGB", (16, 16), (k, k, k)).save(tmp_path / f"own/i{k}.png")
    data = load(config, tmp_path)

    assert (len(data.train), len(data.validation), len(data.test)) == (24, 3, 3)
    for split in (data.train, data.test):
        assert split.captions[0] == [f"this is {split.images[0, 0, 0, 0] % 2}"]


READER = """
import numpy as np
from recstudy.config import DataConfig
from recstudy.data import Decoded, Reader

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
        labels = np.array([int(cell) for cell in (folder / "labels.txt").read_text().split()])
        images = np.zeros((len(labels), 1, 4, 4), np.uint8)
        return Decoded(images, labels, images, labels)
"""


@pytest.fixture
def shades(tmp_path, monkeypatch):
    """Labels of the set of READER's source, once edited by `change`; a module `shades_N` each."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "labels.txt").write_text("0 1 " * 16)

    def labels(*change: str) -> list[int]:
        assert not change or change[0] in READER
        (tmp_path / "shades.py").write_text(READER.replace(*change) if change else READER)
        sys.modules.pop("shades", None)
        importlib.invalidate_caches()
        data = load(importlib.import_module("shades").Shades(), tmp_path)
        return data.test.labels[:4].tolist()

    yield labels
    sys.modules.pop("shades", None)


def test_an_edited_reader_is_asked_anew(shades):
    assert shades() == [0, 1, 0, 1]
    assert shades("np.array([int(cell)", "np.array([1 - int(cell)") == [1, 0, 1, 0]


def test_an_edited_helper_of_a_reader_is_asked_anew(shades, tmp_path):
    imports = READER.replace("import numpy as np", "import numpy as np\nfrom help_shades import read")
    for body, labels in (("int(cell)", [0, 1, 0, 1]), ("1 - int(cell)", [1, 0, 1, 0])):
        (tmp_path / "help_shades.py").write_text(f"def read(cell):\n    return {body}\n")
        sys.modules.pop("help_shades", None)
        assert shades(READER, imports.replace("int(cell)", "read(cell)")) == labels
    del sys.modules["help_shades"]


IMAGES, LABELS = arrays()["train_images"], arrays()["train_labels"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_images": IMAGES / 255}, "train_images must be uint8, but are float64"),
        ({"test_images": IMAGES[:, 0]}, "test_images must have the shape (N, 1, 4, 4) (N, C, H, W), but have (20, 4, 4)"),
        ({"test_images": IMAGES[:, :, :2]}, "test_images must have the shape (N, 1, 4, 4) (N, C, H, W), but have (20, 1, 2, 4)"),
        ({"train_images": IMAGES[:0]}, "train_images must not be empty"),
        ({"train_labels": LABELS.astype(np.int32)}, "train_labels must be int64 for the task 'multiclass', but are int32"),
        ({"train_labels": LABELS[:19]}, "train_labels must have the shape (20,) (N) for the task 'multiclass', but have (19,)"),
        ({"train_labels": LABELS + 1}, "train_labels must be from 0 to 2, but are from 1 to 3"),
        ({"train_labels": LABELS - 1}, "train_labels must be from 0 to 2, but are from -1 to 1"),
        ({"train_groups": np.arange(20)}, "test_groups are missing: give both splits' groups, or none"),
        ({"train_groups": np.arange(20), "test_groups": np.arange(10)},
         "test_groups must not have groups of train_groups, but both have 0"),
        ({"train_groups": np.arange(20) - 1, "test_groups": np.arange(30, 40)},
         "train_groups must be numbered from 0 on, but one is -1"),
        ({"train_held": np.ones(20, bool)},
         "train_held must hold out some images and leave some; None where the set holds out none"),
        ({"train_held": np.arange(20) > 10, "train_groups": np.arange(20) // 3, "test_groups": np.arange(10) + 20},
         "train_held must hold out whole groups, but divides group 3"),
        ({"several": True, "train_labels": LABELS},
         "train_labels must have the shape (20, 3) (N, classes) for the task 'multilabel', but have (20,)"),
        ({"several": True, "train_labels": np.full((20, 3), 2)}, "train_labels must be from -1 to 1, but are from 2 to 2"),
    ],
)  # fmt: skip
def test_what_a_reader_gives_is_checked(tmp_path, changes, message):
    changes = dict(changes)
    several = changes.pop("several", False)
    with pytest.raises(DataError, match=f"^the reader of Cells gave wrong data: {re.escape(message)}.$"):
        load(Cells(several=several), write(tmp_path, (labelled if several else arrays)(**changes)))


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("sources", lambda *args: [], "names no source file. Name them in `sources`, or in `program`"),
        ("sources", lambda *args: "cells.npz", "must give a list of sources, but gave the text 'cells.npz'."),
        (
            "sources",
            lambda *args: ["far/away.npz"],
            r"Cells not found under .* \(far is missing\). Pass --data DIR or set RECSTUDY_DATA.",
        ),
        ("decode", lambda *args: tuple(arrays().values()), "must give a recstudy.data.Decoded, but gave a tuple."),
        (
            "decode",
            lambda *args: Decoded(**arrays(train_labels=[0] * 20)),
            r"train_labels must be a numpy array \(N\), but is list.",
        ),
        ("decode", lambda *args: {}["pictures"], r"failed: test_own_reader.py, line \d+: KeyError: .*pictures"),
    ],
)
def test_a_reader_that_is_none_is_named(tmp_path, monkeypatch, method, given, message):
    monkeypatch.setattr(CellsReader, method, given)
    with pytest.raises(DataError, match=f"^(the reader of Cells )?[^\n]*{message}[^\n]*$"):
        load(Cells(), write(tmp_path, arrays()))
    with pytest.raises(ConfigError, match=r"has no reader. Define `reader`, which gives a recstudy.data.Reader$"):
        DataConfig.reader(Cells())


class Notes(Captioned):
    name: str = "notes"

    def reader(self) -> Reader:
        return NotesReader(self)


class NotesReader(Reader):
    def sources(self, folder: Path) -> list[str]:
        return ["notes.npz"]

    def decode(self, folder: Path) -> Decoded:
        with np.load(folder / "notes.npz") as file:
            captions = [[text] for text in file["captions"].tolist()]
            return with_tokens(self.config, folder, file["images"], captions, train=20, groups=np.arange(30))


@pytest.fixture
def notes(tmp_path) -> Path:
    captions = [f"number {k % 2} is here" for k in range(30)]
    np.savez(tmp_path / "notes.npz", images=np.zeros((30, 3, 16, 16), np.uint8), captions=captions)
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer": None}, "tokenizer must be there for captions, and for nothing else"),
        ({"test_captions": None}, "test_captions must be there for captions, and for nothing else"),
        ({"train_captions": [["a"]]}, "train_captions must be of 20 images, but are of 1"),
        ({"train_captions": ["a"] * 20}, "train_captions[0] must be a list of texts, at least one, but is 'a'"),
        ({"train_labels": np.zeros((20, 4), np.int32)},
         "train_labels must have the shape (20, 8) (N, tokens) for the task 'caption', but have (20, 4)"),
        ({"train_labels": np.full((20, 8), 16, np.int32)}, "train_labels must be from 0 to 15, but are from 16 to 16"),
    ],
)  # fmt: skip
def test_captions_are_checked(notes, monkeypatch, changes, message):
    config, decode = Notes(size=16, length=8, tokenizer="word", vocabulary=16), NotesReader.decode
    monkeypatch.setattr(NotesReader, "decode", lambda *args: decode(*args)._replace(**changes))
    with pytest.raises(DataError, match=f"^the reader of Notes gave wrong data: {re.escape(message)}.$"):
        load(config, notes)
