"""Tasks from outside (docs/how-to/task.md): they keep their contract, train, and a task that breaks a promise is named."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from shell import Shell
from test_study import nodes_without

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


def stranger(folder: Path, home: Path, name: str) -> Shell:
    return Shell(folder, home / f"{name}.py", {"RECSTUDY_DATA": str(home)})


@pytest.mark.whole
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", [("--trainer", "inline"), ("--trainer", "train"), ("--workers-per-run", "2")], ids=" ".join)
def test_a_study_of_it_runs_to_its_page(tmp_path, home, name, how):
    shell = stranger(tmp_path, home, name)

    shell.run("--smoke", *how)

    assert {result["status"] for result in shell.records().values()} == {"done"}
    if name == "rotation":
        report = next(shell.results.glob("studies/rotation/*/report"))
        drawn = list(csv.DictReader((report / "figures/calibration.csv").read_text().splitlines()))
        assert {"said", "true", "variant"} <= drawn[0].keys()


@pytest.mark.whole
@pytest.mark.parametrize("name", NAMES)
def test_it_runs_on_two_nodes_that_have_nothing_of_it(tmp_path, home, name):
    """Over both nodes at once, and inline on one; the text lies where they see it."""
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(home / "text.txt", data)
    shell = Shell(tmp_path, home / f"{name}.py", {"RECSTUDY_DATA": str(data)})

    with nodes_without(tmp_path, home, 2) as port:
        shell.run("--smoke", "--address", f"127.0.0.1:{port}")
        shell.run("--smoke", "--address", f"127.0.0.1:{port}", "--seeds", "2", "--workers-per-run", "2")

    found = shell.records().values()
    assert {result["status"] for result in found} == {"done"}
    assert {result["provenance"]["workers"] for result in found} == {1, 2}
