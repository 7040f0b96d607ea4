"""The `recstudy` command: reads what studies left behind, without torch or Ray."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from recstudy.cli import Format
from recstudy.errors import ConfigError
from recstudy.records import Results
from recstudy.stores import is_uri
from recstudy.terminal import console, finish


@dataclass(frozen=True)
class Report:
    """Draw tables, figures and the page of studies again, from their records alone."""

    path: tyro.conf.Positional[str]
    """A results folder, a study's folder in it (results/studies/NAME/PRESET), or the URI that --results was given."""
    export: tuple[Format, ...] = ()
    """Write the figures in these formats too (needs a Chrome or Chromium)."""


@dataclass(frozen=True)
class Status:
    """How far each study of a results folder is."""

    path: tyro.conf.Positional[str] = "results"
    """A results folder, or the URI that --results was given."""


@dataclass(frozen=True)
class Clean:
    """Show what a results folder can do without: old checkpoints and leftovers of killed processes."""

    path: tyro.conf.Positional[Path] = Path("results")
    """A results folder."""
    orphans: bool = False
    """Also the runs that no study names any more, finished ones too."""
    yes: bool = False
    """Remove it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The `recstudy` command."""
    commands: dict[str, Callable[..., Report | Status | Clean]] = {"report": Report, "status": Status, "clean": Clean}
    command = tyro.extras.subcommand_cli_from_dict(commands, args=arguments, prog="recstudy")
    finish(lambda: _read(command))


def _read(command: Report | Status | Clean) -> int:
    from recstudy.analysis.report import show_report, show_status, studies_at
    from recstudy.clean import show_clean

    out = console()
    if isinstance(command, Clean):
        show_clean(command.path, command.orphans, command.yes, out)
        return 0
    if isinstance(command, Status):
        show_status(studies_at(_folder(command.path))[0][0], out)
        return 0
    for results, study, preset in studies_at(_folder(command.path)):
        show_report(results, study, preset, command.export, out)
    return 0


def _folder(place: str) -> Path:
    """The results folder, which is a copy where they are on an object store."""
    if not is_uri(place):
        return Path(place.removeprefix("file://"))
    folder = Results(place).pull().root
    if not any(folder.glob("studies/*/*/plan.json")):
        raise ConfigError(f"no study at {place}. Give the URI that --results was given.")
    return folder
