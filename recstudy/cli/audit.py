"""The command `recstudy audit`."""

from dataclasses import dataclass

from recstudy.base.terminal import console
from recstudy.cli.options import Imports, JsonFlag, ResultsArgument
from recstudy.cli.places import studies_of


@dataclass(frozen=True)
class AuditCommand:
    """List what a reviewer would ask about studies, and known contradictions in their papers."""

    path: ResultsArgument = "results"
    """A results folder, a study's folder (results/studies/NAME/PRESET), or its URI. Default: results."""
    trust: Imports = False
    json: JsonFlag = False

    def run(self) -> int:
        from recstudy.report.audit import show_audits

        show_audits(studies_of(self.path), self.json, console(), self.trust)
        return 0
