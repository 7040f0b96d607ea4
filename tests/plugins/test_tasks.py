"""Tasks from outside (docs/how-to/task.md): they keep their contract, train, and a task that breaks a promise is named."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from shell import Shell

from recstudy import command
from recstudy.plugins import Bundle, use

HERE = Path(__file__).parent / "tasks"
NAMES = ("rotation", "addition", "language_model")


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    use(Bundle())


@pytest.fixture
def home(tmp_path) -> Path:
    """A folder with the three studies, and a text."""
    shutil.copytree(HERE, tmp_path / "home", ignore=shutil.ignore_patterns("__pycache__"))
    words = np.random.default_rng(0).choice(["to", "be", "or", "not", "that", "is", "the", "question"], 4000)
    (tmp_path / "home/text.txt").write_text(" ".join(words))
    return tmp_path / "home"


def contract(file: Path, capsys) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        command.main(["contract", str(file), "--data", str(file.parent)])
    told = capsys.readouterr()
    return left.value.code or 0, told.out + told.err


@pytest.mark.parametrize("name", NAMES)
def test_the_tasks_of_the_docs_keep_their_contract(home, name, capsys):
    code, told = contract(home / f"{name}.py", capsys)

    assert code == 0, told
    assert "labels of another type or shape are refused before training: the reader of" in told
    assert "goes on ends with the same bits" in told


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("** 2\n", "** 2).mean(\n"), "SyntaxError"),
        (("return (output.logits[:, 0].float() - batch.labels) ** 2", "return ((output.logits - 1) ** 2)"), "loss of the task"),
        ((".abs() < 0.1", ".abs() + 1"), "`right` is not from 0 to 1"),
        (('{"value": output.logits[:, 0].float()}', '{"value": output.logits[:1, 0]}'), "it keeps"),
        (('score: ClassVar = "rmse"', 'score: ClassVar = "top1_accuracy"'), "its score 'top1_accuracy' does not follow"),
        (('Labels("float32")', 'Labels("float64")'), "train_labels must be float64 for the task 'regression', but are float32"),
        (("example: ClassVar", "examples: ClassVar"), "needs an `example` with its data and a model"),
    ],
)
def test_a_promise_that_is_broken_is_named(home, change, words, capsys):
    file = home / "rotation.py"
    text = file.read_text()
    assert change[0] in text
    file.write_text(text.replace(*change))

    try:
        code, told = contract(file, capsys)
    except Exception as error:
        code, told = 2, str(error)

    assert code != 0
    assert words in " ".join(told.split())


def test_a_model_without_such_answers_is_refused(home, capsys):
    file = home / "addition.py"
    file.write_text(
        file.read_text().replace('"family": "trm", "tokens": "cell", "width": 16, "heads": 2, "multiple": 16', '"family": "cnn"')
    )

    assert "gives an answer an image, but Addition (sequence labelling) needs an answer a cell" in " ".join(
        contract(file, capsys)[1].split()
    )


@pytest.mark.whole
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("trainer", ["inline", "train"])
def test_a_study_of_it_runs_to_its_page(tmp_path, home, name, trainer):
    shell = Shell(tmp_path, home / f"{name}.py", {"RECSTUDY_DATA": str(home)})

    shell.run("--smoke", "--trainer", trainer)

    assert {result["status"] for result in shell.records().values()} == {"done"}
    if name == "rotation":
        report = next(shell.results.glob("studies/rotation/*/report"))
        drawn = list(csv.DictReader((report / "figures/calibration.csv").read_text().splitlines()))
        assert {"said", "true", "variant"} <= drawn[0].keys()
