"""Weights that runs start from: kept in the results folder under their digest, with where they were taken
from.

Every worker finds them there, on a shared file system or an object store, and the digest is part of the run's
id (`train.init_from`). A file is read without executing anything in it.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as safetensors_bytes
from torch import Tensor

from recstudy.config import DataConfig, RunConfig
from recstudy.errors import ConfigError, DataError
from recstudy.models.networks.contract import build
from recstudy.models.networks.weight_files import check_names, check_shape, read_weights
from recstudy.opened import is_regular_file
from recstudy.records import Results, read_json, read_record, write_record, write_whole
from recstudy.records.schema import Initial, now

DIGITS = 20  # of a digest, as of a run's id
# in a folder that `recstudy weights export` wrote, and in a run's own
FILES = ("model.safetensors", "weights.safetensors")
FIX = "Give them by --init-from RUN|FILE|DIR, or take them in with `recstudy weights import`"


@dataclass(frozen=True)
class Weights:
    """A network's state under recstudy's own names, and where it is from."""

    state: Mapping[str, Tensor]
    about: Initial
    # the settings of the data set that they were trained on; None if nobody knows
    data: Mapping[str, Any] | None = None

    @property
    def content(self) -> bytes:
        return safetensors_bytes({name: value.contiguous() for name, value in self.state.items()})

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()[:DIGITS]

    def keep(self, results: Results) -> str:
        """Keep it in the results folder, and return its digest. What was known before of the same weights
        stays.
        """
        file = results.create().weights(self.digest)
        about = file.with_suffix(".json")
        if not results.fetched(file).exists():
            with results.changing(about, file):
                file.parent.mkdir(exist_ok=True)
                write_record(about, self.about)
                write_whole(file, self.content)  # last, so that weights are never there without their origin
        return self.digest


def taken_from(given: str, results: Results) -> Weights:
    """Return the weights that `--init-from` names: a run's of this results folder, a file, or a folder with
    one.

    Raises:
        ConfigError: neither is there. DataError: the file cannot be read.
    """
    run = results.run(given)
    if len(given) == DIGITS and run.path.is_dir():
        file, source = results.fetched(run.weights), f"run {given}"
        if not is_regular_file(file):
            raise ConfigError(f"the run {given} has no weights: it is not finished")
    else:
        named = Path(given)
        file = next((named / name for name in FILES if (named / name).is_file()), named)
        source = given
        if not file.is_file():
            place = results.store or results.root
            raise ConfigError(
                f"no weights {given!r}: it is neither a run of {place} nor a file of weights, nor a folder"
                " that has one"
            )
    settings = read_json(file.parent / "config.json") or {}
    data = settings.get("recstudy", settings).get("data")
    return Weights(read_weights(file), Initial(source=source, sha256=sha256(file), date=now()), data)


def sha256(file: Path) -> str:
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def initial(config: RunConfig, results: Results) -> Weights | None:
    """Return what a run starts from; None where its seed draws it.

    Raises:
        DataError: it is not in the results folder, or another is in its place.
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
            f"{file} holds other weights than those of its name, {weights.digest}. Remove it. {FIX}."
        )
    return weights


def check_rows(weights: Weights, config: RunConfig, count: int) -> None:
    """Refuse (ConfigError) a table of embeddings whose rows stand for other puzzles or patients than those of
    the data set.

    Args:
        weights: Given to start from.
        config: Of a run that starts from them.
        count: The ids of its data set; 0 if it has none, so that row 0 stands for every item.
    """
    rows = getattr(config.model, "identifiers", 0)
    decisive = config.data.model_dump(mode="json", exclude=set(DataConfig.model_fields))
    trained_here = weights.data is not None and decisive.items() <= weights.data.items()
    if rows and rows != max(count, 1) and not trained_here:
        raise ConfigError(
            f"{weights.about.source} has a table of {rows:,} rows, but {config.data.title} has"
            f" {max(count, 1):,} ids: the rows stand for other puzzles or patients. Give the data set that"
            " the weights were trained on"
        )


def check_initial(configs: Iterable[RunConfig], results: Results, given: Weights | None = None) -> None:
    """Refuse runs whose weights are not there, or are those of another network, before anything is started.

    Args:
        configs: of the runs.
        results: where the weights are kept.
        given: some that will be kept there.

    Raises:
        ConfigError, DataError.
    """
    known: dict[str, Weights | None] = {given.digest: given} if given else {}
    for config in {
        (config.model, config.data, config.train.init_from): config for config in configs
    }.values():
        digest = config.train.init_from
        if digest and digest not in known:
            known[digest] = initial(config, results)
        if weights := known.get(digest):
            with torch.device("meta"):
                wanted = build(config.model, config.data).state_dict()
            check_state(weights, wanted, config.model.title)


def check_state(weights: Weights, wanted: Mapping[str, Tensor], title: str) -> None:
    """Refuse (DataError) weights of another network than that of this state."""
    check_names(weights.about.source, f"the weights of {title} as set here", wanted, weights.state)
    for name, value in wanted.items():
        check_shape(weights.about.source, name, value, weights.state[name])
