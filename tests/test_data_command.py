"""`recstudy data`: drawn puzzles in the authors' layout, read back bit for bit; whole or not at all; and all of them checked."""

import json

import numpy as np
import pytest
import torch

from recstudy.command import main
from recstudy.data import Maze, PuzzleFolder, Sudoku, official_layout
from recstudy.data.cache import load
from recstudy.data.official_layout import description
from recstudy.data.puzzle_files import check_rules, read_all
from recstudy.errors import DataError

SMALL = ("--puzzles", "20", "--test-puzzles", "16")
DRAWN = {
    "sudoku4": Sudoku(side=4, puzzles=20, test_puzzles=16, drawing_seed=2, augmentations=3),
    "maze9": Maze(side=9, puzzles=20, test_puzzles=16, drawing_seed=2, augmentations=3),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))


def run(capsys, *arguments):
    with pytest.raises(SystemExit, match=r"^\d+$") as ended:
        main(["data", *map(str, arguments)])
    return ended.value.code, *capsys.readouterr()


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_written_is_read_back_bit_for_bit(tmp_path, capsys, name):
    config = DRAWN[name]
    code, out, errors = run(capsys, name, tmp_path / "made", *SMALL, "--augmentations", 3, "--seed", 2)
    folder = PuzzleFolder(path="made", vocabulary=config.classes, rows=config.side, columns=config.side)

    found, drawn = folder.reader().read(tmp_path), config.reader().decode(tmp_path)

    assert (code, errors) == (0, "")
    assert out.splitlines()[0] == f"{config.title}: 20 puzzles that train, 16 that test, in {tmp_path / 'made'}"
    assert f"PuzzleFolder(path=..., vocabulary={config.classes}, rows={config.side}, columns={config.side})" in out
    assert np.array_equal(found.train_images[::4], drawn.train_images)
    assert np.array_equal(found.train_labels[::4], drawn.train_labels)
    assert np.array_equal(found.test_images, drawn.test_images)
    assert np.array_equal(found.test_labels, drawn.test_labels)
    assert found.train_groups.tolist() == np.repeat(np.arange(20), 4).tolist()
    assert found.train_puzzles.tolist() == list(range(80))
    assert found.train_ids.tolist() == [0] * 80
    for part, images, labels in (
        ("train", found.train_images, found.train_labels),
        ("test", found.test_images, found.test_labels),
    ):
        assert config.lawful(images.reshape(labels.shape), labels).all()
        for kind, array in (("inputs", images.reshape(labels.shape)), ("labels", labels)):
            stored = np.load(tmp_path / f"made/{part}/all__{kind}.npy")
            assert (stored.dtype, stored.tobytes()) == (np.uint8, array.tobytes())
    assert json.loads((tmp_path / "made/identifiers.json").read_text()) == ["<blank>"]
    about = description(tmp_path / "made/train")
    assert (about.total_groups, about.total_puzzles, about.seq_len, about.sets) == (20, 20, config.cells, ["all"])


def test_training_shows_the_symmetries_that_are_written(tmp_path, capsys):
    config = DRAWN["sudoku4"]
    run(capsys, "sudoku4", tmp_path / "made", *SMALL, "--augmentations", 3, "--seed", 2)
    written = np.load(tmp_path / "made/train/all__inputs.npy").reshape(20, 4, 16)
    drawn, rows = config.reader().decode(tmp_path), np.repeat(np.arange(20), 12)

    given, _ = config.shown(
        5, torch.from_numpy(drawn.train_images[rows]), torch.from_numpy(drawn.train_labels[rows]), rows, np.arange(240)
    )

    for row, grid in zip(rows, given.flatten(1).numpy(), strict=True):
        assert grid.tolist() in written[row].tolist()


def test_what_is_stopped_leaves_nothing(tmp_path, capsys, monkeypatch):
    def split(folder, *arguments):
        write(folder, *arguments)
        if folder.name == "test":
            raise KeyboardInterrupt

    write = official_layout._write_split
    monkeypatch.setattr(official_layout, "_write_split", split)

    code, out, errors = run(capsys, "sudoku4", tmp_path / "place/made", *SMALL)

    assert (code, out, errors) == (130, "", "Stopped. Nothing was written.\n")
    assert not list((tmp_path / "place").iterdir())


def test_half_a_folder_is_not_read(tmp_path, capsys):
    """As a kill leaves it, under a name of its own; or as copying it leaves it."""
    run(capsys, "sudoku4", tmp_path / "made", *SMALL)
    folder = PuzzleFolder(path="made", vocabulary=6, rows=4, columns=4)
    file = tmp_path / "made/test/all__labels.npy"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"test/all__labels.npy is damaged or missing"):
        load(folder, tmp_path)
    (tmp_path / "made").rename(tmp_path / ".made.0a1b2c3d.tmp")
    with pytest.raises(DataError, match=r"not found under .* \(made/train is missing\)"):
        load(folder, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["sudoku5", "new"],
            "ConfigError: no puzzles are called 'sudoku5': there are sudoku4, sudoku6, sudoku9 and mazes by their",
        ),
        (["maze", "new"], "no puzzles are called 'maze'"),
        (["maze30", "new"], "side must be odd, but got 30"),
        (["sudoku4", "new", "--puzzles", 3], "'data.puzzles' must be greater than or equal to 16, but got 3"),
        (["sudoku4", "new", "--augmentations", -1], "'data.augmentations' must be greater than or equal to 0, but got -1"),
        (["sudoku4", "there"], "ConfigError: there is there already. Give another name, or remove it first."),
        (["sudoku4", "file/new", *SMALL], "StorageError: cannot write file/new: "),
        (["sudoku4", "there", "--check"], "DataError: there has neither train/dataset.json nor train.csv. Give the folder that"),
    ],
)
def test_bad_input_is_one_line(tmp_path, capsys, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("")

    code, out, errors = run(capsys, *arguments)

    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert said in errors
    assert not (tmp_path / "new").exists()


def test_all_puzzles_are_checked_where_runs_look_at_a_sample(tmp_path, capsys):
    """Of example 1, which is in no sample of 300, one cell is given."""
    run(capsys, "sudoku4", tmp_path / "made", "--puzzles", 300, "--test-puzzles", 16)
    assert run(capsys, "sudoku4", tmp_path / "made", "--check") == (
        0, f"{tmp_path / 'made'}: 300 puzzles that train, 16 that test; all are right\n", "",
    )  # fmt: skip
    file = tmp_path / "made/train/all__inputs.npy"
    inputs, labels = np.load(file), np.load(file.with_name("all__labels.npy"))
    inputs[1] = [labels[1, 0], *[1] * 15]
    np.save(file, inputs)
    config = Sudoku(side=4)

    check_rules(read_all(tmp_path / "made", config), config, tmp_path / "made", sample=100)
    code, out, errors = run(capsys, "sudoku4", tmp_path / "made", "--check")

    assert (code, out) == (2, "")
    assert errors == f"DataError: {tmp_path}/made/train, example 1: the puzzle has more than one solution. Mend or remove it.\n"
