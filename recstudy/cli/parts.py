"""Commands about the parts of runs, such as tasks, models and data sets: check and fields."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.terminal import console, say, say_table
from recstudy.cli.options import File, Folder, data_folder
from recstudy.plugins import UserFiles, loaded, module_files
from recstudy.programs.base import load_program


@dataclass(frozen=True)
class Check:
    """Check the parts that your file registers.

    Tasks: losses and saved answers. Model families: shapes, gradients, independence of images, parameter
    counts, every switch, resuming and first losses. Optimizers, losses and augmentations: that they train.
    """

    file: Positional[Path]
    """A study file or a module."""
    data: Folder = None
    """The folder with the data sets of the examples. Default: RECSTUDY_DATA, else ./data."""
    write: bool = False
    """Save the first losses of each family beside the file. Without it they are compared with saved ones."""

    def run(self) -> int:
        return load_program().tool("check")(self.file, data_folder(self.data), self.write, console())


@dataclass(frozen=True)
class Fields:
    """List the settings of runs with types, defaults, allowed values, search ranges and meanings."""

    part: Positional[Annotated[str, arg(metavar="PART")]] = ""
    """train, resources, a model family such as vitrm, or a data set such as digits. Default: list the
    parts."""
    plugin: File = None
    """A study file or a module that registers more parts."""

    def run(self) -> int:
        with loaded(UserFiles() if self.plugin is None else module_files(self.plugin)):
            describe, groups = load_program().tool("fields"), load_program().tool("parts")()
            kinds = {name: kind for group in groups.values() for name, kind in group.items()}
            if self.part in kinds:
                columns = ("field", "type", "default", "search range", "meaning")
                say_table(columns, describe(*kinds[self.part]))
                return 0
            limit = len(kinds)
            if self.part:
                raise ConfigError(
                    f"no part {self.part!r}: there are {choices(kinds, limit)}.{nearest(self.part, kinds)}"
                )
            for title, names in groups.items():
                say(f"{title}: {choices(sorted(names), limit)}")
            say("Their fields: recstudy fields NAME")
            return 0
