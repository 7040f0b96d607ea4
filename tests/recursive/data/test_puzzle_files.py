"""Puzzles from files: the layout of the authors of HRM and TRM, their CSV files, and what is wrong with
some.
"""

import json
import mmap

import numpy as np
import pytest
import torch
from layouts import check_refusal, refusals
from refusals import refused

from recstudy.base.errors import DataError
from recstudy.recursive import Augment, Grid, MazeHard, PuzzleFolder, Sudoku, SudokuExtreme
from recstudy.recursive.data.batches import Batches
from recstudy.recursive.data.cache import load
from recstudy.recursive.data.reading import read_data

FOLDER = PuzzleFolder(path="puzzles", vocabulary=5, rows=2, columns=2)
ABOUT = {
    "pad_id": 0, "ignore_label_id": 0, "blank_identifier_id": 0, "vocab_size": 5, "seq_len": 4, "num_puzzle_identifiers": 3,
    "total_groups": 2, "mean_puzzle_examples": 1.5, "total_puzzles": 3, "sets": ["all"],
}  # fmt: skip


def arrays(**changes):
    """Group 0 has puzzles 0 (two examples) and 1 (one), group 1 has puzzle 2 (two)."""
    inputs = (np.arange(20) % 4 + 1).reshape(5, 4).astype(np.uint8)
    rest = {"puzzle_identifiers": [1, 0, 2], "puzzle_indices": [0, 2, 3, 5], "group_indices": [0, 2, 3]}
    rest = {name: np.array(values, np.int32) for name, values in rest.items()}
    return {"inputs": inputs, "labels": inputs[::-1].copy(), **rest, **changes}


def write(folder, part="train", about=None, sets=None):
    place = folder / "puzzles" / part
    place.mkdir(parents=True, exist_ok=True)
    (place / "dataset.json").write_text(json.dumps(ABOUT | (about or {})))
    for name, set_arrays in (sets or {"all": arrays()}).items():
        for kind, array in set_arrays.items():
            np.save(place / f"{name}__{kind}.npy", array)


def batches_of(config, split, classes):
    """Batches of whole epochs, and the first of them."""
    batches = Batches(
        split,
        (0.0,),
        (1 / 255,),
        classes,
        24,
        Augment(),
        0,
        torch.device("cpu"),
        data=config,
        context=Grid.context,
    )
    return batches, next(batches.epoch(0))


@pytest.fixture
def folder(tmp_path):
    for part in ("train", "test"):
        write(tmp_path, part)
    return tmp_path


def test_the_official_layout_is_read_as_it_is(folder):
    decoded, split = read_data(FOLDER.reader(), folder), load(FOLDER, folder, hold_out=False)

    assert decoded.train_images.tolist() == arrays()["inputs"].reshape(5, 1, 2, 2).tolist()
    assert decoded.train_labels.tolist() == arrays()["labels"].tolist()
    assert decoded.train_puzzles.tolist() == [0, 0, 1, 2, 2]
    assert decoded.train_ids.tolist() == decoded.test_ids.tolist() == [1, 1, 0, 2, 2]
    assert (decoded.train_groups.tolist(), decoded.test_groups.tolist()) == ([0, 0, 0, 1, 1], [2, 2, 2, 3, 3])
    # 3 1/3 examples an epoch in the mean
    assert (split.group_count, batches_of(FOLDER, split.train, 5)[0].size) == (3, 3)
    base = FOLDER.reader().decode(folder).train_images
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, mmap.mmap)  # tokens stay maps of their files


def test_sets_follow_one_another_and_cells_that_are_not_asked_for_become_0(folder):
    labels = np.array([[-100, 1, 2, -100]], np.int32)
    example = {"inputs": np.full((1, 4), 3, np.int64), "labels": labels, "puzzle_identifiers": np.array([2])}
    example |= {"puzzle_indices": np.array([0, 1]), "group_indices": np.array([0, 1])}
    write(
        folder,
        about={"sets": ["all", "more"], "total_groups": 3, "ignore_label_id": -100},
        sets={"all": arrays(), "more": example},
    )

    decoded = read_data(FOLDER.reader(), folder)

    assert (decoded.train_labels.dtype, decoded.train_labels[-1].tolist()) == (np.uint8, [0, 1, 2, 0])
    assert (decoded.train_puzzles[-1], decoded.train_groups[-1], decoded.train_ids[-1]) == (3, 2, 2)
    assert decoded.test_groups.min() == 3


@refused(globals(), "about changes", "a folder of puzzles that is not whole")
def test_a_folder_that_is_not_whole_is_refused(folder, about, changes, message):
    if isinstance(about, dict):
        write(folder, about=about, sets={"all": arrays(**changes)})
    elif changes is None:
        (folder / "puzzles/train" / about).unlink()
    else:
        (folder / "puzzles/train" / about).write_bytes(changes)

    with pytest.raises(DataError, match=message):
        load(FOLDER, folder)


SUDOKU_SET = Sudoku(side=9, puzzles=24, test_puzzles=16, drawing_seed=3).generate()


def spelled(tokens):
    return "".join(".123456789"[token - 1] for token in tokens)


def tables(folder, place="sudoku-extreme", changed=None, rows=None):
    """Both files as their authors give them; `changed` is the pair of question and answer in line 4 of the
    training file.
    """
    (folder / place).mkdir(exist_ok=True)
    for part, images, labels in (("train", *SUDOKU_SET[:2]), ("test", *SUDOKU_SET[2:4])):
        pairs = rows or [(spelled(q.flatten()), spelled(a)) for q, a in zip(images, labels, strict=True)]
        if changed and part == "train":
            pairs = [*pairs[:2], changed, *pairs[3:]]
        lines = [f"book,{question},{answer},3\n" for question, answer in pairs]
        (folder / place / f"{part}.csv").write_text("source,question,answer,rating\n" + "".join(lines))
    return folder


def test_csv_files_are_read_with_a_dot_or_a_nought_for_a_blank(tmp_path):
    question, answer = spelled(SUDOKU_SET.train_images[2].flatten()), spelled(SUDOKU_SET.train_labels[2])
    tables(tmp_path, changed=(question.replace(".", "0"), answer))

    decoded = read_data(SudokuExtreme().reader(), tmp_path)

    assert all(map(np.array_equal, decoded[:4], SUDOKU_SET[:4]))
    assert (decoded.train_groups, decoded.train_puzzles, decoded.test_ids.tolist()) == (None, None, [0] * 16)


@pytest.mark.parametrize(
    ("header", "separator"),
    [
        ("n,quizzes,solutions,m", ","),
        ("id,Puzzle,Solution,clues", ";"),
        ("n,question,answer,m", "\t"),
        ("n,question,answer,m", "|"),
        ("sep=;\nn , question , answer,m", ";"),  # as Excel writes it, with spaces around cells
        ('"sep=;"\nn,question,answer,m', ";"),
    ],
)
def test_csv_files_of_other_publishers_are_read(tmp_path, header, separator):
    """With a byte order mark, other names and separators, and a blank last line."""
    tables(tmp_path)
    for file in (tmp_path / "sudoku-extreme").iterdir():
        text = file.read_text().replace("source,question,answer,rating", header).replace(",", separator)
        file.write_text(text + "\n", encoding="utf-8-sig")

    decoded = read_data(SudokuExtreme().reader(), tmp_path)

    assert all(map(np.array_equal, decoded[:4], SUDOKU_SET[:4]))


def test_an_open_quotation_mark_is_named_by_its_line(tmp_path):
    tables(tmp_path)
    file = tmp_path / "sudoku-extreme/train.csv"
    lines = file.read_text().splitlines()
    lines[5] = lines[5].replace("book,", 'book,"')
    for rows in (lines, lines * 50):  # more than the 131,072 characters that csv allows a cell
        file.write_text("\n".join(rows) + "\n")
        with pytest.raises(
            DataError,
            match=r"^[^\n]*sudoku-extreme/train.csv, line 6: [^\n]*Close a quotation mark that opens a cell",
        ):
            load(SudokuExtreme(), tmp_path)


def test_test_puzzles_that_train_and_puzzles_with_two_answers_are_noted(folder):
    """All test puzzles train too. A puzzle of the same grid has another answer, and one of the same grid and
    another id has not.
    """
    inputs = arrays()["inputs"]
    labels = inputs.copy()
    labels[0] = labels[0][::-1]
    write(folder, sets={"all": arrays(labels=labels)})
    write(folder, "test", sets={"all": arrays(labels=inputs)})

    notes = load(FOLDER, folder).notes

    assert notes == (
        "Repeated items: 5 of 5 test puzzles are exact copies of training puzzles",
        "Repeated items: 1 puzzles have several copies with different answers",
    )


def test_puzzles_that_ask_for_nothing_are_left_out_and_counted(folder):
    labels = arrays()["labels"]
    labels[2] = 0
    write(folder, "test", sets={"all": arrays(labels=labels)})

    data = load(FOLDER, folder)

    assert data.notes[0] == "1 of 5 test puzzles have no scored cell and are left out"
    assert (len(data.test), data.test.ids.tolist(), data.test.labels.tolist()) == (
        4,
        [1, 1, 2, 2],
        labels[[0, 1, 3, 4]].tolist(),
    )
    write(folder, "test", sets={"all": arrays(labels=0 * labels)})
    with pytest.raises(
        DataError, match=r"test_labels must have a scored cell .not 0. in at least one puzzle"
    ):
        load(FOLDER, folder)


def test_some_puzzles_train_the_same_for_all_runs_and_others_by_another_seed(tmp_path):
    tables(tmp_path)
    configs = [SudokuExtreme(train_puzzles=16, drawing_seed=seed) for seed in (0, 0, 1)]
    first, repeated, other_seed = (
        read_data(config.reader(), tmp_path).train_labels.tolist() for config in configs
    )

    assert first == repeated != other_seed
    assert len(first) == configs[0].train_size == 16


def test_puzzles_are_transformed_in_training(tmp_path):
    _, batch = batches_of(SudokuExtreme(), load(SudokuExtreme(), tables(tmp_path), hold_out=False).train, 11)
    puzzles = batch.images.flatten(1).byte().numpy()

    assert SudokuExtreme().check_answers(puzzles, batch.labels.numpy()).all()
    assert not {row.tobytes() for row in puzzles} & {
        row.tobytes() for row in SUDOKU_SET.train_images.reshape(24, 81)
    }
    assert batch.context.tolist() == [0] * 24


PUZZLE, RIGHT = spelled(SUDOKU_SET.train_images[0].flatten()), spelled(SUDOKU_SET.train_labels[0])


@refused(globals(), "pair", "a wrong puzzle")
@pytest.mark.parametrize("blank_lines", [0, 1])
def test_a_wrong_puzzle_is_named_by_its_line(tmp_path, pair, message, blank_lines):
    tables(tmp_path, changed=pair)
    file = tmp_path / "sudoku-extreme/train.csv"
    header, rows = file.read_text().split("\n", 1)
    file.write_text(header + "\n" * (1 + blank_lines) + rows)

    with pytest.raises(DataError, match=rf"sudoku-extreme/train.csv, line {4 + blank_lines}: {message}"):
        load(SudokuExtreme(), tmp_path)


@pytest.mark.parametrize(("edit", "message"), refusals("puzzles without columns"))
def test_files_without_the_columns_or_without_puzzles_are_refused(tmp_path, edit, message):
    tables(tmp_path)
    config = SudokuExtreme(train_puzzles=1000)
    check_refusal(tmp_path / "sudoku-extreme", edit, message, lambda: load(config, tmp_path))


def test_mazes_of_csv_files_are_read_and_checked_by_their_rules(tmp_path):
    """A corridor from the upper left to the upper right, and a detour beneath it that is no shortest path."""
    question, answer, detour = (
        f"S{way}{'#' * 840}"
        for way in (" " * 28 + "G" + " " * 30, "o" * 28 + "G" + " " * 30, " " * 28 + "G" + "o" * 30)
    )
    tables(tmp_path, "maze-30x30-hard-1k", rows=[(question, answer)] * 16)
    decoded = read_data(MazeHard().reader(), tmp_path)

    assert decoded.train_images.shape == (16, 1, 30, 30)
    assert decoded.train_images[0, 0, 0, [0, 1, 29]].tolist() == [3, 2, 4]
    assert decoded.test_labels[0, [0, 1, 29, 30, 60]].tolist() == [3, 5, 4, 2, 1]
    tables(tmp_path, "maze-30x30-hard-1k", rows=[(question, answer)] * 16, changed=(question, detour))
    with pytest.raises(
        DataError, match=r"train.csv, line 4: the answer breaks a rule or changes a given cell."
    ):
        load(MazeHard(), tmp_path)


def test_sudoku_extreme_in_the_official_layout_is_known_by_what_lies_there(tmp_path):
    """Two puzzles a group: symmetries are in the files, and none are drawn."""
    about = {"vocab_size": 11, "seq_len": 81, "num_puzzle_identifiers": 1, "total_groups": 12}
    set_arrays = {
        "inputs": SUDOKU_SET.train_images.reshape(24, 81),
        "labels": SUDOKU_SET.train_labels,
        "group_indices": np.arange(0, 25, 2),
    }
    set_arrays |= {"puzzle_identifiers": np.zeros(24, np.int32), "puzzle_indices": np.arange(25)}
    for part in ("train", "test"):
        write(tmp_path, part, about, {"all": set_arrays})
    config = SudokuExtreme(path="puzzles")
    batches, batch = batches_of(config, load(config, tmp_path, hold_out=False).train, 11)

    assert batches.size == len(batch.images) == 12
    assert {row.tobytes() for row in batch.images.flatten(1).byte().numpy()} <= {
        row.tobytes() for row in set_arrays["inputs"]
    }
    with pytest.raises(
        DataError, match=r"has 12 groups of puzzles, but data.train_puzzles is 1,000. Set it to 12,"
    ):
        load(SudokuExtreme(path="puzzles", train_puzzles=1000), tmp_path)
    write(tmp_path, "test", about, {"all": set_arrays | {"labels": set_arrays["labels"][::-1]}})
    with pytest.raises(DataError, match=r"puzzles/test, example 0: the answer breaks a rule"):
        load(config, tmp_path)
