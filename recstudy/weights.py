"""The commands `recstudy weights import` and `recstudy weights export`."""

import json
import shutil
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, OmitSubcommandPrefixes, Positional, arg, subcommand

from recstudy.cli import carry_out
from recstudy.config import DATASETS, RunConfig, TrainConfig
from recstudy.errors import ConfigError, StorageError, choices
from recstudy.files import atomic_write, refuse_existing
from recstudy.metrics.registry import of_task
from recstudy.opened import is_regular_file
from recstudy.options import File, Folder, Name, ResultsPlace, Settings, StudyOptions, settings
from recstudy.programs.settings import configure
from recstudy.records import Result, Results, read_json, read_record
from recstudy.report import Curve, Part, Table, Thinking
from recstudy.report.names import metric, number
from recstudy.study.design import Variant
from recstudy.study.study import NAME, Study
from recstudy.terminal import say

if TYPE_CHECKING:
    from torch import Tensor

    from recstudy.train.initial import Weights

NONE = "0" * 20  # a digest, until the weights' own is known
ARCH = "all_config.yaml"  # as the authors' trainers write it beside their checkpoints
EVALUATE_ONLY = {"epochs": 0, "init_from": NONE, "selection": "last"}
# As the authors' trainers do: the record says so. Their halting loss counts half (models/losses.py); TRM's
# text has 1.
OFFICIAL_SETTINGS = {"halting": "sample", "halt_weight": 0.5, "loss": "stablemax", "ema_decay": 0.0}


@dataclass(frozen=True)
class Import:
    """Evaluate weights that were trained elsewhere, as a finished run of origin `imported` with a report.

    Example: recstudy weights import step_65100 sudoku_extreme --as trm --data DIR
    """

    file: Positional[Annotated[Path, arg(metavar="FILE|DIR")]]
    """A checkpoint of the authors' code or its folder, a folder of `recstudy weights export`, or a run's
    folder."""
    data_set: Positional[Name] = ""
    """The data set: sudoku_extreme, maze_hard, puzzle_folder, sudoku, ... Default: that of the folder's
    config."""
    family: Annotated[Literal["", "trm", "hrm"], arg(name="as", metavar="trm|hrm")] = ""
    """The layout of the checkpoint: of TRM's or HRM's authors. Default: recstudy's."""
    arch: File = None
    """The config of the training. Default: all_config.yaml beside the file, else the authors' defaults, which
    are printed.
    """
    set: Settings = ()
    """Change a field, such as data.limit=1000 or train.evaluation_steps=64. May be repeated."""
    name: Name = ""
    """The name of the study. Default: imported_FILE."""
    data: Folder = None
    """The folder with the data sets. Default: RECSTUDY_DATA, else ./data."""
    results: ResultsPlace = "results"
    """The results folder."""

    def run(self) -> int:
        name = self.name or f"imported_{self.file.name}"
        if not NAME.fullmatch(name):
            raise ConfigError(f"{name!r} cannot be the name of a study: give one by --name")
        config, weights = self._official_checkpoint() if self.family else self._recstudy_weights()
        study = Study(
            name=name,
            presets={"imported": config},
            variants=[Variant(f"{config.model.title} of {self.file.name}", {})],
            report=_report(config),
            question=(
                f"What do the weights of {self.file.name} score here?\nThey were trained elsewhere:"
                f" {weights.about.words}."
            ),
        )
        return carry_out(study, StudyOptions(results=self.results, data=self.data, no_ray=True), weights)

    def _official_checkpoint(self) -> "tuple[RunConfig, Weights]":
        """Return the run and the weights, with recstudy's names, of a checkpoint of the authors' code."""
        assert self.family
        if not self.data_set:
            raise ConfigError(
                f"on which data set? Give its name behind {self.file}: {choices(sorted(DATASETS))}"
            )
        from recstudy.models.networks.contract import build  # it loads torch
        from recstudy.models.networks.official_weights import (
            from_official,
            official_model,
            read_arch,
            read_official,
        )
        from recstudy.models.networks.sequence import SequenceNetwork
        from recstudy.records.schema import Initial, current_time
        from recstudy.train.initial import Weights, sha256

        checkpoint = _checkpoint(self.file)
        config_file = checkpoint.with_name(ARCH)
        file = self.arch or (config_file if config_file.exists() else None)
        official_state, arch = read_official(checkpoint), read_arch(file, self.family)
        if file is None:
            defaults = ", ".join(
                f"{name}={value}" for name, value in arch.model_dump(exclude={"name"}).items()
            )
            say(f"No {ARCH} beside {checkpoint}, so the authors' defaults: {defaults}")
        steps = dict.fromkeys(
            ("supervision_steps", "evaluation_steps", "evaluation_depths"), arch.halt_max_steps
        )
        train = {**EVALUATE_ONLY, **OFFICIAL_SETTINGS, **steps}
        config = self._config(
            {"model": official_model(self.family, arch, official_state).model_dump(), "train": train}
        )
        network = build(config.model, config.data)
        assert isinstance(network, SequenceNetwork)
        settings = arch.model_dump(mode="json")
        about = Initial(
            source=str(checkpoint),
            sha256=sha256(checkpoint),
            names=self.family,
            settings=settings,
            date=current_time(),
        )
        weights = Weights(from_official(network, official_state, checkpoint), about)
        return config.with_changes({"train.init_from": weights.digest}), weights

    def _recstudy_weights(self) -> "tuple[RunConfig, Weights]":
        """Return the run and the weights of a folder that recstudy wrote."""
        folder = self.file if self.file.is_dir() else self.file.parent
        content = read_json(folder / "config.json") or {}
        parts = content.get("recstudy", content)
        if not {"data", "model", "train"} <= parts.keys():
            raise ConfigError(
                f"{folder} has no config.json of recstudy's. Say whose checkpoint {self.file} is: --as trm or"
                " --as hrm"
            )
        from recstudy.train.initial import read_initial_weights

        weights = read_initial_weights(str(self.file), Results(self.results))
        train = {**parts["train"], **EVALUATE_ONLY, "init_from": weights.digest}
        return self._config({"data": parts["data"], "model": parts["model"], "train": train}), weights

    def _config(self, parts: dict[str, dict[str, Any]]) -> RunConfig:
        """Return the run of these parts, with changes from the command line."""
        changes = settings(chain.from_iterable(self.set), "data.limit=1000")
        if self.data_set:
            fields = {
                path.removeprefix("data."): changes.pop(path)
                for path in [*changes]
                if path.startswith("data.")
            }
            parts = {
                **parts,
                "data": configure(DATASETS[self.data_set], fields, "data").model_dump(mode="json"),
            }
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


@dataclass(frozen=True)
class Export:
    """Write the weights, config and a short README of a finished run into a new folder.

    The layout is that of the Hugging Face hub. `recstudy weights import DIR` and `--init-from DIR` read it.
    With
    --as it is that of the authors' code: a checkpoint step_N of epoch N, and all_config.yaml. Nothing is
    uploaded. Example: recstudy weights export 3f0c... trm-sudoku --results results
    """

    run_id: Positional[Annotated[str, arg(metavar="RUN")]]
    """The id of the run, as on its page and in `recstudy explain`."""
    folder: Positional[Annotated[Path, arg(metavar="DIR")]]
    """The new folder."""
    family: Annotated[Literal["", "trm", "hrm"], arg(name="as", metavar="trm|hrm")] = ""
    """For whose code: under the names of TRM's or of HRM's authors. Default: recstudy's own."""
    results: ResultsPlace = "results"
    """Where its records are."""

    def run(self) -> int:
        results = Results(self.results).pull()
        folder = results.run(self.run_id)
        refuse_existing(self.folder)
        result, values = read_record(folder.result, Result), read_json(folder.config)
        if result is None or values is None:
            place = results.store or results.root
            raise ConfigError(
                f"no finished run {self.run_id!r} in {place}. Its page and `recstudy explain` name runs"
            )
        weights = results.fetched(folder.weights)
        if not is_regular_file(weights):
            raise ConfigError(f"the run {self.run_id} has kept no weights")
        config = RunConfig.model_validate(values)
        checkpoint, settings = "model.safetensors", "config.json"
        if self.family:
            checkpoint, settings = f"step_{result.selected.number or 0}", ARCH
            arch, state = self._official(config, weights)
        try:
            with atomic_write(self.folder) as temporary:
                temporary.mkdir()
                if self.family:
                    import torch
                    import yaml

                    torch.save(state, temporary / checkpoint)
                    text = yaml.safe_dump({"arch": arch}, sort_keys=False)
                else:
                    content = {
                        "model_type": f"recstudy_{config.model.family}",
                        "recstudy": config.values,
                        "run": self.run_id,
                    }
                    shutil.copyfile(weights, temporary / checkpoint)
                    text = json.dumps(content, indent=2) + "\n"
                (temporary / settings).write_text(text, encoding="utf-8")
                (temporary / "README.md").write_text(
                    self._readme(config, result, checkpoint, settings), encoding="utf-8"
                )
                refuse_existing(self.folder)  # another process may have written it meanwhile
        except OSError as error:
            raise StorageError(f"{self.folder} cannot be written: {error.strerror}. Nothing was.") from None
        say(f"{self.folder}: {checkpoint}, {settings} and README.md, whose licence is yours to choose")
        return 0

    def _official(self, config: RunConfig, file: Path) -> "tuple[dict[str, Any], dict[str, Tensor]]":
        """Return the `arch` block and the weights of a run for the authors' code."""
        import torch

        from recstudy.models.networks.contract import build
        from recstudy.models.networks.official_weights import PREFIX, official_arch, to_official
        from recstudy.models.networks.sequence import SequenceNetwork
        from recstudy.models.networks.weight_files import read_weights

        assert self.family
        arch = official_arch(config, self.family)
        with torch.device("meta"):
            network = build(config.model, config.data)
        assert isinstance(network, SequenceNetwork)
        state = to_official(network, read_weights(file))
        if network.puzzle is None:  # their code has a row in front, and a row of zeros is ours
            state["puzzle_emb.weights"] = torch.zeros(1, network.config.width)
        return arch, {PREFIX + name: value.contiguous() for name, value in state.items()}

    def _readme(self, config: RunConfig, result: Result, checkpoint: str, settings: str) -> str:
        """Return the README of exported weights: contents, metrics on the test split, and origin."""
        name, provenance, selected = self.folder.name, result.provenance, result.selected
        synthetic = " (synthetic: generated by a program)" if provenance.synthetic else ""
        origin = (
            f"epoch {selected.number}, selected on {selected.split}"
            if selected.number
            else "not trained here"
        )
        commit = f"commit {provenance.made_by or 'unknown'}{' with uncommitted changes' * provenance.dirty}"
        values = [(score, value) for score, value in result.metrics.items() if value is not None]
        rows = [f"| {metric(score).heading} | {number(score, value)} |" for score, value in values]
        command = f"recstudy weights import {name} --data DIR\npython STUDY.py --init-from {name}"
        if self.family:
            command = (
                f"recstudy weights import {name}/{checkpoint} {config.data.name} --as {self.family}"
                " --data DIR"
            )
        lines = [
            (
                f"# {config.model.title}, {'judged' if provenance.origin == 'imported' else 'trained'} on"
                f" {config.data.title}{synthetic}"
            ),
            (
                f"Run `{self.run_id}` of recstudy, seed {config.seed}, set as in `{settings}`. Evaluate it or"
                " start from it:"
            ),
            f"```bash\n{command}\n```",
            "\n".join(["| metric, on the test split | value |", "| --- | --- |", *rows]),
            (
                f"Weights: {'; '.join(filter(None, [provenance.initial_weights, origin]))}. Code: {commit}."
                f" Finished {provenance.finished}."
            ),
            (
                "The licence is to be chosen by whoever publishes this: it depends on the data and on initial"
                " weights."
            ),
        ]
        return "\n\n".join(lines) + "\n"


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


@dataclass(frozen=True)
class WeightsCommand:
    """Take weights in that were trained elsewhere, such as those of HRM's and TRM's authors, or give a run's
    out.
    """

    command: OmitSubcommandPrefixes[
        OmitArgPrefixes[Annotated[Import, subcommand("import")] | Annotated[Export, subcommand("export")]]
    ]

    def run(self) -> int:
        return self.command.run()
