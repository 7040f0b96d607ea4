"""The command `recstudy status`."""

from dataclasses import dataclass

from recstudy.base.terminal import console
from recstudy.cli.options import JsonFlag, ResultsArgument
from recstudy.cli.places import studies_of


@dataclass(frozen=True)
class StatusCommand:
    """Show the progress of each study of a results folder."""

    path: ResultsArgument = "results"
    """A results folder, or its URI (default: results)."""
    json: JsonFlag = False

    def run(self) -> int:
        from recstudy.report.status import show_status

        show_status(studies_of(self.path)[0][0], console(), self.json)
        return 0
