"""All commands: `recstudy` with a file for each of its commands, and the command line of study files.

Only the command that is used is imported, so `recstudy --help` takes 0.3 s.
"""

import inspect
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import chain
from typing import Any

import tyro

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.terminal import finish, parsed, say
from recstudy.cli.help import HELP_WORDS, TYRO, print_groups, print_help

COMMANDS = {  # heading of `recstudy --help` -> command -> its summary
    "Start": {
        "new": "Write a starter: a study of a function, a command or a model.",
        "run": "Run a study that comes with recstudy, from any folder.",
        "studies": "List the studies that come with recstudy.",
        "fields": "List the settings of runs with types, defaults and meanings.",
        "check": "Check the tasks, models, optimizers and losses of your file.",
        "skill": "Print a SKILL.md for coding agents: keep or revert changes by claims.",
    },
    "Read results": {
        "judge": "Write the page and verdicts of finished runs in a CSV or Parquet file.",
        "report": "Write the page, tables and figures of studies again from records.",
        "explain": "Show the runs, the estimate and the verdict behind a number of a table.",
        "audit": "List what a reviewer would ask, and known contradictions in papers.",
        "check-paper": "Compare the numbers in a LaTeX paper with the records.",
        "status": "Show the progress of each study of a results folder.",
        "board": "Show studies and runs in a browser while they run. Read-only.",
    },
    "Share": {
        "publish": "Write a study as a folder and a zip with records, code and checksums.",
        "verify": "Check a published study against its records. Trains nothing.",
        "reproduce": "Run a published study again, and compare the numbers.",
    },
    "Others": {
        "evaluate": "Compute metrics of finished runs without training.",
        "clean": "List or remove old checkpoints and leftovers of killed processes.",
        "weights": "Import weights, such as of HRM's and TRM's authors, or export a run's.",
    },
}
DESCRIPTION = "Ablation studies and hyperparameter searches with confidence intervals and verdicts."
EXAMPLES = {
    "recstudy new my_study": "write a study of your function, script or model",
    "recstudy judge runs.csv": "get verdicts of finished runs",
    "recstudy judge --help": "see the options of a command",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the `recstudy` command."""
    words = list(sys.argv[1:] if arguments is None else arguments)

    def work() -> int:
        if words == ["--version"]:
            from recstudy.study.repository import version_text

            say(version_text())
            return 0
        name, *options = words or ["--help"]
        if name in HELP_WORDS:
            groups = {**COMMANDS, "Examples": EXAMPLES}
            print_groups("recstudy COMMAND [OPTIONS]", DESCRIPTION, groups)
            return 0
        command, study_options = command_class(name), list[str]()
        if name == "run":  # the words after the study's name are its options
            options, study_options = options[:1], options[1:]
        # `weights` has commands of its own, which tyro prints
        if name != "weights" and not HELP_WORDS.isdisjoint(options):
            examples, is_whole = getattr(command, "examples", {}), "--help-all" in options
            print_help(command, f"recstudy {name}", inspect.getdoc(command) or "", examples, is_whole)
            return 0
        parsed_command = parsed(lambda: tyro.cli(command, args=options, prog=f"recstudy {name}", config=TYRO))
        return int(parsed_command.run(*([study_options] if name == "run" else [])))

    finish(work)


def command_class(name: str) -> Any:
    """Return the class of a command, such as `JudgeCommand` of `recstudy.cli.judge`.

    Raises:
        ConfigError: There is no such command.
    """
    names = [*chain.from_iterable(COMMANDS.values())]
    if name not in names:
        raise ConfigError(
            f"no command {name!r}: there are {choices(names, len(names))}.{nearest(name, names)}"
        )
    module = import_module(f"recstudy.cli.{name.replace('-', '_')}")
    return getattr(module, f"{name.title().replace('-', '')}Command")
