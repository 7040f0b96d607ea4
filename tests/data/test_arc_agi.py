"""ARC-AGI from Kaggle's files: canvases, augmentations and moves, what trains and what tests, a whole run, and bad files."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from recstudy.config import RunConfig, TrainConfig
from recstudy.data import ArcAgi
from recstudy.data.arc_agi import canvas, read_tasks
from recstudy.data.cache import load
from recstudy.data.puzzles import Groups
from recstudy.errors import DataError
from recstudy.metrics.arc import Augmented, augmented, cropped
from recstudy.models import TRM
from recstudy.testing import make_trial
from recstudy.train.trial import run_trial

SIDE = 5
TINY = ArcAgi(side=SIDE, augmentations=3)


def pair(draws, height, width):
    """A grid, and the same from right to left."""
    grid = draws.integers(0, 10, (height, width))
    return {"input": grid.tolist(), "output": grid[:, ::-1].tolist()}


def made(names, seed):
    """Challenges and solutions of a dozen or so tasks of three pairs; the second task asks for two."""
    draws = np.random.default_rng(seed)
    pairs = {name: [pair(draws, *draws.integers(1, 4, 2)) for _ in range(4 + (at == 1))] for at, name in enumerate(names)}
    challenges = {name: {"train": own[:3], "test": [{"input": one["input"]} for one in own[3:]]} for name, own in pairs.items()}
    return challenges, {name: [one["output"] for one in own[3:]] for name, own in pairs.items()}


def write(folder, change=None):
    """`change` alters challenges and solutions of the training tasks."""
    place = folder / "arc_agi"
    place.mkdir(exist_ok=True)
    for seed, (name, tasks) in enumerate({"training": "abcdefgh", "evaluation": "wxyz"}.items()):
        both = made(tasks, seed)
        if change and name == "training":
            change(*both)
        for kind, content in zip(("challenges", "solutions"), both, strict=True):
            (place / f"arc-agi_{name}_{kind}.json").write_text(json.dumps(content))
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    return write(tmp_path)


def grids(folder, name):
    """By task: all of its pairs."""
    return {task.name: [(given.tolist(), answer.tolist()) for given, answer in (*task.shown, *task.asked)]
            for task in read_tasks(folder / "arc_agi", name)}  # fmt: skip


def undone(decoded, part):
    """By row: its task, the pair as it was before, and how far it stood from the corner."""
    images, labels, ids = (getattr(decoded, f"{part}_{what}") for what in ("images", "labels", "ids"))
    for row, puzzle in enumerate(ids.tolist()):
        own, both, steps = augmented(decoded.identifiers[puzzle]), [], set()
        for laid in (images[row, 0], labels[row].reshape(SIDE, SIDE)):
            y, x = (int((laid > 1).any(axis).argmax()) for axis in (1, 0))
            steps.add((y, x))
            both.append(own.undone(cropped(laid[y:, x:])).rows)
        assert len(steps) == 1, "a pair moves as one"
        yield own.task, tuple(both), steps.pop()


def test_a_grid_stands_in_the_corner_with_its_edge():
    """Two rows of three: EOS where the next row and column would begin, PAD behind."""
    grid = np.zeros((1, 4, 4), np.uint8)
    grid[0, :2, :3] = [[0, 1, 2], [3, 4, 9]]

    def laid(steps, *how):
        return canvas(grid, np.array([[2, 3]]), [Augmented("a", *how)], np.array([steps]))[0].tolist()

    assert laid((0, 0)) == [[2, 3, 4, 1], [5, 6, 11, 1], [1, 1, 1, 0], [0, 0, 0, 0]]
    assert laid((1, 0)) == [[0, 0, 0, 0], [2, 3, 4, 1], [5, 6, 11, 1], [1, 1, 1, 0]]
    assert laid((2, 1)) == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 2, 3, 4], [0, 5, 6, 11]]
    assert laid((0, 0), 1) == [[4, 11, 1, 0], [3, 6, 1, 0], [2, 5, 1, 0], [1, 1, 0, 0]]
    assert laid((0, 0), 0, (0, 2, 1, 3, 4, 5, 6, 7, 8, 9))[0] == [2, 4, 3, 1]


def test_what_trains_and_what_tests_under_every_augmentation(folder):
    """8 tasks of 3 + 1 pairs (one 3 + 2) train whole; of 4 others 3 pairs train, and 1 (one 2) test."""
    found = TINY.reader().read(folder)
    train, test = grids(folder, "training"), grids(folder, "evaluation")
    expected = {
        "train": [(task, one) for task, own in train.items() for one in own]
        + [(task, one) for task, own in test.items() for one in own[:3]],
        "test": [(task, one) for task, own in test.items() for one in own[3:]],
    }

    for part, wanted in expected.items():
        seen = list(undone(found, part))
        assert sorted((task, one) for task, one, _ in seen) == sorted(wanted * 4)
        assert [(task, one) for task, one, _ in seen[: len(wanted)]] == wanted, "as they are first"
        assert part == "train" or {steps for _, _, steps in seen} == {(0, 0)}
    assert len(found.identifiers) == 1 + 12 * 4 == 1 + found.train_ids.max()
    assert set(found.test_ids) < set(found.train_ids)
    assert found.train_held.sum() == 4 * 9
    assert "Of 12 tasks 4 are for evaluation" in found.notes[0]
    assert found.notes[1].startswith("5 test inputs are answered under every augmentation of their task, 20 times in all.")


def test_of_each_puzzle_one_pair_stays_in_the_corner(folder):
    found = TINY.reader().read(folder)
    steps = np.array([steps for _, _, steps in undone(found, "train")])
    corner = (steps == 0).all(1)

    assert all(corner[found.train_ids == puzzle].any() for puzzle in np.unique(found.train_ids))
    assert corner.mean() < 0.6
    assert (steps.max(), steps.min()) == (SIDE - 1, 0)


def test_augmentations_are_the_same_whatever_else_is_read(folder):
    few, more = (TINY.model_copy(update={"augmentations": count}).reader().read(folder).identifiers for count in (2, 5))
    other = TINY.model_copy(update={"drawing_seed": 1}).reader().read(folder).identifiers

    assert set(few) < set(more)
    assert len(set(more)) == len(more) == 1 + 12 * 6
    assert set(other) & set(TINY.reader().read(folder).identifiers) == {"<blank>", *"abcdefghwxyz"}


def test_a_task_of_one_colour_has_no_more_than_its_turns(folder):
    def black(challenges, solutions):
        for one in (*challenges["a"]["train"], *challenges["a"]["test"]):
            one.update({kind: [[0, 0]] for kind in one})
        solutions["a"] = [[[0, 0]]]

    names = TINY.model_copy(update={"augmentations": 100}).reader().read(write(folder, black)).identifiers

    assert len([name for name in names if augmented(name).task == "a"]) == 8


def test_validation_asks_what_the_training_tasks_ask(folder):
    data = load(TINY, folder)

    assert (len(data.train), len(data.validation), len(data.test)) == (4 * 36, 4 * 9, 4 * 5)
    assert data.group_count == len(data.identifiers) == 49
    names = {augmented(data.identifiers[one]).task for one in data.validation.ids[data.validation.rows]}
    assert names == set("abcdefgh")
    assert len(load(TINY, folder, hold_out=False).train) == 4 * 45


def test_whole_tasks_show_all_pairs_of_a_training_task_under_one_augmentation(folder):
    """8 tasks of 4 pairs that train, one of 5, and 4 of which 3 do: 45 examples an epoch either way."""
    counts = {**dict.fromkeys("abcdefgh", 4), "b": 5, **dict.fromkeys("wxyz", 3)}
    for whole in (True, False):
        found = TINY.model_copy(update={"whole_tasks": whole}).reader().read(folder)
        groups = Groups(found.train_groups, found.train_puzzles)
        rows = groups.one_of_each(np.random.default_rng(0))
        shown = [augmented(found.identifiers[one]) for one in found.train_ids[rows]]
        assert Counter(one.task for one in shown) == counts
        assert groups.examples == 45
        assert (len(set(shown)) == len(counts)) == whole, "one augmentation a task"
    data = load(TINY.model_copy(update={"whole_tasks": True}), folder)
    held, trained = (set(split.groups[split.rows]) for split in (data.validation, data.train))
    assert (held & trained, len(held | trained)) == (set(), 12)


def test_a_run_ends_with_its_attempts(folder):
    model = TRM(
        tokens="cell", width=16, heads=2, layers=1, cycles=1, latent_steps=1, prefix=1, puzzle_emb="puzzle", identifiers=49
    )
    train = TrainConfig(epochs=2, batch_size=32, supervision_steps=2, evaluation_steps=2, selection="last")
    trial = make_trial(folder, RunConfig(data=TINY, model=model, train=train))

    run_trial(trial, lambda line: None)

    place = Path(trial.folder)
    result, attempts = (json.loads((place / name).read_text()) for name in ("result.json", "submission.json"))
    assert 0 <= result["metrics"]["pass_at_1"] <= result["metrics"]["pass_at_2"] <= 100
    assert {task: len(own) for task, own in attempts.items()} == {"w": 1, "x": 2, "y": 1, "z": 1}
    assert all(set(one) == {"attempt_1", "attempt_2"} for own in attempts.values() for one in own)
    assert (result["answers"]["of"], result["answers"]["draws"]) == (20, 4)  # the inputs and copies of a task are one draw


# ----------------------------------------------------------------------------------------------------- real files


def test_the_small_grids_are_a_subset_and_called_so(real_data):
    """All of ARC-AGI-1: 400 + 400 tasks, 3,081 pairs that train, 419 test inputs."""
    place = real_data / "arc_agi"
    if not place.exists():
        pytest.skip("arc_agi is not below RECSTUDY_DATA")
    sets = {name: read_tasks(place, name) for name in ("training", "evaluation")}
    small = {name: sum(task.side <= 10 for task in own) for name, own in sets.items()}

    assert {name: len(own) for name, own in sets.items()} == {"training": 400, "evaluation": 400}
    assert small == {"training": 178, "evaluation": 77}
    assert sum(len(task.shown) for own in sets.values() for task in own) + 416 == ArcAgi().train_size
    assert ArcAgi(side=10).title == "ARC-AGI-1 (subset of grids up to 10x10)"
    assert ArcAgi(version=2).title == "ARC-AGI-2"


# ------------------------------------------------------------------------------------------------------ bad files


def pop_output(challenges, solutions):
    del challenges["c"]["train"][1]["output"]


def pop_task(challenges, solutions):
    del solutions["c"]


def pop_solution(challenges, solutions):
    solutions["b"].pop()


def set_grid(grid):
    def change(challenges, solutions):
        challenges["c"]["train"][2]["input"] = grid

    return change


def set_solution(challenges, solutions):
    solutions["b"][1] = [[10]]


GRIDS = "a grid must be rows of equal length, of whole numbers from 0 to 9. Mend it."


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (pop_output, "training_challenges.json, task c: it must have pairs in `train` and inputs in `test`. Mend it."),
        (pop_task, "training_solutions.json, task c: there must be 1 solutions, but there are none. Add them."),
        (pop_solution, "training_solutions.json, task b: there must be 2 solutions, but there are 1. Add them."),
        (set_grid([[1, 2], [3]]), f"training_challenges.json, task c, pair 2, input: {GRIDS}"),
        (set_grid([[1.5]]), f"task c, pair 2, input: {GRIDS}"),
        (set_grid([[-1]]), f"task c, pair 2, input: {GRIDS}"),
        (set_grid([]), f"task c, pair 2, input: {GRIDS}"),
        (set_grid("none"), f"task c, pair 2, input: {GRIDS}"),
        (set_grid([[1] * 31]), "task c, pair 2, input: the grid is 1x31, but at most 30x30 is known. Leave the task out."),
        (set_solution, f"training_solutions.json, task b, solution 1: {GRIDS}"),
        (
            lambda challenges, solutions: challenges.update(c=[]),
            "training_challenges.json, task c: it must have pairs in `train`",
        ),
        (
            lambda challenges, solutions: challenges["c"].update(train=[]),
            "training_challenges.json, task c: it has no pairs. Mend",
        ),
    ],
)
def test_a_task_that_is_none_is_named(folder, change, told):
    write(folder, change)

    with pytest.raises(DataError, match=re.escape(told)) as caught:
        load(TINY, folder)

    assert "\n" not in str(caught.value)


def test_missing_and_damaged_files_are_named(folder):
    file = folder / "arc_agi/arc-agi_training_solutions.json"
    with pytest.raises(
        DataError, match=r"arc-agi_training_challenges.json has no task whose grids are at most 2x2. Raise data.side"
    ):
        load(ArcAgi(side=2, augmentations=0), folder)
    file.write_text("[]")
    with pytest.raises(DataError, match=r"training_solutions.json must hold tasks by their names. Unpack or download it again."):
        load(TINY, folder)
    file.write_text("{")
    with pytest.raises(DataError, match=r"training_solutions.json cannot be read \(.*\). Unpack or download it again."):
        load(TINY, folder)
    file.unlink()
    with pytest.raises(
        DataError, match=r"^ARC-AGI-1 \(subset .*\) not found under .* \(arc_agi/arc-agi_training_solutions.json is"
    ):
        load(TINY, Path(folder))
