"""Read weights that were trained elsewhere, and write a run's weights: what `recstudy weights` calls."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from recstudy.base.errors import ConfigError, StorageError, choices
from recstudy.base.files import atomic_write, refuse_existing, sha256_of
from recstudy.base.opened import is_regular_file
from recstudy.base.strict_yaml import write_yaml
from recstudy.base.terminal import say
from recstudy.programs.settings import configure
from recstudy.records import Json, Result, Results, read_json, read_record
from recstudy.records.schema import Initial, current_time
from recstudy.recursive.config.parts import DATASETS
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.train import TrainConfig
from recstudy.recursive.figures.thinking import Thinking
from recstudy.recursive.metrics.registry import of_task
from recstudy.recursive.models.networks.contract import build  # it loads torch
from recstudy.recursive.models.networks.official_weights import (
    PREFIX,
    TABLE,
    Family,
    from_official,
    official_arch,
    official_model,
    read_arch,
    read_official,
    to_official,
)
from recstudy.recursive.models.networks.sequence import SequenceNetwork
from recstudy.recursive.models.networks.weight_files import read_weights
from recstudy.recursive.train.initial import Weights, read_initial_weights
from recstudy.report import Curve, Part, Table
from recstudy.report.names import metric, number

NONE = "0" * 20  # a digest, until the weights' own is known
ARCH = "all_config.yaml"  # as the authors' trainers write it beside their checkpoints
EVALUATE_ONLY = {"epochs": 0, "init_from": NONE, "selection": "last"}
# As the authors' trainers do: the record says so. Their halting loss counts half (models/losses.py); TRM's
# text has 1.
OFFICIAL_SETTINGS = {"halting": "sample", "halt_weight": 0.5, "loss": "stablemax", "ema_decay": 0.0}

Layout = Literal["", "hrm", "trm"]  # whose names a checkpoint has: recstudy's, or those of a family's authors
README = """\
# {title}, {verb} on {data}

Run `{run}` of recstudy, seed {seed}, set as in `{settings}`. Evaluate it or start from it:

```bash
{command}
```

| metric, on the test split | value |
| --- | --- |{rows}

Weights: {weights}. Code: commit {commit}. Finished {finished}.

The licence is to be chosen by whoever publishes this: it depends on the data and on initial weights.
"""


def import_weights(
    file: Path, data_set: str, family: Layout, arch_file: Path | None, changes: Json, results: Results
) -> "tuple[RunConfig, Weights, list[Part]]":
    """Return the run, the weights and the report of a checkpoint or of a folder that recstudy wrote.

    The arguments are those of `recstudy weights import`; `changes` are changed fields by path.

    Raises:
        ConfigError, DataError: The file cannot be read, or the data set is not given.
    """
    if family:
        config, weights = _official_checkpoint(file, data_set, family, arch_file, changes)
    else:
        config, weights = _recstudy_weights(file, data_set, changes, results)
    return config, weights, _report(config)


def _official_checkpoint(
    file: Path, data_set: str, family: Family, arch_file: Path | None, changes: Json
) -> "tuple[RunConfig, Weights]":
    """Return the run and the weights, with recstudy's names, of a checkpoint of the authors' code."""
    if not data_set:
        raise ConfigError(f"on which data set? Give its name behind {file}: {choices(sorted(DATASETS))}")

    checkpoint = _checkpoint(file)
    config_file = checkpoint.with_name(ARCH)
    arch_file = arch_file or (config_file if config_file.exists() else None)
    official_state, arch = read_official(checkpoint), read_arch(arch_file, family)
    if arch_file is None:
        defaults = ", ".join(f"{name}={value}" for name, value in arch.model_dump(exclude={"name"}).items())
        say(f"No {ARCH} beside {checkpoint}, so the authors' defaults: {defaults}")
    steps = dict.fromkeys(("supervision_steps", "evaluation_steps", "evaluation_depths"), arch.halt_max_steps)
    train = {**EVALUATE_ONLY, **OFFICIAL_SETTINGS, **steps}
    config = _config(
        {"model": official_model(family, arch, official_state).model_dump(), "train": train},
        data_set,
        changes,
    )
    network = build(config.model, config.data)
    assert isinstance(network, SequenceNetwork)
    settings = arch.model_dump(mode="json")
    about = Initial(
        source=str(checkpoint),
        sha256=sha256_of(checkpoint),
        names=family,
        settings=settings,
        date=current_time(),
    )
    weights = Weights(from_official(network, official_state, checkpoint), about)
    return config.with_changes({"train.init_from": weights.digest}), weights


def _recstudy_weights(
    file: Path, data_set: str, changes: Json, results: Results
) -> "tuple[RunConfig, Weights]":
    """Return the run and the weights of a folder that recstudy wrote."""
    folder = file if file.is_dir() else file.parent
    content = read_json(folder / "config.json") or {}
    parts = content.get("recstudy", content)
    if not {"data", "model", "train"} <= parts.keys():
        raise ConfigError(
            f"{folder} has no config.json of recstudy's. Say whose checkpoint {file} is: --as trm or --as hrm"
        )

    weights = read_initial_weights(str(file), results)
    train = {**parts["train"], **EVALUATE_ONLY, "init_from": weights.digest}
    return _config(
        {"data": parts["data"], "model": parts["model"], "train": train}, data_set, changes
    ), weights


def _config(parts: dict[str, dict[str, Any]], data_set: str, changes: Json) -> RunConfig:
    """Return the run of these parts, with changes from the command line."""
    if data_set:
        fields = {
            path.removeprefix("data."): changes.pop(path) for path in [*changes] if path.startswith("data.")
        }
        parts = {**parts, "data": configure(DATASETS[data_set], fields, "data").model_dump(mode="json")}
    return configure(RunConfig, {**parts, "train": TrainConfig(**parts["train"])}).with_changes(changes)


def _checkpoint(place: Path) -> Path:
    """Return a checkpoint of the authors' code: the file itself, or the only step_N in a folder.

    Raises:
        ConfigError: The folder has none or several.
    """
    if not place.is_dir():
        return place
    steps = sorted(file for file in place.glob("step_*") if file.is_file())
    if len(steps) != 1:
        raise ConfigError(
            f"{place} must have one checkpoint step_N, but has"
            f" {choices([file.name for file in steps]) or 'none'}"
        )
    return steps[0]


def export_weights(results: Results, run_id: str, target: Path, family: Layout) -> tuple[str, str]:
    """Write the weights, config and a short README of a finished run into a new folder.

    Returns:
        The names of the checkpoint and of the file of settings.

    Raises:
        ConfigError: There is no such run, or the folder exists.
        StorageError: The folder cannot be written.
    """
    folder = results.run(run_id)
    refuse_existing(target)
    result, values = read_record(folder.result, Result), read_json(folder.config)
    if result is None or values is None:
        place = results.store or results.root
        raise ConfigError(f"no finished run {run_id!r} in {place}. Its page and `recstudy explain` name runs")
    weights = results.fetched(folder.weights)
    if not is_regular_file(weights):
        raise ConfigError(f"the run {run_id} has kept no weights")
    config = RunConfig.model_validate(values)
    if family:
        checkpoint, settings = f"step_{result.selected.number or 0}", ARCH
        text = write_yaml({"arch": official_arch(config, family)})
        copy_weights = partial(torch.save, _official_state(config, weights))
    else:
        checkpoint, settings = "model.safetensors", "config.json"
        content = {"model_type": f"recstudy_{config.model.family}", "recstudy": config.values, "run": run_id}
        text = json.dumps(content, indent=2) + "\n"
        copy_weights = partial(shutil.copyfile, weights)
    try:
        with atomic_write(target) as temporary:
            temporary.mkdir()
            copy_weights(temporary / checkpoint)
            (temporary / settings).write_text(text, encoding="utf-8")
            readme = _readme(target.name, run_id, family, config, result, checkpoint, settings)
            (temporary / "README.md").write_text(readme, encoding="utf-8")
            refuse_existing(target)  # another process may have written it meanwhile
    except OSError as error:
        raise StorageError(f"{target} cannot be written: {error.strerror}. Nothing was.") from None
    return checkpoint, settings


def _official_state(config: RunConfig, file: Path) -> dict[str, Tensor]:
    """Return the weights of a run for the authors' code."""
    with torch.device("meta"):
        network = build(config.model, config.data)
    assert isinstance(network, SequenceNetwork)
    state = to_official(network, read_weights(file))
    if network.puzzle is None:  # their code has a row in front, and a row of zeros is ours
        state[TABLE] = torch.zeros(1, network.config.width)
    return {PREFIX + name: value.contiguous() for name, value in state.items()}


def _readme(
    name: str, run_id: str, family: Layout, config: RunConfig, result: Result, checkpoint: str, settings: str
) -> str:
    """Return the README of exported weights: contents, metrics on the test split, and origin."""
    provenance, selected = result.provenance, result.selected
    origin = (
        f"epoch {selected.number}, selected on {selected.split}" if selected.number else "not trained here"
    )
    values = [(score, value) for score, value in result.metrics.items() if value is not None]
    command = f"recstudy weights import {name} --data DIR\npython STUDY.py --init-from {name}"
    if family:
        command = f"recstudy weights import {name}/{checkpoint} {config.data.name} --as {family} --data DIR"
    return README.format(
        title=config.model.title,
        verb="judged" if provenance.origin == "imported" else "trained",
        data=config.data.title + " (synthetic: generated by a program)" * provenance.synthetic,
        run=run_id,
        seed=config.seed,
        settings=settings,
        command=command,
        rows="".join(f"\n| {metric(score).heading} | {number(score, value)} |" for score, value in values),
        weights="; ".join(filter(None, [provenance.initial_weights, origin])),
        commit=(provenance.made_by or "unknown") + " with uncommitted changes" * provenance.dirty,
        finished=provenance.finished,
    )


def _report(config: RunConfig) -> list[Part]:
    """Return the parts of the report of one run."""
    score = config.score
    metric_names = dict.fromkeys(
        [score, *of_task(config.task), "halted_exact_accuracy", "halted_steps", "params", "gflops"]
    )
    parts: list[Part] = [Table("scores", metrics=tuple(metric_names), across=True)]
    if config.model.recursive and config.train.evaluation_depths:
        parts.append(Curve("depths", x="eval.depth", y=score, by="variant"))
    return [*parts, Thinking()] if config.task == "grid" else parts
