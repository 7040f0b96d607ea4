"""The command `recstudy run`."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tyro.conf import Positional

from recstudy.base.errors import ConfigError, nearest
from recstudy.cli.options import Name
from recstudy.study.shipped import shipped


@dataclass(frozen=True)
class RunCommand:
    """Run a study that comes with recstudy: as python studies/NAME.py, from any folder."""

    name: Positional[Name]
    """The name in `recstudy studies`. Options of the study follow it: recstudy run NAME --help."""

    def run(self, arguments: Sequence[str]) -> NoReturn:
        studies = shipped()
        file = Path(self.name) if self.name.endswith(".py") else studies.get(self.name)
        if file is None or not file.is_file():
            raise ConfigError(
                f"no study {self.name!r}.{nearest(self.name, studies)} `recstudy studies` lists them"
            )
        os.execv(sys.executable, [sys.executable, str(file), *arguments])
