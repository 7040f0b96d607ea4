"""The commands `recstudy weights import` and `recstudy weights export`."""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import OmitArgPrefixes, OmitSubcommandPrefixes, Positional, arg, subcommand

from recstudy.base.errors import ConfigError
from recstudy.base.terminal import say
from recstudy.cli.options import (
    File,
    Folder,
    FolderArgument,
    Name,
    ResultsPlace,
    Settings,
    StudyOptions,
    settings,
)
from recstudy.cli.study import carry_out
from recstudy.programs.base import load_program
from recstudy.records import Results
from recstudy.study.design import Variant
from recstudy.study.study import NAME, Study


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
        changes = settings(chain.from_iterable(self.set), "data.limit=1000")
        config, weights, report = load_program().tool("import")(
            self.file, self.data_set, self.family, self.arch, changes, Results(self.results)
        )
        study = Study(
            name=name,
            presets={"imported": config},
            variants=[Variant(f"{config.model.title} of {self.file.name}", {})],
            report=report,
            question=(
                f"What do the weights of {self.file.name} score here?\nThey were trained elsewhere:"
                f" {weights.about.words}."
            ),
        )
        return carry_out(study, StudyOptions(results=self.results, data=self.data, no_ray=True), weights)


@dataclass(frozen=True)
class Export:
    """Write the weights, config and a short README of a finished run into a new folder.

    The layout is that of the Hugging Face hub. `recstudy weights import DIR` and `--init-from DIR` read it.
    The option --as writes the layout of the authors' code: a checkpoint step_N of epoch N, and
    all_config.yaml. Nothing is uploaded.

    Example: recstudy weights export 3f0c... trm-sudoku --results results
    """

    run_id: Positional[Annotated[str, arg(metavar="RUN")]]
    """The id of the run, as on its page and in `recstudy explain`."""
    folder: FolderArgument
    """The new folder."""
    family: Annotated[Literal["", "trm", "hrm"], arg(name="as", metavar="trm|hrm")] = ""
    """For whose code: under the names of TRM's or of HRM's authors. Default: recstudy's own."""
    results: ResultsPlace = "results"
    """Where its records are."""

    def run(self) -> int:
        checkpoint, settings_file = load_program().tool("export")(
            Results(self.results).pull(), self.run_id, self.folder, self.family
        )
        say(f"{self.folder}: {checkpoint}, {settings_file} and README.md, whose licence is yours to choose")
        return 0


@dataclass(frozen=True)
class WeightsCommand:
    """Import weights that were trained elsewhere, such as by HRM's authors, or export those of a run."""

    command: OmitSubcommandPrefixes[
        OmitArgPrefixes[Annotated[Import, subcommand("import")] | Annotated[Export, subcommand("export")]]
    ]

    def run(self) -> int:
        return self.command.run()
