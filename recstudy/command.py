"""The `recstudy` command: reads what studies left behind, without torch or Ray."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from recstudy.cli import Format
from recstudy.terminal import console, finish


@dataclass(frozen=True)
class Report:
    """Draw tables, figures and the page of studies again, from their records alone."""

    path: tyro.conf.Positional[Path]
    """A results folder, or a study's folder in it (results/studies/NAME/PRESET)."""
    export: tuple[Format, ...] = ()
    """Write the figures in these formats too (needs a Chrome or Chromium)."""


@dataclass(frozen=True)
class Status:
    """How far each study of a results folder is."""

    path: tyro.conf.Positional[Path] = Path("results")
    """A results folder."""


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
        show_status(studies_at(command.path)[0][0], out)
        return 0
    for results, study, preset in studies_at(command.path):
        show_report(results, study, preset, command.export, out)
    return 0
