"""Whatever decides the numbers of a command, besides its line, is noticed when it changes."""

from pathlib import Path

import pytest
from processes import run_python
from repositories import git

from recstudy.base.errors import ConfigError
from recstudy.plugins.syntax import code_of
from recstudy.programs.inputs import input_files
from recstudy.records import Result
from recstudy.records.reading import read_record, write_record

STUDY = """
from recstudy import Command, JsonFile, LastLine, Metric, Study, Variant, main

study = Study(
    "inputs",
    program=Command({line!r}, metrics=JsonFile("metrics.json"){more}),
    metrics={{"accuracy": Metric("%")}},
    variants=[Variant("one", {{}})],
)
if __name__ == "__main__":
    main(study)
"""
TRAIN = """
import json, sys
import helper
def main(accuracy):
    json.dump({"accuracy": accuracy, "loss": 1.0}, open(sys.argv[1] + "/metrics.json", "w"))
    print("accuracy: 9")
    open("train.log", "a").write("a line")
    open("last.json", "a").write("{}")
if __name__ == "__main__":
    main(0.5)
"""
CALLED = TRAIN.replace("import helper", "")
FILES = {
    "train.py": TRAIN,
    "helper.py": "x = 1",
    "run.sh": 'cd . && python "deep/call.py" "$1"',
    "deep/call.py": CALLED,
    "config.yaml": "lr: 0.1",
    "data.csv": "1,2",
    "notes.md": "# notes",
}
PYTHON, SHELL = "python train.py {folder} --config=config.yaml", "bash run.sh {folder}"


def write(line=PYTHON, more="", **files) -> None:
    for name, text in {**FILES, "study.py": STUDY.format(line=line, more=more), **files}.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def start(*words: str, code: int = 0) -> str:
    process = run_python("study.py", "--no-ray", *words, code=code)
    return process.stdout + process.stderr


@pytest.fixture(params=["without git", "tracked", "not added"])
def repository(request) -> str:
    """A folder of files, in which the study was run once."""
    if request.param != "without git":
        git(Path(), "init")
    return request.param


def commit(repository: str) -> None:
    if repository == "tracked":
        git(Path(), "add", ".")
        git(Path(), "commit", "-m", "all")


@pytest.mark.parametrize(
    ("line", "name", "text"),
    [
        (PYTHON, "config.yaml", "lr: 0.2"),
        (PYTHON, "helper.py", "x = 2"),
        (PYTHON, "train.py", TRAIN.replace("main(0.5)", "main(0.7)")),
        (SHELL, "run.sh", FILES["run.sh"] + " # 2"),
        (SHELL, "deep/call.py", CALLED.replace("0.5", "0.7")),
    ],
)
def test_a_changed_file_stops_the_study_and_is_named(line, name, text, repository):
    write(line)
    commit(repository)
    start()

    Path(name).write_text(text)

    assert start(code=2).splitlines()[-1] == (
        f"ConfigError: {name} changed since 1 finished run was made. Repeat them with --rerun changed, or use"
        " them with --keep"
    )
    start("--keep")
    start("--rerun", "changed")
    start()


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ("", ', environment={"LR": "1"}', "environment of train.py"),
        (', environment={"LR": "1"}', "", "environment of train.py"),
        ("", 'METRICS=LastLine(r"accuracy: (.+)")', "metrics of train.py"),
        ("", 'METRICS=JsonFile("metrics.json", "loss")', "metrics of train.py"),
    ],
)
def test_a_changed_environment_or_source_of_metrics_is_named(first, second, name):
    write(more=first)
    start()

    write(more=second)
    if second.startswith("METRICS"):
        text = Path("study.py").read_text().replace('metrics=JsonFile("metrics.json")METRICS', "metrics")
        Path("study.py").write_text(text)

    assert f"{name} changed since 1 finished run was made" in start(code=2)


def test_outputs_prose_and_a_study_of_the_same_runs_are_no_changed_inputs(repository):
    write(PYTHON + " --log last.json train.log")
    commit(repository)
    for seeds in "123":
        start("--seeds", seeds)
    Path("notes.md").write_text("# more")
    text = Path("study.py").read_text()
    Path("study.py").write_text(text.replace("variants=", "seeds=2, variants="))

    start()


def test_inputs_adds_and_excludes_files_and_an_unknown_one_is_refused():
    write(more=', inputs=["data.csv", "!deep/*"]')
    start()
    Path("deep/call.py").write_text("changed = 1")
    start()
    Path("data.csv").write_text("2,3")
    assert "data.csv changed since" in start(code=2)

    write(more=', inputs=["dat.csv"]')
    assert start(code=2).startswith("ConfigError: inputs: no file matches 'dat.csv' in ")


def test_runs_that_were_recorded_without_these_digests_stay_usable():
    write()
    start()
    (file,) = Path().glob("results/runs/*/result.json")
    result = read_record(file, Result)
    earlier_names = {"train.py", "helper.py", "study.py"}
    for name in result.provenance.files.keys() - earlier_names:
        del result.provenance.files[name]
    write_record(file, result)
    Path("config.yaml").write_text("lr: 0.2")

    start()
    Path("helper.py").write_text("x = 2")
    assert "helper.py changed since" in start(code=2)


def test_the_main_block_of_a_script_counts_and_that_of_a_study_does_not():
    block = "if __name__ == '__main__':\n    main({})\n"
    study = "from recstudy import Study, main\nstudy = Study('name')\n" + block

    assert code_of(block.format(1).encode()) != code_of(block.format(2).encode())
    assert code_of(study.format(1).encode()) == code_of(study.format(2).encode())
    for other in (
        "class Search: pass\n" + block,
        "beam = Search(width={})",
        study.replace("    main", "    K = {}\n    main"),
    ):
        assert code_of(other.replace("{}", "1").encode()) != code_of(other.replace("{}", "2").encode())


def test_more_files_than_are_read_without_git_need_inputs(tmp_path):
    for number in range(501):
        (tmp_path / f"{number}.yaml").write_text("")

    with pytest.raises(ConfigError, match=r"more than 500 files of code and configuration.*inputs="):
        input_files(["python", "train.py"], tmp_path, ())
    assert len(input_files(["python", "train.py"], tmp_path, ["99.yaml"])) == 501
