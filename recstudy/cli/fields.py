"""The command `recstudy fields`."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.terminal import say, say_table
from recstudy.cli.options import File
from recstudy.plugins import UserFiles, loaded, module_files
from recstudy.programs.base import load_program


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
