"""Read, store and check the initial weights of runs.

Initial weights are stored in the results folder under their digest, with a record of their origin. Every
worker finds them there, on a shared file system or in an object store. The digest is part of the run id
(`train.init_from`). Reading a weight file never executes its content.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recstudy.base.errors import ConfigError, DataError
from recstudy.base.files import sha256_of
from recstudy.base.opened import is_regular_file
from recstudy.records import Results, read_json, read_record, write_record, write_whole
from recstudy.records.schema import Initial, current_time
from recstudy.recursive.config.parts import DataConfig, ModelConfig
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.models.networks.contract import build
from recstudy.recursive.models.networks.weight_files import check_weights, read_weights, weight_bytes

DIGITS = 20  # length of a digest, as of a run id
# File names of weights: of a folder from `recstudy weights export`, and of a run's folder.
FILES = ("model.safetensors", "weights.safetensors")
FIX = "Pass them with --init-from RUN|FILE|DIR, or import them with `recstudy weights import`"


@dataclass(frozen=True)
class Weights:
    """A network's state under recstudy's own names, and its origin."""

    state: Mapping[str, Tensor]
    about: Initial
    # Settings of the data set that they were trained on, and of the model; None if unknown.
    data: Mapping[str, Any] | None = None
    model: Mapping[str, Any] | None = None

    @property
    def content(self) -> bytes:
        return weight_bytes(self.state)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()[:DIGITS]

    def keep(self, results: Results) -> str:
        """Store the weights in the results folder and return their digest.

        If the same weights are already there, the record of their origin does not change.
        """
        file = results.create().weights(self.digest)
        about = file.with_suffix(".json")
        if not results.fetched(file).exists():
            with results.changing(about, file):
                file.parent.mkdir(exist_ok=True)
                write_record(about, self.about)
                write_whole(file, self.content)  # last, so that stored weights always have an origin
        return self.digest


def read_initial_weights(source: str, results: Results) -> Weights:
    """Read the weights that `--init-from` names.

    Args:
        source: A run id, a weight file, or a folder with a weight file.
        results: The results folder of the run.

    Raises:
        ConfigError: There are no such weights.
        DataError: The file cannot be read.
    """
    run = results.run(source)
    if len(source) == DIGITS and run.path.is_dir():
        file, origin = results.fetched(run.weights), f"run {source}"
        if not is_regular_file(file):
            raise ConfigError(f"the run {source} has no weights, because it is not finished")
    else:
        path = Path(source)
        file = next((path / name for name in FILES if (path / name).is_file()), path)
        origin = source
        if not file.is_file():
            raise ConfigError(
                f"no weights {source!r}: it is neither a run in {results.store or results.root}, nor a weight"
                " file, nor a folder with a weight file"
            )

    settings = read_json(file.parent / "config.json") or {}
    settings = settings.get("recstudy", settings)
    about = Initial(source=origin, sha256=sha256_of(file), date=current_time())
    return Weights(read_weights(file), about, settings.get("data"), settings.get("model"))


def initial(config: RunConfig, results: Results) -> Weights | None:
    """Read the stored initial weights of a run; None for random initialization.

    Raises:
        DataError: The weights are not in the results folder, or the file has another digest.
    """
    digest = config.train.init_from
    if not digest:
        return None
    file = results.fetched(results.weights(digest))
    about = read_record(results.fetched(file.with_suffix(".json")), Initial)
    if not is_regular_file(file) or about is None:
        raise DataError(f"the weights {digest} of train.init_from are not in {file.parent}. {FIX}.")
    weights = Weights(read_weights(file), about)
    if weights.digest != digest:
        raise DataError(
            f"{file} contains other weights than its name says: their digest is {weights.digest}. Remove it."
            f" {FIX}."
        )
    return weights


def check_rows(weights: Weights, config: RunConfig, count: int) -> None:
    """Check that the rows of an embedding table belong to the puzzles or patients of the data set.

    Args:
        weights: The initial weights.
        config: The config of a run that starts from them.
        count: Number of ids of its data set; 0 if it has none, because row 0 then belongs to every item.

    Raises:
        ConfigError: The rows belong to other ids.
    """
    rows = getattr(config.model, "identifiers", 0)
    # The fields of the set itself decide its ids; a limit, a split and its seed do not.
    decisive = config.data.model_dump(mode="json", exclude=set(DataConfig.model_fields))
    trained_here = weights.data is not None and decisive.items() <= weights.data.items()
    if rows and rows != max(count, 1) and not trained_here:
        raise ConfigError(
            f"{weights.about.source} has an embedding table with {rows:,} rows, but {config.data.title} has"
            f" {max(count, 1):,} ids. The rows belong to other puzzles or patients. Use the data set that the"
            " weights were trained on"
        )


def check_initial(configs: Iterable[RunConfig], results: Results, weights: Weights | None) -> None:
    """Check, before any run starts, that its initial weights exist and fit its network.

    Args:
        configs: The configs of the runs.
        results: The results folder.
        weights: Weights that are not stored there yet.

    Raises:
        DataError: Weights are missing, or are those of another network.
    """
    weights_by_digest: dict[str, Weights | None] = {weights.digest: weights} if weights else {}
    # Runs that differ in other fields share one check.
    networks = {(config.model, config.data, config.train.init_from): config for config in configs}
    for config in networks.values():
        digest = config.train.init_from
        if digest and digest not in weights_by_digest:
            weights_by_digest[digest] = initial(config, results)
        if initial_weights := weights_by_digest.get(digest):
            with torch.device("meta"):  # shapes only, no memory
                network_state = build(config.model, config.data).state_dict()
            check_state(initial_weights, network_state, config.model)


def check_state(weights: Weights, network_state: Mapping[str, Tensor], model: ModelConfig) -> None:
    """Check that weights belong to a network.

    Args:
        weights: The weights.
        network_state: The state of the network.
        model: The settings of the network, for the message.

    Raises:
        DataError: A name or a shape differs.
    """
    ours, theirs = model.model_dump(mode="json"), weights.model or {}
    changes = [f"model.{name}={theirs[name]}" for name in ours if theirs.get(name, ours[name]) != ours[name]]
    fix = f" Set {' '.join(changes)}" if changes else ""
    title = f"the weights of {model.title} as set here"
    check_weights(weights.about.source, title, network_state, weights.state, fix)
