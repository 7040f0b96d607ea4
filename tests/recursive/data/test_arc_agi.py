"""ARC-AGI from Kaggle's files: canvases, augmentations and moves, what trains and what tests, a whole run,
and bad files.
"""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from recstudy.base.errors import DataError
from recstudy.programs.trial import run_trial
from recstudy.recursive import TRM, ArcAgi, RunConfig, TrainConfig
from recstudy.recursive.data.arc_agi import canvas, read_tasks
from recstudy.recursive.data.cache import load
from recstudy.recursive.data.puzzles import Groups
from recstudy.recursive.data.reading import read_data
from recstudy.recursive.metrics.arc import Augmented, augmented, cropped
from recstudy.recursive.testing import make_trial

SIDE = 5
TINY = ArcAgi(side=SIDE, augmentations=3)


def pair(draws, height, width):
    """A grid, and the same from right to left."""
    grid = draws.integers(0, 10, (height, width))
    return {"input": grid.tolist(), "output": grid[:, ::-1].tolist()}


def make_tasks(names, seed):
    """Challenges and solutions of a dozen or so tasks of three pairs; the second task asks for two."""
    draws = np.random.default_rng(seed)
    pairs = {
        name: [pair(draws, *draws.integers(1, 4, 2)) for _ in range(4 + (position == 1))]
        for position, name in enumerate(names)
    }
    challenges = {
        name: {"train": task_pairs[:3], "test": [{"input": example["input"]} for example in task_pairs[3:]]}
        for name, task_pairs in pairs.items()
    }
    return challenges, {
        name: [example["output"] for example in task_pairs[3:]] for name, task_pairs in pairs.items()
    }


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "arc_agi").mkdir()
    for seed, (name, tasks) in enumerate({"training": "abcdefgh", "evaluation": "wxyz"}.items()):
        for kind, content in zip(("challenges", "solutions"), make_tasks(tasks, seed), strict=True):
            (tmp_path / f"arc_agi/arc-agi_{name}_{kind}.json").write_text(json.dumps(content))
    return tmp_path


def grids(folder, name):
    """By task: all of its pairs."""
    return {task.name: [(input_grid.tolist(), answer.tolist()) for input_grid, answer in (*task.demonstrations, *task.test_pairs)]
            for task in read_tasks(folder / "arc_agi", name)}  # fmt: skip


def undone(decoded, part):
    """By row: its task, the pair as it was before, and how far it stood from the corner."""
    images, labels, ids = (getattr(decoded, f"{part}_{suffix}") for suffix in ("images", "labels", "ids"))
    for row, puzzle in enumerate(ids.tolist()):
        augmentation, grids, steps = augmented(decoded.identifiers[puzzle]), [], set()
        for image in (images[row, 0], labels[row].reshape(SIDE, SIDE)):
            y, x = (int((image > 1).any(axis).argmax()) for axis in (1, 0))
            steps.add((y, x))
            grids.append(augmentation.undone(cropped(image[y:, x:])).rows)
        assert len(steps) == 1, "a pair moves as one"
        yield augmentation.task, tuple(grids), steps.pop()


@pytest.mark.parametrize(
    ("steps", "augmentation", "expected"),
    [
        ((0, 0), (), "2341 56b1 1110 0000"),
        ((2, 1), (), "0000 0000 0234 056b"),
        ((0, 0), (1, (0, 2, 1, 3, 4, 5, 6, 7, 8, 9)), "3b10 4610 2510 1100"),
    ],
)
def test_grid_is_placed_in_the_corner_with_its_edge(steps, augmentation, expected):
    """Two rows of three: EOS where the next row and column would begin, PAD behind; moved; and turned,
    colours 1 and 2 swapped.
    """
    grid = np.zeros((1, 4, 4), np.uint8)
    grid[0, :2, :3] = [[0, 1, 2], [3, 4, 9]]

    laid_grids = canvas(grid, np.array([[2, 3]]), [Augmented("a", *augmentation)], np.array([steps]))[0]
    assert " ".join("".join(f"{cell:x}" for cell in row) for row in laid_grids) == expected


def test_training_and_test_pairs_under_every_augmentation(folder):
    """8 tasks of 3 + 1 pairs (one 3 + 2) train whole; of 4 others 3 pairs train, and 1 (one 2) test. Pairs
    that train are moved about, but one of each puzzle stays in the corner."""
    decoded = read_data(TINY.reader(), folder)
    train, test = grids(folder, "training"), grids(folder, "evaluation")
    expected = {
        "train": [(task, pair) for task, pairs in train.items() for pair in pairs]
        + [(task, pair) for task, pairs in test.items() for pair in pairs[:3]],
        "test": [(task, pair) for task, pairs in test.items() for pair in pairs[3:]],
    }
    decoded_pairs = {part: list(undone(decoded, part)) for part in expected}

    for part, expected_pairs in expected.items():
        assert sorted((task, pair) for task, pair, _ in decoded_pairs[part]) == sorted(expected_pairs * 4)
        assert [
            (task, pair) for task, pair, _ in decoded_pairs[part][: len(expected_pairs)]
        ] == expected_pairs, "as they are first"
    assert {steps for _, _, steps in decoded_pairs["test"]} == {(0, 0)}
    steps = np.array([steps for _, _, steps in decoded_pairs["train"]])
    assert all(
        (steps[decoded.train_ids == puzzle] == 0).all(1).any() for puzzle in np.unique(decoded.train_ids)
    )
    assert ((steps == 0).all(1).mean() < 0.6, steps.max(), steps.min()) == (True, SIDE - 1, 0)
    assert len(decoded.identifiers) == 1 + 12 * 4 == 1 + decoded.train_ids.max()
    assert set(decoded.test_ids) < set(decoded.train_ids)
    assert "4 of 12 tasks are evaluation tasks" in decoded.notes[0]
    assert decoded.notes[1] == "No test pair of an evaluation task is an exact copy of a training pair."
    assert decoded.notes[2].startswith(
        "5 test inputs are answered under every augmentation of their task: 20 answers."
    )


def test_a_test_pair_that_another_task_trains_on_is_noted(folder):
    """Also if it is a demonstration of another evaluation task."""
    contents = {}
    for name in ("evaluation_challenges", "evaluation_solutions", "training_challenges"):
        contents[name] = json.loads((folder / f"arc_agi/arc-agi_{name}.json").read_text())
    tests = {task: {**contents["evaluation_challenges"][task]["test"][0], "output": contents["evaluation_solutions"][task][0]}
             for task in "wy"}  # fmt: skip
    contents["training_challenges"]["a"]["train"][0] = tests["w"]
    contents["evaluation_challenges"]["z"]["train"][2] = tests["y"]
    for name, content in contents.items():
        (folder / f"arc_agi/arc-agi_{name}.json").write_text(json.dumps(content))

    notes = read_data(TINY.reader(), folder).notes

    assert (
        notes[1] == "Repeated items: 2 of 5 test pairs are also training pairs of other tasks (w = a, y = z)"
    )
    assert not any("never" in note for note in notes)


def test_kaggle_s_folder_of_version_2_is_read_and_not_taken_for_version_1(folder):
    """It has the file names of version 1, and 120 evaluation tasks."""
    for kind, content in zip(
        ("challenges", "solutions"), make_tasks([f"t{task}" for task in range(120)], 3), strict=True
    ):
        (folder / f"arc_agi/arc-agi_evaluation_{kind}.json").write_text(json.dumps(content))

    assert (
        "120 of 128 tasks are evaluation tasks"
        in read_data(TINY.model_copy(update={"version": 2}).reader(), folder).notes[0]
    )
    with pytest.raises(
        DataError,
        match=r"arc-agi_evaluation_challenges.json has 120 tasks, as ARC-AGI-2 has. Set data.version=2.$",
    ):
        load(TINY, folder)


def test_augmentations_are_the_same_whatever_else_is_read(folder):
    three_identifiers, five_identifiers = (
        read_data(TINY.model_copy(update={"augmentations": count}).reader(), folder).identifiers
        for count in (3, 5)
    )
    other_seed = read_data(TINY.model_copy(update={"drawing_seed": 1}).reader(), folder).identifiers

    assert set(three_identifiers) < set(five_identifiers)
    assert len(set(five_identifiers)) == len(five_identifiers) == 1 + 12 * 6
    assert set(other_seed) & set(three_identifiers) == {"<blank>", *"abcdefghwxyz"}


@pytest.mark.parametrize("whole_tasks", [True, False])
def test_whole_tasks_show_all_pairs_of_a_training_task_under_one_augmentation(folder, whole_tasks):
    """8 tasks of 4 pairs that train, one of 5, and 4 of which 3 do: 45 examples an epoch either way.
    Validation asks what the training tasks ask."""
    config = TINY.model_copy(update={"whole_tasks": whole_tasks})
    decoded, counts = (
        read_data(config.reader(), folder),
        {**dict.fromkeys("abcdefgh", 4), "b": 5, **dict.fromkeys("wxyz", 3)},
    )
    groups = Groups(decoded.train_groups, decoded.train_puzzles)
    augmentations = [
        augmented(decoded.identifiers[row])
        for row in decoded.train_ids[groups.one_of_each(np.random.default_rng(0))]
    ]

    assert Counter(augmentation.task for augmentation in augmentations) == counts
    assert groups.examples == 45
    assert (len(set(augmentations)) == len(counts)) == whole_tasks, "one augmentation a task"
    data = load(config, folder)
    if whole_tasks:
        assert not set(data.validation.groups[data.validation.rows]) & set(data.train.groups[data.train.rows])
    else:
        assert (len(data.train), len(data.validation), len(data.test), data.group_count) == (
            4 * 36,
            4 * 9,
            4 * 5,
            49,
        )
        asked_tasks = {
            augmented(data.identifiers[row]).task for row in data.validation.ids[data.validation.rows]
        }
        assert asked_tasks == set("abcdefgh")


def test_a_run_ends_with_its_attempts(folder):
    model = TRM(tokens="cell", width=16, heads=2, layers=1, cycles=1, latent_steps=1, prefix=1,
                puzzle_emb="puzzle", identifiers=49)  # fmt: skip
    train = TrainConfig(epochs=1, batch_size=32, supervision_steps=2, evaluation_steps=2, selection="last")
    trial = make_trial(folder, RunConfig(data=TINY, model=model, train=train))
    run_trial(trial, lambda line: None)
    result, attempts = (
        json.loads((Path(trial.folder) / name).read_text()) for name in ("result.json", "submission.json")
    )

    assert 0 <= result["metrics"]["pass_at_1"] <= result["metrics"]["pass_at_2"] <= 100
    assert {task: len(task_attempts) for task, task_attempts in attempts.items()} == {
        "w": 1,
        "x": 2,
        "y": 1,
        "z": 1,
    }
    assert all(
        set(attempt) == {"attempt_1", "attempt_2"}
        for task_attempts in attempts.values()
        for attempt in task_attempts
    )
    # the inputs and copies of a task are one draw
    assert (result["answers"]["of"], result["answers"]["draws"]) == (20, 4)


# ------------------------------------------------------------------------------------------------------ bad
# files


GRIDS = "a grid must have rows of equal length with integers from 0 to 9. Correct it."


@refused(globals(), "place value", "an invalid task")
def test_invalid_task_is_named(folder, place, value, message):
    file = folder / "arc_agi/arc-agi_training_challenges.json"
    tasks = node = json.loads(file.read_text())
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    file.write_text(json.dumps(tasks))

    with pytest.raises(DataError, match=message):
        load(TINY, folder)


@refused(globals(), "content", "missing and damaged tasks")
def test_missing_and_damaged_files_are_named(folder, content, message):
    with pytest.raises(DataError, match=r"has no task whose grids are at most 2x2. Raise data.side"):
        load(ArcAgi(side=2, augmentations=0), folder)
    file = folder / "arc_agi/arc-agi_training_solutions.json"
    file.unlink() if content is None else file.write_text(content)
    with pytest.raises(DataError, match=message):
        load(TINY, folder)


@pytest.mark.parametrize(("version", "side"), [(1, 30), (1, 10), (2, 30)])
def test_the_test_inputs_of_the_public_tasks_are_counted(real_data, version, side):
    if not (real_data / "arc_agi").is_dir():
        pytest.skip("RECSTUDY_DATA holds no arc_agi")
    config = ArcAgi(version=version, side=side, augmentations=0)

    assert len(read_data(config.reader(), real_data).test_images) == config.test_size
