"""Whether a study's runs are compiled: one decision for all of them, and what it costs is kept between commands."""

import os
import time
from pathlib import Path

import pytest
import torch

from recstudy.config import Place
from recstudy.data import Sudoku
from recstudy.study import compiling
from recstudy.study.compiling import with_compiling
from recstudy.study.study import make_plan
from recstudy.testing import tiny_model, tiny_run, tiny_study
from recstudy.train import compiled

CPU = Place(gpus_per_run=0)
SHORT = tiny_run()
LONG = tiny_run(tiny_model("trm", tokens="cell", width=128), Sudoku(side=6, puzzles=1000, rounds=1000))


def of(configs, place=CPU) -> str:
    return with_compiling(place, configs).compile


def test_runs_that_train_for_long_are_compiled_and_others_not():
    assert of([LONG]) == "on"
    assert of([SHORT]) == "off"


def test_runs_of_one_graph_pay_for_it_together(monkeypatch):
    seeds = [LONG.with_changes({"seed": seed, "train.learning_rate": 1e-4}) for seed in range(3)]
    widths = [LONG.with_changes({"model.width": width}) for width in (120, 128, 136)]
    assert len({config.graph for config in seeds}) == 1
    assert len({config.graph for config in widths}) == 3
    alone = compiling._seconds_a_graph([LONG])

    monkeypatch.setattr(compiling, "PAYS_S", 1.5 * alone)

    assert (of(seeds), of(widths), of([LONG])) == ("on", "off", "off")


@pytest.mark.parametrize("chosen", ["on", "off"])
def test_who_says_so_himself_is_obeyed(chosen):
    place = CPU.model_copy(update={"compile": chosen})

    assert (of([LONG], place), of([SHORT], place)) == (chosen, chosen)


def test_a_gpu_always_compiles():
    place = Place(gpus_per_run=0.25)

    assert with_compiling(place, [SHORT]) == place
    assert place.compiles


def test_without_a_compiler_nothing_is_compiled_on_a_cpu(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    assert of([LONG]) == "off"


def test_a_dry_run_says_what_is_decided():
    runs = [run.config for run in make_plan(tiny_study(base=LONG, seeds=2)).runs]

    assert compiling.compiling(runs).startswith(
        "Compiling (2 graphs for 4 runs): on a GPU, and on a CPU: a graph's runs train for"
    )
    assert " on a GPU, on a CPU not: " in compiling.compiling([SHORT])
    off = SHORT.with_changes({"place.compile": "off"})
    assert compiling.compiling([off]) == "Compiling (1 graph for 1 run): off, as place.compile says."


# --------------------------------------------------------------------------------------------------------------- what is kept


@pytest.fixture
def kept(monkeypatch, tmp_path) -> Path:
    """The folder of a machine on which nobody says where inductor keeps things."""
    monkeypatch.setattr(compiled, "NAMED", False)
    monkeypatch.setenv(compiled.VARIABLE, "")
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path))
    return tmp_path / "compiled"


def test_what_is_compiled_is_kept_by_code_and_versions(kept, monkeypatch):
    compiled.keep_compiled(SHORT)
    first = os.environ[compiled.VARIABLE]
    compiled.keep_compiled(SHORT.with_changes({"seed": 1, "model.width": 12}))

    assert os.environ[compiled.VARIABLE] == first
    assert Path(first).parent == kept
    compiled.keep_compiled(LONG)  # another family's code
    monkeypatch.setattr(torch, "__version__", "9.9")
    compiled.keep_compiled(SHORT)
    assert len(list(kept.iterdir())) == 3


def test_who_names_a_place_has_it_there(kept, monkeypatch):
    monkeypatch.setattr(compiled, "NAMED", True)
    monkeypatch.setenv(compiled.VARIABLE, "mine")

    compiled.keep_compiled(SHORT)

    assert os.environ[compiled.VARIABLE] == "mine"
    assert not kept.exists()


def test_what_was_not_used_for_longest_goes_where_it_is_too_much(kept, monkeypatch):
    monkeypatch.setattr(compiled, "MOST_BYTES", 250)
    for days, name in enumerate(("today", "yesterday", "before", "long ago")):
        (kept / name).mkdir(parents=True)
        (kept / name / "graph").write_bytes(bytes(100))
        os.utime(kept / name, (time.time() - 1.5 * days * compiled.DAY_S,) * 2)

    compiled.keep_compiled(SHORT)

    assert {folder.name for folder in kept.iterdir()} - {Path(os.environ[compiled.VARIABLE]).name} == {"today", "yesterday"}
