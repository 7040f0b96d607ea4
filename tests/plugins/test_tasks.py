"""Tasks from outside (docs/how-to/task.md): they keep their contract, train, and a task that breaks a promise is named."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from shell import Shell

from recstudy import RunConfig, command
from recstudy.data import Digits
from recstudy.data.batches import Batch
from recstudy.errors import ConfigError
from recstudy.metrics import TASKS
from recstudy.models import ViTRM
from recstudy.models.networks.contract import Output
from recstudy.plugins import Bundle, use
from recstudy.train.losses import step_loss

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
    with pytest.raises(SystemExit, match=r"^(False|\d+)$") as left:
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
        (("return (output.logits[:, 0].float() - batch.labels) ** 2", "return ((output.logits - 1) ** 2)"), "loss of the task"),
        ((".abs() < 0.1", ".abs() + 1"), "`right` is not from 0 to 1"),
        (('{"value": output.logits[:, 0].float()}', '{"value": output.logits.sum()}'), "one an item, but has the shape ()"),
        ((".abs() < 0.1", ".abs().max() < 0.1"), "`right` of 8 items is ()"),
        (
            ("batch.labels) ** 2", "batch.labels) ** 2 if output.logits.requires_grad else output.logits.sum()"),
            "ConfigError: the loss of the task 'regression' must be (16,), one an item, but is ()",
        ),
        (('score: ClassVar = "rmse"', 'score: ClassVar = "top1_accuracy"'), "its score 'top1_accuracy' does not follow"),
        (('Labels("float32")', 'Labels("float64")'), "train_labels must be float64 for the task 'regression'"),
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


def test_what_a_halting_head_learns_is_said_of_each_item():
    class AllTogether(TASKS["multiclass"]):
        def right(self, output, batch):
            return super().right(output, batch).all()

    task = AllTogether(RunConfig(data=Digits(), model=ViTRM(patch=4)))
    output = Output(torch.zeros(3, 10), halt=torch.zeros(3))
    batch = Batch(torch.zeros(3, 1, 8, 8), torch.tensor([0, 1, 2]), None, 3)

    with pytest.raises(ConfigError, match=r"^`right` of the task 'multiclass' must be \(3,\), one an item, but is \(\)$"):
        step_loss(output, batch, task)


COUNTING = """
from typing import ClassVar, Literal
import numpy as np
from torch import nn
from recstudy.config import DATASETS, FAMILIES, DataConfig, ModelConfig
from recstudy.data import Decoded, Reader
from recstudy.metrics import METRICS, metric
from recstudy.models.networks.contract import Network, Output
from recstudy.tasks import TASKS, Labels, Task

@METRICS.add("count_mae")
@metric("Count MAE", unit="objects", better="lower", form=".2f", short="mae", tasks=("counting",), bounds=(0, np.inf))
def count_mae(answers):
    return float(np.abs(answers.kept["count"] - answers.labels).mean())

@TASKS.add("counting")
class Counting(Task):
    name: ClassVar = "counting"
    labels: ClassVar = Labels("int64", least=0, below=10)
    output: ClassVar = "density"
    score: ClassVar = "count_mae"
    example: ClassVar = {"data": {"name": "specks"}, "model": {"family": "density"}}
    def counts(self, output):
        return output.logits.float().sum((1, 2))
    def loss(self, output, batch):
        return (self.counts(output) - batch.labels) ** 2
    def right(self, output, batch):
        return self.counts(output).round() == batch.labels
    def kept(self, output, batch):
        return {"count": self.counts(output)}

@DATASETS.add("specks")
class Specks(DataConfig):
    synthetic: ClassVar = True
    task: ClassVar = "counting"
    shape: ClassVar = (1, 8, 8)
    classes: ClassVar = 1
    name: Literal["specks"] = "specks"
    def reader(self):
        return SpecksReader(self)

class SpecksReader(Reader):
    def sources(self, folder):
        return []
    def program(self):
        return ["specks", 1]
    def decode(self, folder):
        images = (255 * (np.random.default_rng(0).random((60, 1, 8, 8)) < 0.05)).astype(np.uint8)
        labels = (images > 0).sum((1, 2, 3)).clip(max=9)
        return Decoded(images[20:], labels[20:], images[:20], labels[:20])

@FAMILIES.add("density")
class Density(ModelConfig):
    outputs: ClassVar = ("density",)
    example: ClassVar = {"data": {"name": "specks"}}
    family: Literal["density"] = "density"
    def build(self, shape, classes):
        return DensityNetwork()

class DensityNetwork(Network):
    def __init__(self):
        super().__init__()
        self.see = nn.Conv2d(1, 1, 3, padding=1)
    def start(self, images, told=None):
        return ()
    def forward(self, images, carry):
        return Output(self.see(images)[:, 0]), carry  # (B, H, W)
"""


def test_an_answer_of_a_kind_of_one_s_own_has_any_shape(tmp_path, capsys):
    """Object counting by a density map: nothing but the task reads its logits (B, H, W)."""
    file = tmp_path / "counting.py"
    file.write_text(COUNTING)

    code, told = contract(file, capsys)

    assert code == 0, told
    assert "shapes are right" in told


def test_who_gives_such_answers_is_named(tmp_path, capsys):
    file = tmp_path / "counting.py"
    file.write_text(COUNTING.replace('{"family": "density"}', '{"family": "cnn"}', 1))

    assert "needs 'density', which density gives" in " ".join(contract(file, capsys)[1].split())


@pytest.mark.whole
def test_a_study_of_it_runs_to_its_page(tmp_path, home):
    """By one worker of Ray Train's."""
    shell = Shell(tmp_path, home / "rotation.py", {"RECSTUDY_DATA": str(home)})

    shell.run("--smoke", "--trainer", "train")

    assert {result["status"] for result in shell.records().values()} == {"done"}
    report = next(shell.results.glob("studies/rotation/*/report"))
    drawn = list(csv.DictReader((report / "figures/calibration.csv").read_text().splitlines()))
    assert {"said", "true", "variant"} <= drawn[0].keys()
