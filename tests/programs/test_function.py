"""A training function as the program of a study: what it is given, what it may return, and how its runs
resume.
"""

import dataclasses
import enum
import subprocess
import threading
from pathlib import Path
from typing import Any

import counting
import numpy as np
import pytest
from logs import read_lines
from processes import run_python
from pydantic import BaseModel, Field
from refusals import refused

import recstudy
from recstudy import Function, Metric, RunContext, Study, grid
from recstudy.base.errors import ConfigError
from recstudy.records import Results, Stopped, append_line, write_record
from recstudy.study.plan import make_plan

SCORE = {"accuracy": Metric("%", items=1000)}


def command(folder: Path, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the study in a process of its own, in which what COUNTING names happens to the first attempt."""
    return run_python(counting.FILE, "--no-ray", "--results", folder, *words, **options)


def first_run(folder: Path) -> Any:
    return Results(folder).run(make_plan(counting.study).runs[0].id)


def study_of(program: Any, settings: Any, **fields: Any) -> Study:
    return Study(
        "own",
        program=program,
        settings=settings,
        metrics=SCORE,
        **{"variants": grid({"depth": [1, 2]}), **fields},
    )


@pytest.mark.parametrize(("wrong", "code"), [("killed", -9), ("asked", 130)])
def test_a_function_resumes_from_its_folder_and_reports_each_step_once(tmp_path, wrong, code):
    for end in (*[code] * 4, 0):  # the first attempt of each run is stopped
        command(tmp_path / "r", code=end, COUNTING=wrong)
    run = first_run(tmp_path / "r")

    assert [line["epoch"] for line in read_lines(run.epochs)] == [0, 1, 2, 3]
    # an attempt that left in good order counts with its successor
    assert run.tries == (2 if wrong == "killed" else 1)
    loaded = recstudy.load(tmp_path / "r").runs
    assert loaded["accuracy"].tolist() == [45.0, 50.0, 46.0, 51.0]
    assert set(loaded["status"]) == {"done"}
    assert not (run.path / "files").exists()


@pytest.mark.parametrize("is_on_store", [False, True])
def test_a_run_whose_folder_a_search_has_removed_starts_anew(is_on_store, tmp_path, object_store):
    def train(run: RunContext) -> dict[str, float]:
        if run.resumes:
            (run.folder / "state").read_text()
        run.report(0, loss=1.0)
        return {"accuracy": 1.0}

    study = study_of(Function(train, name="anew"), {"depth": 1})
    run = make_plan(study).runs[0]
    place = object_store.uri(tmp_path.name) if is_on_store else tmp_path / "r"
    results = Results(place).create()
    folder = results.run(run.id)
    folder.path.mkdir(parents=True)
    with results.changing(folder.epochs):
        append_line(folder.epochs, {"epoch": 0, "loss": 2.0})
    with results.changing(folder.stopped):
        write_record(folder.stopped, Stopped(epoch=0, score=None, by="asha"))

    assert set(recstudy.run(study, results=place, ray=False).runs["status"]) == {"done"}


@pytest.mark.parametrize(
    ("wrong", "status", "words"),
    [
        ("raised", "failed", "counting.py, line 35: ZeroDivisionError: division by zero"),
        ("exit", "failed", "ended its process: counting.py, line 40: SystemExit: 3"),
        ("missing", "failed", "but it returned loss"),
        ("text", "failed", "accuracy must be a number, but it is 'high'"),
        ("nothing", "failed", "must return its metrics, such as {'accuracy': 91.3}, but it returned None"),
        ("nan", "diverged", "accuracy is nan"),
        ("nan reported", "diverged", "step 0: loss is nan"),
    ],
)
def test_error_of_a_function_is_recorded_with_its_run(tmp_path, monkeypatch, wrong, status, words):
    monkeypatch.setenv("COUNTING", wrong)
    runs = recstudy.run(counting.study, seeds=1, only=["depth=1"], results=tmp_path / "r", ray=False).runs
    folder = Results(tmp_path / "r").run(runs["id"][0])

    assert runs["status"][0] == status
    assert words in (folder.failure if status == "failed" else folder.result).read_text()
    assert "Traceback" in folder.failure.read_text() if status == "failed" else True


def test_settings_are_checked_by_a_class_of_the_users(tmp_path):
    @dataclasses.dataclass
    class PlainSettings:
        depth: int = 2

    class Checked(BaseModel):
        depth: int = Field(2, ge=1, le=8)

    def train(run: RunContext) -> dict[str, float]:
        return {"accuracy": 10.0 * run.settings.depth}

    for number, kind in enumerate((PlainSettings, Checked, PlainSettings(), Checked(depth=3))):
        study = study_of(Function(train, name=f"typed{number}"), kind)
        assert recstudy.run(study, results=tmp_path / "r", ray=False).runs["accuracy"].tolist() == [
            10.0,
            20.0,
        ]
    with pytest.raises(ConfigError, match="'depth' must be less than or equal to 8, but got 9"):
        make_plan(study_of(Function(train, name="typed4"), Checked, variants=grid({"depth": [1, 9]})))


@dataclasses.dataclass
class Model:
    width: int = 8


@dataclasses.dataclass
class Nested:
    model: Model = dataclasses.field(default_factory=Model)


WRONG_WIDTH = "Unknown setting 'model.wdith': model has width. Did you mean 'model.width'?"


@refused(globals(), "settings variants", "settings of a function")
def test_settings_that_do_not_fit_are_refused_before_anything_runs(settings, variants, message):
    with pytest.raises(ConfigError, match=message):
        make_plan(
            study_of(
                Function(counting.count, name="refused", title="train"), settings, variants=grid(variants)
            )
        )


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Free:
    rates: dict[str, float] = dataclasses.field(default_factory=dict)
    colors: dict[Color, float] = dataclasses.field(default_factory=dict)


@pytest.mark.parametrize(
    ("settings", "variants"),
    [
        ({"model": {}}, {"model.width": [1], "model.depth": [1]}),
        (Free, {"rates": {"one": {"rates": {"layer.0": 0.1, "head": 1.0}}}}),
        (Free, {"colors": {"one": {"colors": {Color.RED: 0.1}}}}),
    ],
)
def test_a_free_dictionary_accepts_every_name(settings, variants):
    assert make_plan(study_of(Function(counting.count, name="free"), settings, variants=grid(variants))).runs


def test_numbers_of_numpy_are_settings_like_pythons_own(tmp_path):
    def train(run: RunContext) -> dict[str, float]:
        return {"accuracy": float(type(run.settings["depth"]) is int and type(run.settings["rate"]) is float)}

    axes = {"depth": np.arange(1, 3), "rate": list(np.logspace(-2, -1, 2))}
    study = study_of(train, {"depth": np.int64(2), "rate": np.float64(0.1)}, variants=grid(axes))
    runs = recstudy.run(study, results=tmp_path / "r", ray=False).runs
    assert runs["accuracy"].tolist() == [1.0] * 4
    fixed_study = study_of(
        train, {"depth": 2, "rate": 0.1}, variants=grid({"depth": [1, 2], "rate": [0.01, 0.1]})
    )
    assert [run.id for run in make_plan(fixed_study).runs] == runs["id"].tolist()


def test_a_name_tells_programs_apart_and_settings_their_runs(tmp_path):
    def double(run: RunContext) -> dict[str, float]:
        return {"accuracy": 2.0 * run.settings["depth"]}

    def triple(run: RunContext) -> dict[str, float]:
        return {"accuracy": 3.0 * run.settings["depth"]}

    studies = [
        study_of(Function(function, name=function.__name__), {"depth": 1}) for function in (double, triple)
    ]
    renamed = dataclasses.replace(studies[0], name="again")  # the same function in another study
    values = [
        recstudy.run(study, results=tmp_path / "r", ray=False).runs["accuracy"].tolist()
        for study in (*studies, renamed)
    ]

    assert values == [[2.0, 4.0], [3.0, 6.0], [2.0, 4.0]]
    assert len(Results(tmp_path / "r").run_ids()) == 4  # the third study found its runs finished
    with pytest.raises(ConfigError, match="Two programs are named 'double'"):
        study_of(Function(triple, name="double"), {"depth": 1})


def test_closures_are_distinguished_by_their_captured_values():
    def scaled(by: float) -> Any:
        def train(run: RunContext) -> dict[str, float]:
            return {"accuracy": by * run.settings["depth"]}

        return train

    study_of(scaled(2.0), {"depth": 1})
    study_of(scaled(2.0), {"depth": 1})
    with pytest.raises(ConfigError, match=r"Two programs are named 'test_function.*train'"):
        study_of(scaled(3.0), {"depth": 1})


@pytest.mark.whole
def test_a_killed_function_resumes_in_another_process_on_ray(tmp_path):
    run_python(counting.FILE, "--results", tmp_path / "r", "--seeds", 1, COUNTING="killed")
    run = first_run(tmp_path / "r")

    assert [line["epoch"] for line in read_lines(run.epochs)] == [0, 1, 2, 3]
    assert run.tries == 2


@pytest.mark.parametrize(("reports", "status", "codes"), [(True, "failed", (1, 5)), (False, "done", (0, 0))])
def test_a_function_is_taken_for_hung_only_once_it_has_reported_a_step(reports, status, codes):
    """It is silent for 3 s, and may be for 1.2 s."""
    lines = [
        "import time",
        "from recstudy import Metric, Study, Variant, main",
        "def train(run):",
        f"    run.report(0, loss=1.0) if {reports} else None",
        "    time.sleep(3)",
        '    return {"accuracy": 1.0}',
        'study = Study("s", program=train, settings={}, metrics={"accuracy": Metric()}, variants=[Variant("v", {})])',
        'if __name__ == "__main__":',
        "    main(study)",
    ]
    Path("silent.py").write_text("\n".join(lines))
    start = ("silent.py", "--no-ray", "--set", "resources.hang_timeout_minutes=0.02")
    for code in codes:  # the second one records that the first was ended
        run_python(*start, code=code)

    (run,) = recstudy.load("results").runs.to_dict("records")
    assert run["status"] == status
    assert run.get("error_class", "") == ("hung" if reports else "")


@pytest.mark.whole
def test_a_function_that_cannot_be_sent_to_workers_is_refused_in_one_line(tmp_path):
    lock = threading.Lock()

    def train(run: RunContext) -> dict[str, float]:
        with lock:
            return {"accuracy": 1.0}

    with pytest.raises(
        ConfigError, match=r"train cannot be sent to Ray's workers: cannot pickle '_thread.lock' object"
    ):
        recstudy.run(study_of(train, {"depth": 1}), results=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_seeds_that_were_started_stay_and_a_new_level_gets_as_many(tmp_path):
    command(tmp_path / "r", "--seeds", "4")
    longer = command(tmp_path / "r", "--vary", "depth=1,2,3", "--seeds", "3")

    assert (
        "Note: 4 seeds were started or read before and stay, though this command asks for 3." in longer.stdout
    )
    runs = recstudy.load(tmp_path / "r/studies/counting/default").runs
    assert runs.groupby("label").seed.count().tolist() == [4, 4, 4]
    assert set(runs.status) == {"done"}
