"""What a model costs is counted once, and anew where its code changes."""

import json
from pathlib import Path

import pytest
from processes import run_python

from recstudy.recursive import (
    CNN,
    HRM,
    AtTest,
    Cifar10,
    CovCtr,
    Digits,
    RunConfig,
    ShowTell,
    Sudoku,
    TrainConfig,
)
from recstudy.recursive.models.costs import GPU_RATE, cached_count, cost, price, training_memory

ROOT = Path(__file__).parents[3]
ASKING = """
import sys
from recstudy.recursive import RunConfig
from recstudy.recursive import Digits
from recstudy.recursive import CNN
from recstudy.recursive.models.costs import cost
from recstudy.recursive.models.costs import training_memory

for width in (8, 16):
    config = RunConfig(data=Digits(), model=CNN(width=width))
    print(cost(config), training_memory(config), "torch" in sys.modules)
"""


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache of the test's, in a folder where its processes start."""
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def count_here():
    """The same of width 8, in this process, which has what a process remembers no more."""
    cached_count.cache_clear()
    config = RunConfig(data=Digits(), model=CNN(width=8))
    return f"{cost(config)} {training_memory(config)}"


@pytest.mark.whole
def test_the_second_process_counts_nothing_and_loads_no_torch(own_cache, tmp_path):
    """The first is ours."""
    first = count_here()
    second, is_loaded = (line.rsplit(maxsplit=1) for line in run_python("-c", ASKING).stdout.splitlines())

    assert second == [first, "False"]
    assert (is_loaded[0] != first, is_loaded[1]) == (True, "True")

    (tmp_path / "cache/counted.json").write_text('{"torn')
    assert count_here() == first
    assert len(json.loads((tmp_path / "cache/counted.json").read_bytes())) == 2


@pytest.mark.whole
def test_changed_network_is_counted_again(own_cache, tmp_path, typed):
    typed("new", "mine", "--model")

    def parameters() -> int:
        dry_run = run_python("mine.py", "--dry-run", "--json", "--only", "loops=1").stdout
        return json.loads(dry_run)["runs"][0]["params"]

    old_count = parameters()
    study = tmp_path / "mine.py"
    assert "2 * config.width" in study.read_text()
    study.write_text(study.read_text().replace("2 * config.width", "4 * config.width"))

    assert old_count < parameters()


def test_a_narrow_network_with_a_small_batch_is_bound_by_its_kernels():
    """By hand: ten times as many images a batch give as many FLOPs and a tenth of the kernels."""
    small, large = (
        price(RunConfig(data=Cifar10(), model=CNN(width=8), train=TrainConfig(batch_size=size)))
        for size in (9, 90)
    )
    assert small.training == large.training
    assert small.training_s == pytest.approx(10 * large.training_s)
    assert small.training_s > 10 * 1e15 * small.training / GPU_RATE["float32"]


def test_writing_captions_each_epoch_is_in_the_price():
    """655 images train or validate with a score from teacher forcing, or with captions by three beams."""
    config = RunConfig(
        data=CovCtr(), model=ShowTell(backbone="small", weights="random"), train=TrainConfig(epochs=10)
    )
    cheap, dear = price(config), price(config.with_changes({"train.score": "report_score"}))
    forward = cost(config).gflops / 1e6

    assert cheap.training == dear.training
    assert cheap.evaluation == pytest.approx(forward * (10 * 73 + 2 * 73 + 3 * 73))
    assert dear.evaluation - cheap.evaluation == pytest.approx(forward * 3 * 10 * 73)
    assert price(config.with_changes({"train.selection": "last"})).evaluation < cheap.evaluation


def test_only_samples_of_several_steps_have_a_bootstrap_target():
    model = HRM(width=16, heads=2, high_layers=1, low_layers=1)
    batch, single, several = (
        cost(RunConfig(data=Digits(), model=model, train=TrainConfig(**fields))).train_gflops
        for fields in ({}, {"halting": "sample"}, {"halting": "sample", "supervision_steps": 2})
    )
    assert batch == single < several


def test_answers_at_test_are_in_the_price():
    """Of 40 test puzzles, 20 are answered by 3 trajectories and 2 copies of 4 segments each."""
    config = RunConfig(
        data=Sudoku(side=4, puzzles=100, test_puzzles=40),
        model=HRM(tokens="cell", width=16, heads=2, high_layers=1, low_layers=1),
        train=TrainConfig(at_test=AtTest(segments=4, trajectories=3, copies=2, puzzles=20)),
    )
    extra = price(config).evaluation - price(config.with_changes({"train.at_test": AtTest()})).evaluation

    assert extra == pytest.approx(cost(config).gflops / 1e6 * 20 * (3 + 2) * 4)
