"""The `recstudy` command: reads what studies left behind, without torch or Ray."""

from collections.abc import Sequence
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


def main(arguments: Sequence[str] | None = None) -> None:
    """The `recstudy` command."""
    command = tyro.extras.subcommand_cli_from_dict({"report": Report, "status": Status}, args=arguments, prog="recstudy")
    finish(lambda: _read(command))


def _read(command: Report | Status) -> int:
    from recstudy.analysis.report import show_report, show_status, studies_at

    out = console()
    if isinstance(command, Status):
        show_status(studies_at(command.path)[0][0], out)
        return 0
    for results, study, preset in studies_at(command.path):
        show_report(results, study, preset, command.export, out)
    return 0
