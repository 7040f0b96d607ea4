"""What a finished run answers, from the weights that it kept: its network is built again and looks at the test set."""

from pathlib import Path

import torch
from safetensors.torch import load_file

from recstudy.config import RunConfig
from recstudy.data.cache import DataSet, load
from recstudy.errors import DataError
from recstudy.metrics import TASKS, Answers
from recstudy.models.networks.contract import Network, build
from recstudy.records import Json, Result
from recstudy.train.loop import batches


def answers_again(config: RunConfig, result: Result, weights: Path, folder: Path) -> Answers:
    """Answers of the test set by `weights`, on a GPU where there is one.

    Args:
        config: the run's.
        result: the run's.
        weights: of the selected epoch.
        folder: where data sets lie.

    Raises:
        DataError: the data, or what reads them, are not those of the run.
        NotAvailable: the run answers nothing.
    """
    config = config.drawn
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(config.place.cpus_per_run)  # sums in another order differ in their last bits
    torch.set_float32_matmul_precision("highest" if config.train.precision == "float32" else "high")
    data = load(config.data, folder, hold_out=config.train.selection == "validation")
    task = TASKS[config.task](config)
    read, facts = task.reader(data, device)
    _check(result, data, facts)
    network: Network = build(config.model, config.data).to(device)
    network.load_state_dict(load_file(weights, device=str(device)))
    return task.answered(network, batches(task, read(data.test), data, device), data)


def _check(result: Result, data: DataSet, facts: Json) -> None:
    """Refuse (DataError) other data or tokenizers than those that the run was made with."""
    made = {"data": result.provenance.data_checksum, "text tokenizer": result.tokenizer.get("checksum", "")}
    made |= {"image tokenizer": result.tokenizer.get("image_hash", "")}
    here = {"data": data.checksum, "text tokenizer": data.tokenizer.checksum if data.tokenizer else ""}
    here |= {"image tokenizer": facts.get("image_hash", "")}
    for what, checksum in made.items():
        if checksum and checksum != here[what]:
            raise DataError(f"the {what} here is not that of the run: its checksum is {here[what]}, not {checksum}")
