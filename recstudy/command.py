"""The `recstudy` command. It imports the one command that is used: `recstudy --help` takes 0.3 s, and all of
them 1 s.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import make_dataclass
from importlib import import_module
from typing import Any

from tyro.extras import subcommand_cli_from_dict

from recstudy.removed import refuse_removed
from recstudy.terminal import finish, parsed, say

COMMANDS = {  # name -> its class, and what `recstudy --help` says of it
    "report": (
        "commands:Report",
        "Draw tables, figures and the page of studies again, from their records alone.",
    ),
    "judge": (
        "judge:Judge",
        "Judge finished runs of a CSV file, as W&B, MLflow, Optuna and pandas write it. Runs nothing.",
    ),
    "status": ("commands:Status", "How far each study of a results folder is."),
    "audit": (
        "commands:Audit",
        "List what a careful reviewer would ask of studies, and what their papers contradict.",
    ),
    "explain": (
        "commands:Explain",
        "Show the runs behind one number of a table, their values, and how it was judged.",
    ),
    "evaluate": (
        "commands:Evaluate",
        "Compute metrics of finished runs that their results do not have, without training.",
    ),
    "publish": (
        "publishing.command:Publish",
        "Write a study as a folder and a zip for readers: report, records, code, digests.",
    ),
    "verify": (
        "publishing.command:Verify",
        "Check that a published study says what its records say. Runs and trains nothing.",
    ),
    "reproduce": (
        "reproduce:Reproduce",
        "Run a published study's numbers again, and say whether they are the same.",
    ),
    "clean": (
        "commands:Clean",
        "Show what a results folder can do without: old checkpoints and leftovers of killed processes.",
    ),
    "board": (
        "commands:Board",
        "Show studies and runs in a browser and follow them while they run. Only reads records.",
    ),
    "check": (
        "commands:Contract",
        "Check what a file of yours registers: tasks, model families, optimizers, losses.",
    ),
    "weights": (
        "weights:WeightsCommand",
        "Take in weights that were trained elsewhere, such as HRM's and TRM's, or export a run's.",
    ),
    "studies": ("commands:Studies", "The studies that come with recstudy, and what each of them asks."),
    "run": ("commands:RunShipped", "Run a study that comes with recstudy, from any directory."),
    "register": (
        "commands:Register",
        "Write what a study states before it runs to a small file beside the study's.",
    ),
    "new": ("commands:New", "Write a study that runs as it stands in under a minute: a starting point."),
    "fields": (
        "commands:Fields",
        "Every field of a run config: its type, default, allowed values, search range and meaning.",
    ),
}
DESCRIPTION = (
    "Studies of recursive models: what they ask, run and left behind. recstudy --version says which recstudy"
    " this is."
)


def main(arguments: Sequence[str] | None = None) -> None:
    """The `recstudy` command."""
    words = list(sys.argv[1:] if arguments is None else arguments)

    def work() -> int:
        if words == ["--version"]:
            from recstudy.study.repository import version_text

            say(version_text())
            return 0
        refuse_removed(words)
        options = {
            name: command_class(name, summary, words[:1] == [name]) for name, (_, summary) in COMMANDS.items()
        }
        typed = words[:2] if words[:1] in (["run"], ["register"]) else words  # the rest is the study's
        cli_options: dict[str, Any] = {
            "args": typed or ["--help"],
            "prog": "recstudy",
            "description": DESCRIPTION,
        }
        command: Any = parsed(lambda: subcommand_cli_from_dict(options, **cli_options))
        return int(command.run() if typed is words else command.run(words[2:]))

    finish(work)


def command_class(name: str, summary: str, is_used: bool) -> Callable[..., Any]:
    """Return the class of a command; if it is not used, a class that only has its summary."""
    if not is_used:
        return make_dataclass(name, (), namespace={"__doc__": summary})
    module, _, attribute = COMMANDS[name][0].partition(":")
    command: Callable[..., Any] = getattr(import_module(f"recstudy.{module}"), attribute)
    return command
