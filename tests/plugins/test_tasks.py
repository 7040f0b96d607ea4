"""Tasks from outside (studies/examples): they keep their contract, train, and a task that breaks a promise
is named.
"""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from shell import Shell, copy_examples

from recstudy import cli
from recstudy.base.errors import ConfigError
from recstudy.recursive import TASKS, Digits, RunConfig, ViTRM
from recstudy.recursive.data.batches import Batch
from recstudy.recursive.models.networks.contract import Output
from recstudy.recursive.train.losses import step_loss

NAMES = ("rotation", "addition", "language_model")


@pytest.fixture
def home(tmp_path) -> Path:
    """A folder with the three studies, and a text."""
    home = copy_examples(tmp_path / "home", *(f"{name}.py" for name in NAMES))
    words = np.random.default_rng(0).choice(["to", "be", "or", "not", "that", "is", "the", "question"], 400)
    shortened = (
        (home / "rotation.py").read_text().replace("1400:]", "1400:1440]").replace("[:1400]", "[:100]")
    )
    (home / "rotation.py").write_text(shortened)
    (home / "text.txt").write_text(" ".join(words))
    return home


def contract(file: Path, capsys) -> tuple[int, str]:
    with pytest.raises(SystemExit, match=r"^(False|\d+)$") as left:
        cli.main(["check", str(file), "--data", str(file.parent)])
    captured = capsys.readouterr()
    return left.value.code or 0, captured.out + captured.err


@pytest.mark.parametrize("name", NAMES)
def test_the_tasks_of_the_docs_keep_their_contract(home, name, capsys):
    code, output = contract(home / f"{name}.py", capsys)

    assert code == 0, output
    assert "the saved answers contain everything that the task's score needs" in output
    assert "resumed ends with the same bits" in output


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            ("return (output.logits[:, 0].float() - batch.labels) ** 2", "return ((output.logits - 1) ** 2)"),
            "loss of the task",
        ),
        ((".abs() < 0.1", ".abs() + 1"), "`right` must be from 0 to 1"),
        (
            ('{"value": output.logits[:, 0].float()}', '{"value": output.logits.sum()}'),
            "one per item, but has the shape ()",
        ),
        (
            (
                "batch.labels) ** 2",
                "batch.labels) ** 2 if output.logits.requires_grad else output.logits.sum()",
            ),
            "ConfigError: the loss of the task 'regression' must have the shape (16,), one number per item, but has ()",
        ),
        (
            ('score: ClassVar = "rmse"', 'score: ClassVar = "top1_accuracy"'),
            "its score 'top1_accuracy' cannot be computed",
        ),
        (
            ('Labels("float32")', 'Labels("float64")'),
            "train_labels must be float64 for the task 'regression'",
        ),
        (("example: ClassVar", "examples: ClassVar"), "has no complete `example`. Set it to"),
    ],
)
def test_a_promise_that_is_broken_is_named(home, change, words, capsys):
    file = home / "rotation.py"
    text = file.read_text()
    assert change[0] in text
    file.write_text(text.replace(*change))

    code, output = contract(file, capsys)

    assert code != 0
    assert words in " ".join(output.split())


def test_a_model_without_such_answers_is_refused(home, capsys):
    file = home / "addition.py"
    file.write_text(
        file.read_text().replace(
            '"family": "trm", "tokens": "cell", "width": 16, "heads": 2, "multiple": 16', '"family": "cnn"'
        )
    )

    assert "gives an answer an image, but Addition (sequence labelling) needs an answer a cell" in " ".join(
        contract(file, capsys)[1].split()
    )


def test_right_of_a_task_must_be_one_value_per_item():
    class AllTogether(TASKS["multiclass"]):
        def right(self, output, batch):
            return super().right(output, batch).all()

    task = AllTogether(RunConfig(data=Digits(), model=ViTRM(patch=4)))
    output = Output(torch.zeros(3, 10), halt=torch.zeros(3))
    batch = Batch(torch.zeros(3, 1, 8, 8), torch.tensor([0, 1, 2]), None, 3)

    with pytest.raises(
        ConfigError,
        match=r"^`right` of the task 'multiclass' must have the shape \(3,\), one number per item, but has \(\)$",
    ):
        step_loss(output, batch, task)


@pytest.mark.whole
def test_a_study_of_it_runs_to_its_page(tmp_path, home):
    shell = Shell(tmp_path, home / "rotation.py", {"RECSTUDY_DATA": str(home)})

    shell.run("--smoke", "--no-ray", "--only", "latent_steps=1")

    assert [result["status"] for result in shell.records().values()] == ["done"]
    (table,) = shell.results.glob("studies/rotation/*/report/figures/calibration.csv")
    assert {"predicted", "true", "variant"} <= next(csv.DictReader(table.read_text().splitlines())).keys()
