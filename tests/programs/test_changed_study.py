"""A study over several days: its functions, scripts, metrics and claims change between and during commands."""

import os
import sys
from pathlib import Path

import pytest
from processes import run_python

import recstudy
from recstudy import Claim, Metric, Study, grid
from recstudy.base.errors import ConfigError

BOUND = """
from functools import partial
from recstudy import Metric, Study, Variant, main
def train(run, k=1):
    return {"accuracy": 50.0 + k}
def closure(k):
    return lambda run: train(run, k)
class Trainer:
    def __init__(self, k): self.k = k
    def train(self, run): return train(run, self.k)
    __call__ = train
study = Study("own", program=PROGRAM, settings={"depth": 1}, metrics={"accuracy": Metric("%")},
    variants=[Variant("one", {})], seeds=1)
if __name__ == "__main__":
    main(study)
"""
SCRIPT = """
import sys, time
from pathlib import Path
import helper
depth, seed, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
BODY
"""
COMMAND = """
from recstudy import Command, CsvFile, JsonFile, LastLine, Metric, Study, grid, main
program = Command("python train.py {depth} {seed} {folder}", metrics=SOURCE)
study = Study("own", program=program, settings={"depth": 1}, metrics={"accuracy": Metric("%")},
    variants=grid({"depth": [1, 2]}), seeds=1)
if __name__ == "__main__":
    main(study)
"""
EDIT = """
from pathlib import Path
from recstudy.records import RunFolder
finish = RunFolder.finish
def finish_and_edit(folder, result):
    finish(folder, result)
    Path("helper.py").write_text("BASE = 70.0\\n")  # another size, or Python may read its cache
RunFolder.finish = finish_and_edit
"""


def printed(*words: str, code: int = 0) -> str:
    """Run `study.py` and return what it prints."""
    process = run_python("study.py", "--no-ray", *words, code=code)
    return process.stdout + process.stderr


def write_command(body: str, source: str) -> None:
    Path("helper.py").write_text("BASE = 50\n")
    Path("train.py").write_text(SCRIPT.replace("BODY", body))
    Path("study.py").write_text(COMMAND.replace("SOURCE", source))


@pytest.mark.parametrize("program", ["partial(train, k=K)", "closure(K)", "Trainer(K).train", "Trainer(K)"])
def test_a_value_bound_to_a_function_is_part_of_its_code(program):
    text = BOUND.replace("PROGRAM", program)
    Path("study.py").write_text(text.replace("K)", "1)"))
    printed()
    assert "all finished before" in printed()
    Path("study.py").write_text(text.replace("K)", "5)"))
    assert "values bound to study" in printed(code=2)
    printed("--rerun", "changed")
    assert recstudy.load("results").runs["accuracy"].tolist() == [55.0]


def test_a_changed_function_is_repeated_on_request_alone():
    text = BOUND.replace("PROGRAM", "train")
    edited = text.replace("50.0", "60.0")
    for content, words, code in ((text, (), 0), (edited, (), 2), (edited, ("--keep",), 0)):
        Path("study.py").write_text(content)
        output = printed(*words, code=code)
    assert "\nstudy.py changed since 1 finished run was made: their numbers" in output
    assert recstudy.load("results").runs["accuracy"].tolist() == [51.0]
    printed("--rerun", "changed")
    assert recstudy.load("results").runs["accuracy"].tolist() == [61.0]


def test_a_module_that_is_edited_during_a_study_changes_later_runs():
    write_command("print('accuracy:', helper.BASE + depth)", r"LastLine(r'accuracy: (\S+)')")
    study = Path("study.py").read_text()
    Path("study.py").write_text(EDIT + study)
    assert "helper.py changed since 1 finished run was made: their numbers" in printed()
    Path("study.py").write_text(study)
    assert recstudy.load("results").runs["accuracy"].tolist() == [51.0, 72.0]
    assert "helper.py changed since" in printed(code=2)
    Path("helper.py").write_text("BASE = 50\n")
    assert "helper.py changed since 1 finished run was made" in printed(code=2)


@pytest.mark.parametrize("line", ["python train.py", "python -m lab.train", "bash run.sh", ""])
def test_a_module_from_another_folder_is_part_of_the_code(monkeypatch, line):
    """Its package has no file and imports a further one."""
    for folder, text in (("one/lab", "import base\nBASE = base.BASE"), ("two", "BASE = 50.0"), ("code", "")):
        Path(folder).mkdir(parents=True)
        Path(folder, "base.py" if text else "run.sh").write_text(text or 'python ../two/train.py "$@"')
    imported = "from lab import base as helper"
    monkeypatch.chdir("code")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["../one", "../two", *sys.path]))
    if line:
        write_command("print('accuracy:', helper.BASE + depth)", r"LastLine(r'accuracy: (\S+)')")
        script = Path("train.py").read_text().replace("import helper", imported)
        for file in ("train.py", "../two/train.py", "../one/lab/train.py"):
            Path(file).write_text(script)
        Path("study.py").write_text(Path("study.py").read_text().replace("python train.py", line))
    else:
        text = BOUND.replace("PROGRAM", "train").replace("50.0", "helper.BASE")
        Path("study.py").write_text(f"{imported}\n{text}")
    printed()
    assert "all finished before" in printed()
    Path("../two/base.py").write_text("BASE = 60.0")
    assert f"ConfigError: {'../two/' if line else ''}base.py changed since" in printed(code=2)


def test_values_of_a_bound_array_are_part_of_the_code():
    """Its text is shortened."""
    text = BOUND.replace("k=1", "k=1, data=()").replace("PROGRAM", "partial(train, data=numpy.arange(DATA))")
    for data in ("5000)", "5000) % 4990"):
        Path("study.py").write_text("import numpy\n" + text.replace("DATA)", data))
        code = 0 if data == "5000)" else 2
        output = printed(code=code)
    assert "values bound to study.train changed since" in output


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("helper = importlib.import_module('helper')", "train"),
        ("helper = importlib.import_module('help' + 'er')", "train"),
        ("class helper: exec(open('helper.py').read())", "train"),
        ("class helper: BASE = float(open('helper.py').read()[7:])", "Function(train, inputs=['help*.py'])"),
    ],
)
def test_a_file_that_a_function_imports_by_its_name_or_has_as_an_input_is_part_of_the_code(line, program):
    text = BOUND.replace("k=1):\n", f"k=1):\n    {line}\n").replace("50.0", "helper.BASE")
    text = text.replace("PROGRAM", program)
    Path("study.py").write_text(f"import importlib\nfrom recstudy import Function\n{text}")
    Path("helper.py").write_text("BASE = 50.0")
    printed()
    assert "all finished before" in printed()
    Path("helper.py").write_text("BASE = 60.0")
    assert "ConfigError: helper.py changed since" in printed(code=2)


@pytest.mark.parametrize("source", ["JsonFile('old.json')", "CsvFile('old.csv')"])
def test_a_file_of_a_failed_attempt_has_no_metrics(source):
    write = "(folder / 'old.json').write_text('{\"accuracy\": 10}')\n(folder / 'old.csv').write_text('accuracy\\n10')\n"
    write_command(f"{write}raise SystemExit('assertion')", source)
    printed(code=8)
    Path("train.py").write_text(SCRIPT.replace("BODY", ""))
    assert "is from an earlier attempt, which failed" in printed(code=8)
    Path("train.py").write_text(SCRIPT.replace("BODY", write))
    printed()


def test_settings_with_the_same_command_are_refused():
    write_command("", "JsonFile('m.json')")
    study = Path("study.py").read_text().replace("{depth}", "{depth:.0f}").replace("[1, 2]", "[1.1, 1.2]")
    study = study.replace('"depth": 1}', '"depth": 1.1}')
    Path("study.py").write_text(study)
    assert "depth=1.1 and depth=1.2 give the same command: python train.py 1 0" in printed(code=2)


def test_finished_runs_without_an_added_metric_are_named():
    text = BOUND.replace("PROGRAM", "train").replace("50.0 + k}", '50.0 + k, "f1": 0.5}')
    Path("study.py").write_text(text)
    printed()
    Path("study.py").write_text(text.replace('Metric("%")}', 'Metric("%"), "f1": Metric()}'))
    assert "1 finished run without the added metric f1. Repeat them with" in printed(code=2)
    printed("--rerun", "changed")
    assert recstudy.load("results").runs["f1"].tolist() == [0.5]


def test_options_that_exclude_each_other_are_refused():
    Path("study.py").write_text(BOUND.replace("PROGRAM", "train"))
    assert "--keep uses finished runs, and --rerun" in printed("--keep", "--rerun", "all", code=2)
    assert "--max-seeds must be at least 1" in printed("--max-seeds", "0", code=2)


# ------------------------------------------------------------------------------------------------------------
# claims and metrics


def scored(run):
    return {"accuracy": 50.0 + run.settings["depth"] + run.seed / 10}


def study_with(claim: Claim) -> Study:
    metrics = {"accuracy": Metric("%")}
    variants = grid({"depth": [1, 2], "lr": [0.1, 0.2]})
    settings = {"depth": 1, "lr": 0.1}
    return Study(
        "c", program=scored, settings=settings, metrics=metrics, variants=variants, seeds=3, claims=[claim]
    )


@pytest.mark.parametrize("lower", [{"lr": 0.1}, {"depth": [1, 2]}, {}])
def test_sides_with_common_variants_are_refused(tmp_path, lower):
    claim = Claim("deeper is better", lower=lower, higher={"depth": 2})
    with pytest.raises(ConfigError, match=r"has depth=2, lr=0.1.* on both sides. Name levels that differ"):
        recstudy.run(study_with(claim), results=tmp_path, ray=False)


def test_a_variant_of_a_grid_is_named_by_its_label(tmp_path):
    claim = Claim("b", lower={"variant": "depth=1, lr=0.1"}, higher={"variant": "depth=2, lr=0.1"})
    study = recstudy.run(study_with(claim), results=tmp_path, ray=False)
    assert study.answers.difference.tolist()[0] == pytest.approx(1)
