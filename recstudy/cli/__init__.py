"""All commands: `recstudy` with a file for each of its commands, and the command line of study files.

Only the command that is used is imported, so `recstudy --help` takes 0.3 s.
"""

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import make_dataclass
from importlib import import_module
from typing import Any

from tyro.extras import subcommand_cli_from_dict

from recstudy.base.terminal import finish, parsed, say
from recstudy.cli.help import HELP_WORDS, TYRO, Option, print_groups, print_help

COMMANDS = {  # name -> its class and its summary in `recstudy --help`
    "report": (
        "report:Report",
        "Write the page, tables and figures of studies again from records.",
    ),
    "judge": (
        "judge:Judge",
        "Write the page and verdicts of finished runs in a CSV or Parquet file.",
    ),
    "status": ("status:Status", "Show the progress of each study of a results folder."),
    "audit": (
        "audit:Audit",
        "List what a reviewer would ask, and known contradictions in papers.",
    ),
    "explain": (
        "explain:Explain",
        "Show the runs, the estimate and the verdict behind a number of a table.",
    ),
    "evaluate": (
        "evaluate:Evaluate",
        "Compute metrics of finished runs without training.",
    ),
    "publish": (
        "publish:Publish",
        "Write a study as a folder and a zip with records, code and checksums.",
    ),
    "verify": (
        "verify:Verify",
        "Check a published study against its records. Trains nothing.",
    ),
    "reproduce": (
        "reproduce:Reproduce",
        "Run a published study again, and compare the numbers.",
    ),
    "clean": (
        "clean:Clean",
        "List or remove old checkpoints and leftovers of killed processes.",
    ),
    "board": (
        "board:Board",
        "Show studies and runs in a browser while they run. Read-only.",
    ),
    "check": (
        "check:Check",
        "Check the tasks, models, optimizers and losses of your file.",
    ),
    "check-paper": (
        "check_paper:CheckPaper",
        "Compare the numbers in a LaTeX paper with the records.",
    ),
    "weights": (
        "weights:WeightsCommand",
        "Import weights, such as of HRM's and TRM's authors, or export a run's.",
    ),
    "studies": ("studies:Studies", "List the studies that come with recstudy."),
    "run": ("run:RunShipped", "Run a study that comes with recstudy, from any folder."),
    "new": ("new:New", "Write a starter: a study of a function, a command or a model."),
    "skill": ("skill:Skill", "Print a SKILL.md for coding agents: keep or revert changes by claims."),
    "fields": (
        "fields:Fields",
        "List the settings of runs with types, defaults and meanings.",
    ),
}
GROUPS = {  # of `recstudy --help`; the other commands come last
    "Start": "new run studies fields check skill",
    "Read results": "judge report explain audit check-paper status board",
    "Share": "publish verify reproduce",
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
        is_study = words[:1] == ["run"]  # the words after its name are the study's options
        typed = words[:2] if is_study else words
        # `weights` has commands of its own, which tyro prints
        if not typed or (not HELP_WORDS.isdisjoint(typed) and typed[0] != "weights"):
            _print_help(typed)
            return 0
        options = {
            name: command_class(name, summary, words[:1] == [name]) for name, (_, summary) in COMMANDS.items()
        }
        cli_options: dict[str, Any] = {"args": typed, "prog": "recstudy", "config": TYRO}
        command: Any = parsed(lambda: subcommand_cli_from_dict(options, **cli_options))
        return int(command.run(words[2:]) if is_study else command.run())

    finish(work)


def _print_help(words: list[str]) -> None:
    """Print the commands, or the options of the command that the words name."""
    if words and words[0] in COMMANDS:
        command: Any = command_class(words[0], "", True)
        examples, is_whole = getattr(command, "examples", {}), "--help-all" in words
        print_help(command, f"recstudy {words[0]}", inspect.getdoc(command) or "", examples, is_whole)
        return
    grouped_names = " ".join(GROUPS.values()).split()
    others = [name for name in COMMANDS if name not in grouped_names]
    options = {
        heading: [Option(name, COMMANDS[name][1]) for name in names.split()]
        for heading, names in {**GROUPS, "Others": " ".join(others)}.items()
    }
    print_groups("recstudy COMMAND [OPTIONS]", DESCRIPTION, options, EXAMPLES)


def command_class(name: str, summary: str, is_used: bool) -> Callable[..., Any]:
    """Return the class of a command; if it is not used, a class that only has its summary."""
    if not is_used:
        return make_dataclass(name, (), namespace={"__doc__": summary})
    module, _, attribute = COMMANDS[name][0].partition(":")
    command: Callable[..., Any] = getattr(import_module(f"recstudy.cli.{module}"), attribute)
    return command
