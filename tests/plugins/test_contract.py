"""`recstudy check`: what it says of families that keep their promises, and of one for each that does
not.
"""

from pathlib import Path

import pytest

from recstudy import cli

FAMILY = """
from typing import ClassVar, Literal
import torch
from torch import nn
from recstudy.recursive import FAMILIES, LOSSES, OPTIMIZERS, ModelConfig
from recstudy.recursive.models.networks.contract import Network, Output

class Net(Network):
    def __init__(self, config, shape, classes):
        super().__init__()
        self.config = config
        self.head = nn.Linear(shape[0] * shape[1] * shape[2], classes)
        self.unused = nn.Linear(2, 2) if config.broken == "unused" else None
        self.calls = 0

    def start(self, images, context=None):
        return ()

    def forward(self, images, carry):
        flat = images.flatten(1)
        if self.config.broken == "batch":
            flat = flat - flat.mean(0)
        logits = self.head(flat)
        if self.config.broken == "drawn":
            logits = logits + torch.rand(1)
        if self.config.broken == "shape":
            logits = logits[:, :3]
        return Output(logits), carry

@FAMILIES.add("line")
class Line(ModelConfig):
    recursive: ClassVar[bool] = {recursive}
    family: Literal["line"] = "line"
    broken: str = "{broken}"

    def build(self, shape, classes):
        return Net(self, shape, classes)
"""


def contract(capsys, file: Path, *arguments: str) -> tuple[int, list[str]]:
    with pytest.raises(SystemExit, match=r"^\d+$") as exit_info:
        cli.main(["check", str(file), *arguments])
    output, errors = capsys.readouterr()
    return int(exit_info.value.code or 0), (output + errors).splitlines()


def write(folder: Path, broken: str = "", recursive: bool = False) -> Path:
    file = folder / "line.py"
    file.write_text(FAMILY.replace("{recursive}", str(recursive)).replace("{broken}", broken))
    return file


def test_the_mixer_keeps_them_all(home, capsys):
    code, lines = contract(capsys, home / "mixer_study.py", "--write")

    assert code == 0, lines
    assert lines[0].startswith("mixer: Mixer, on ")
    assert "  ok      shapes are correct, and every weight gets a gradient" in lines
    assert "  ok      activation=relu trains" in lines
    assert "  ok      the first twenty losses are unchanged: saved in mixer_study.golden.json" in lines
    assert lines[-1].endswith(" checks: all passed")


@pytest.mark.parametrize(
    ("broken", "recursive", "message"),
    [
        ("unused", False, "no gradient reaches unused.weight, unused.bias"),
        ("batch", False, "logits depend on the others of the batch"),
        (
            "drawn",
            False,
            "a second call gives different logits: evaluation uses random numbers or changes the module",
        ),
        ("shape", False, "logits of 5 images in 10 classes must be (5, 10), but are (5, 3)"),
        ("", True, "`recursive` is True, but the carry has 0 parts"),
    ],
)
def test_a_promise_that_is_broken_is_named(tmp_path, capsys, broken, recursive, message):
    code, lines = contract(capsys, write(tmp_path, broken, recursive))

    assert code == 1
    assert any(line.startswith("  FAILED  ") and message in line for line in lines), lines
    assert " failed" in lines[-1]


def test_changed_losses_are_reported(tmp_path, capsys):
    file = write(tmp_path)
    contract(capsys, file, "--write")
    assert contract(capsys, file)[0] == 0
    file.write_text(file.read_text().replace("flat = images.flatten(1)", "flat = 2 * images.flatten(1)"))

    code, lines = contract(capsys, file)

    assert code == 1
    assert any("the first twenty losses are unchanged: the loss of step 1 is " in line for line in lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            "other.py registers nothing that can be checked. Register a task, model family, optimizer, loss, schedule",
        ),
        (
            "1 / 0",
            "ConfigError: other cannot be imported: other.py, line 1: ZeroDivisionError: division by zero",
        ),
    ],
)
def test_a_file_without_anything_to_check_is_refused(tmp_path, capsys, text, message):
    file = tmp_path / "other.py"
    file.write_text(text)

    code, lines = contract(capsys, file)

    assert code == 2
    assert message in lines[-1]


def test_optimisers_and_losses_train(tmp_path, capsys):
    (tmp_path / "extras.py").write_text(
        "import torch\nfrom recstudy.recursive import LOSSES, OPTIMIZERS\n"
        "@OPTIMIZERS.add('plain')\ndef plain(groups, config):\n    return torch.optim.SGD(groups, lr=config.learning_rate)\n"
        "@LOSSES.add('mean')\ndef mean(logits, targets, smoothing=0.0):\n    return logits.mean()\n"
    )

    code, lines = contract(capsys, tmp_path / "extras.py")

    assert code == 1
    assert lines[0] == "plain: optimizer, with a small CNN on digits"
    assert [line.split()[0] for line in lines[1:3]] == ["ok", "ok"]
    assert lines[4].startswith("  FAILED  it trains")
    assert "must return one number per sample, with the shape (8,), but returns ()" in lines[4]
