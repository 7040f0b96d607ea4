"""The command `recstudy fields`."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.terminal import say, say_table
from recstudy.cli.options import File, JsonFlag
from recstudy.plugins import UserFiles, loaded, module_files
from recstudy.programs.base import load_program
from recstudy.report.documents import FieldEntry, FieldsDocument


@dataclass(frozen=True)
class FieldsCommand:
    """List the settings of runs with types, defaults, allowed values, search ranges and meanings."""

    part: Positional[Annotated[str, arg(metavar="PART")]] = ""
    """train, resources, a model family such as vitrm, or a data set such as digits. Default: list the
    parts."""
    plugin: File = None
    """A study file or a module that registers more parts."""
    json: JsonFlag = False

    def run(self) -> int:
        with loaded(UserFiles() if self.plugin is None else module_files(self.plugin)):
            describe, groups = load_program().tool("fields"), load_program().tool("parts")()
            kinds = {name: kind for group in groups.values() for name, kind in group.items()}
            limit = len(kinds)
            if self.part and self.part not in kinds:
                raise ConfigError(
                    f"no part {self.part!r}: there are {choices(kinds, limit)}.{nearest(self.part, kinds)}"
                )
            entries = [*describe(*kinds[self.part])] if self.part else []
            if self.json:
                parts = {title: sorted(names) for title, names in groups.items()}
                FieldsDocument(parts=parts, fields=entries).show()
            elif entries:
                heads = [name.replace("_", " ") for name in FieldEntry.model_fields]
                say_table(heads, [[*vars(entry).values()] for entry in entries])
            else:
                for title, names in groups.items():
                    say(f"{title}: {choices(sorted(names), limit)}")
                say("Their fields: recstudy fields NAME")
            return 0
