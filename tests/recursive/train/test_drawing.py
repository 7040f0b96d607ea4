"""`data.resample`: what is the same for every seed of a study, and what each seed draws for itself."""

import json
from pathlib import Path

import numpy as np
import pytest

from recstudy.programs.attempt import Trial
from recstudy.programs.trial import run_trial
from recstudy.records import Result, Results, RunFolder, read_record
from recstudy.recursive import (
    DataConfig,
    Digits,
    Dominoes,
    Maze,
    Mnist,
    PhantomCaptions,
    PhantomXray,
    RunConfig,
    Sudoku,
)
from recstudy.recursive.data.cache import load
from recstudy.recursive.testing import make_trial, tiny_run
from recstudy.recursive.train.saved_weights import answers_again
from recstudy.study.design import grid
from recstudy.study.plan import make_plan
from recstudy.study.record import record_plan
from recstudy.study.testing import tiny_study

GENERATED_SETS = [
    Digits(),
    Dominoes(),
    Maze(side=7, least_steps=4, puzzles=20, test_puzzles=16),
    PhantomCaptions(size=16),
    PhantomXray(size=16),
    Sudoku(puzzles=20, test_puzzles=16),
]
RUN = tiny_run(data=Digits(limit=64), epochs=2)


def per_seed(config: DataConfig) -> DataConfig:
    return config.model_copy(update={"resample": "per seed"})


def trial(root: Path, seed: int, drawing: str) -> Trial:
    return make_trial(root, RUN.with_changes({"data.resample": drawing, "seed": seed}))


def result_of(work: Trial) -> Result:
    run_trial(work, lambda line: None)
    result = read_record(RunFolder(Path(work.folder)).result, Result)
    assert result is not None
    return result


def test_fixed_is_the_run_that_there_was_and_per_seed_another():
    fixed, resampled = (RUN.with_changes({"data.resample": drawing}) for drawing in ("fixed", "per seed"))

    assert fixed.run_id == RUN.run_id
    assert "drawing" not in json.dumps(fixed.deciding)
    assert resampled.run_id != RUN.run_id
    assert fixed.resolved_config == fixed


@pytest.mark.parametrize("config", GENERATED_SETS, ids=lambda config: config.title)
def test_each_seed_draws_its_own_training_and_test_data_and_the_same_ones_again(config, tmp_path):
    resampled = per_seed(config)
    first, same_seed, other_seed = (load(resampled.for_seed(seed), tmp_path) for seed in (0, 0, 1))

    assert first.checksum == same_seed.checksum
    assert len({load(config, tmp_path).checksum, first.checksum, other_seed.checksum}) == 3
    for split in ("train", "test"):
        mine, theirs = (np.asarray(getattr(data, split).images) for data in (first, other_seed))
        assert mine.shape != theirs.shape or (mine != theirs).any()
    assert np.array_equal(first.validation.rows, same_seed.validation.rows)


def test_of_a_real_set_each_seed_draws_the_subset_and_the_split():
    resampled = per_seed(Mnist(limit=100))

    assert resampled.for_seed(0).split_seed != resampled.for_seed(1).split_seed
    assert not resampled.is_regenerated  # its images are what they are
    assert per_seed(Mnist(split_seed=1)).for_seed(0).split_seed != resampled.for_seed(0).split_seed
    assert resampled.for_seed(0).for_seed(1) == resampled.for_seed(0)


def test_drained_run_resumes_with_the_data_of_its_seed(tmp_path):
    finished, left = trial(tmp_path / "a", 1, "per seed"), trial(tmp_path / "b", 1, "per seed")

    assert run_trial(left, lambda line: None, leave=lambda: True)["status"] == "drained"

    first, second = result_of(finished), result_of(left)
    checksum = load(per_seed(RUN.data).for_seed(1), tmp_path).checksum
    assert first.metrics == second.metrics
    assert first.provenance.data_checksum == second.provenance.data_checksum == checksum
    weights = RunFolder(Path(finished.folder)).weights
    assert (
        len(answers_again(RunConfig.model_validate(finished.config), first, weights, tmp_path))
        == first.answers.of
    )


def test_a_plan_asks_no_one_checksum_of_them(tmp_path):
    """Else every finished run would be one of other data than now."""
    plan = make_plan(tiny_study(grid({"data.resample": ["fixed", "per seed"]}), RUN))
    results = Results(tmp_path / "r").create()
    load(RUN.data, tmp_path)
    load(plan.configs[1].data, tmp_path)
    record_plan(plan, results, tmp_path)

    variants = json.loads((results.study("tiny", "quick") / "plan.json").read_text())["variants"]

    assert [bool(variant.get("data_checksum")) for variant in variants] == [True, False]
