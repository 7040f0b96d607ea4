"""What a user sees of mistakes in a program of their own: lines of their files, and no frames of ours."""

import re
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path

import pytest
from processes import run_python

from recstudy.base.errors import ConfigError
from recstudy.plugins import check_call, gathering, import_object
from recstudy.programs.settings import configure
from recstudy.recursive import LOSSES, OPTIMIZERS, SCHEDULES, RunConfig, TrainConfig

STUDY = """
from recstudy import Metric, Study, grid, main


def inverse(run):
    return 1 / run.settings["depth"]


def train({arguments}):
    return {{"accuracy": inverse(run)}}


study = Study("own", program=train, settings={{"depth": 1}}, metrics={{"accuracy": Metric("%", items=100)}},
              variants=grid({{"depth": {depths}}}), seeds=1)

if __name__ == "__main__":
    main(study)
"""


def write_study(folder: Path, name: str, depths: str = "[0, 1]", arguments: str = "run") -> Path:
    file = folder / name
    file.write_text(STUDY.format(depths=depths, arguments=arguments))
    return file


def run_file(file: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a study without Ray, with its results in its folder."""
    start = (file.name, "--no-ray", "--results", "results", *words)
    return run_python(*start, code=code, folder=file.parent, COLUMNS="300")


def test_an_error_in_a_training_function_is_shown_with_the_last_lines_of_the_users_files(tmp_path):
    process = run_file(write_study(tmp_path, "mine.py"), code=8)

    message, *calls = [line for line in process.stdout.splitlines() if "mine.py" in line]
    assert "mine.py, line 6: ZeroDivisionError: division by zero" in message
    assert calls == [
        '    mine.py, line 10, in train: return {"accuracy": inverse(run)}',
        '    mine.py, line 6, in inverse: return 1 / run.settings["depth"]',
    ]


def test_a_training_function_with_other_arguments_is_refused_before_anything_runs(tmp_path):
    process = run_file(write_study(tmp_path, "mine.py", arguments="run, epochs"), code=2)

    assert process.stderr.splitlines() == [
        "ConfigError: mine.py, line 9: train(run, epochs) is called as train(run): missing a required argument: 'epochs'"
    ]


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (
            ("--data", "folder"),
            "Note: --data has no effect on own, preset default: its program reads no data set of recstudy.",
        ),
        ((), "second.py both have a study 'own' in "),
    ],
)
def test_an_option_without_effect_and_a_study_of_the_same_name_are_noted(tmp_path, words, note):
    run_file(write_study(tmp_path, "first.py", "[1, 2]"))

    second = run_file(write_study(tmp_path, "second.py", "[1, 2]"), "--dry-run", *words)

    assert second.returncode == 0, second.stderr
    assert note in second.stdout


def test_runs_that_variants_share_are_counted_once(tmp_path):
    file = write_study(tmp_path, "mine.py", "[1, 2]")
    variants = "[Variant(name, {'depth': 1 + (name == 'c')}) for name in 'abc']"
    text = (
        file.read_text().replace("Study, grid", "Study, Variant").replace('grid({"depth": [1, 2]})', variants)
    )
    file.write_text(text)

    outputs = [run_file(file, *words).stdout.splitlines() for words in (("--dry-run",), (), ())]

    assert [lines[0] for lines in outputs] == [
        "own, preset default: 3 variants, 2 runs",
        "2 runs: 0 finished before, 2 to run",
        "2 runs: all finished before",
    ]
    assert outputs[0][-1].startswith("Price: 2 runs")


def test_files_of_one_name_in_two_folders_are_both_named(tmp_path):
    """Their programs have one name, so their ids tell only settings apart."""
    files = []
    for number, depths in enumerate(("[1, 2]", "[3, 4]")):
        (tmp_path / str(number)).mkdir()
        files.append(write_study(tmp_path / str(number), "mine.py", depths))
    run_file(files[0], "--results", "../results")

    first, second = (run_file(file, "--results", "../results", "--dry-run").stdout for file in files)

    assert f"Note: {files[0]} and {files[1]} both have a study 'own'" in second
    assert "Note:" not in first


def test_a_variant_added_after_more_seeds_gets_as_many_in_report_and_bundle(tmp_path, typed):
    file = write_study(tmp_path, "mine.py", "[1, 2]")
    run_file(file, "--seeds", "4", "--max-seeds", "8")
    write_study(tmp_path, "mine.py", "[1, 2, 3]")

    process = run_file(file, "--max-seeds", "8")  # the file states one seed
    folder = tmp_path / "results/studies/own/default"
    for words in (["report", folder], ["publish", folder, tmp_path / "bundle"]):
        typed(*words)

    assert "12 runs: 8 finished before, 4 to run" in process.stdout
    for page in (folder / "report/report.html", tmp_path / "bundle/report/report.html"):
        assert re.search(r"Looks.{1,99}>4 seeds of a maximum of 8<", page.read_text(), re.DOTALL)


IMPORTING = """
from recstudy import Metric, Study, grid, main
from mine import train

study = Study("other", program=train, settings={"depth": 4}, metrics={"accuracy": Metric("points")},
              variants=grid({"depth": [2, 5]}), seeds=1)

if __name__ == "__main__":
    main(study)
"""


def test_two_studies_share_the_runs_of_a_function_that_one_imports_from_the_other(tmp_path):
    """Its other default and metric were "different settings"."""
    mine, other = write_study(tmp_path, "mine.py", "[1, 2]"), tmp_path / "other.py"
    other.write_text(IMPORTING)

    outputs = [run_file(file).stdout for file in (mine, other, mine)]

    assert [output.splitlines()[0] for output in outputs] == [
        "2 runs: 0 finished before, 2 to run",
        "2 runs: 1 finished before, 1 to run",
        "2 runs: all finished before",
    ]
    assert "Accuracy 0.2 points" in outputs[1]


def test_help_of_a_program_of_ones_own_has_no_option_of_the_recursive_models(tmp_path):
    for kind in ("Study", "Search"):
        file = write_study(tmp_path, "mine.py", "[1, 2]")
        if kind == "Search":
            text = file.read_text().replace("Study", kind).replace("variants=grid({", "ranges={")
            file.write_text(text.replace("[1, 2]})", "Range(1, 3)}").replace("Metric,", "Metric, Range,"))
        help_text = run_file(file, "--help").stdout

        assert "--seeds" in help_text
        for word in ("--data", "--download", "--allow-missing", "--init-from", "image", "model.", "train."):
            assert word not in help_text


class Shape(ABC):
    @abstractmethod
    def read(self): ...


class Square(Shape):
    def reads(self): ...


def test_a_class_without_a_method_names_the_method_and_the_nearest():
    with pytest.raises(
        ConfigError,
        match=r"^test_user_code.py, line \d+: Square lacks read: it has reads\. Did you mean 'reads'\?$",
    ):
        check_call(Square)


class Typed:
    def forward(self, images: "Path") -> tuple[int, ...]: ...


def test_a_method_with_other_arguments_is_named_without_its_types():
    with pytest.raises(
        ConfigError, match=r"Typed\.forward\(images\) is called as Typed\.forward\(images, carry\): too many"
    ):
        check_call(Typed().forward, "images", "carry")


@pytest.mark.parametrize(
    ("kind", "registry", "call"),
    [
        ("optimizer", OPTIMIZERS, "groups, config"),
        ("loss", LOSSES, "logits, targets, smoothing"),
        ("schedule", SCHEDULES, "config, done, length"),
    ],
)
def test_a_registered_function_with_other_arguments_is_refused_where_a_config_names_it(kind, registry, call):
    with gathering():
        registry.add("mine")(lambda first: first)
        with pytest.raises(
            ConfigError, match=rf"<lambda>\(first\) is called as .*<lambda>\({call}\): too many"
        ):
            TrainConfig(**{kind: "mine"})


@pytest.mark.parametrize(("name", "is_read"), [("digits", False), ("mnist", True)])
def test_a_folder_of_data_has_an_effect_where_a_data_set_has_files(tmp_path, name, is_read):
    config = configure(RunConfig, {"data": {"name": name}, "model": {"family": "cnn"}})

    assert config.program.reads_data([config], tmp_path) is is_read


def test_a_class_that_a_module_lacks_is_named_with_the_nearest():
    with pytest.raises(ConfigError, match=r"the module pathlib has no 'Pth'\. Did you mean 'Path'\?"):
        import_object("pathlib:Pth")
