"""Compute the answers of a finished run again from its saved weights."""

from pathlib import Path

import torch
from safetensors.torch import load_file

from recstudy.base.errors import DataError
from recstudy.programs.metric import METRICS, NotAvailable
from recstudy.records import Json, Result
from recstudy.recursive.config.answers import Answers, Scores
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.tasks import TASKS
from recstudy.recursive.data.cache import load
from recstudy.recursive.models.networks.contract import build
from recstudy.recursive.train.loop import batches
from recstudy.recursive.train.task import task_of
from recstudy.report.names import metric


def answers_again(
    config: RunConfig, result: Result, weights: Path, folder: Path, compiled: bool = False
) -> Answers:
    """Compute the answers on the test set with `weights`, on a GPU if there is one.

    Args:
        config: The config of the run.
        result: The result of the run.
        weights: The weights of the selected epoch.
        folder: The folder of the data sets.
        compiled: Whether to use torch.compile.

    Raises:
        DataError: The data, or the code that reads them, differ from those of the run.
        NotAvailable: The task of the run has no answers.
    """

    config = config.resolved_config
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(config.resources.cpus)  # sums in another order differ in their last bits
    torch.set_float32_matmul_precision("highest" if config.train.precision == "float32" else "high")
    data = load(config.data, folder, hold_out=config.train.selection == "validation")
    task = task_of(config)
    read, facts = task.reader(data, device)
    checksums = (
        ("data", result.provenance.data_checksum, data.checksum),
        (
            "text tokenizer",
            result.tokenizer.get("checksum"),
            data.tokenizer.checksum if data.tokenizer else "",
        ),
        ("image tokenizer", result.tokenizer.get("image_hash"), facts.get("image_hash", "")),
    )
    for name, recorded, present in checksums:
        if recorded and recorded != present:
            raise DataError(
                f"the {name} here is not that of the run: its checksum is {present}, not {recorded}"
            )
    network = build(config.model, config.data).to(device)
    network.load_state_dict(load_file(weights, device=str(device)))
    if compiled:
        network.compile_steps()
    return task.answered(network, batches(task, read(data.test), data, device), data)


def flips(config: RunConfig, result: Result, weights: Path, folder: Path) -> Scores:
    """Return the percentage of test items that are correct in only one of two ways: float32 on one worker
    without compiling, and another way.

    The arguments and errors are those of `answers_again`.

    Raises:
        NotAvailable: The score of the task is no mean over items.
    """
    per_item = METRICS[TASKS[config.task].score].each
    if per_item is None:
        raise NotAvailable(
            f"{metric(TASKS[config.task].score).title} is no mean over items, of which rounding could flip"
            " some"
        )
    float32 = {"train.precision": "float32", "train.state_precision": "float32"}
    ways: dict[str, tuple[Json, bool]] = {
        "plain": (float32, False),
        "bfloat16": ({"train.precision": "bfloat16"}, False),
        "two_workers": (float32 | {"train.batch_size": max(1, config.train.batch_size // 2)}, False),
        "compiled": (float32, True),
    }
    right = {
        name: per_item(answers_again(config.with_changes(changes), result, weights, folder, is_compiled))
        for name, (changes, is_compiled) in ways.items()
    }
    expected = right.pop("plain")
    return {name: 100 * float((values != expected).mean()) for name, values in right.items()}
