"""The command `recstudy report`."""

from dataclasses import dataclass, field

from tyro.conf import OmitArgPrefixes

from recstudy.base.errors import PartError, StorageError
from recstudy.base.terminal import console, document_output
from recstudy.cli.options import Amount, ForPaper, Imports, JsonFlag, ResultsArgument, VerdictFlag
from recstudy.cli.places import for_each_study, studies_of
from recstudy.records import Results
from recstudy.records.plans import record_look


@dataclass(frozen=True)
class ReportCommand:
    """Write the page, tables and figures of studies again, from their records."""

    path: ResultsArgument
    """A results folder, a study's folder (results/studies/NAME/PRESET), or its URI."""
    trust: Imports = False
    price: Amount = ""
    """The price of a GPU hour, such as 2.5EUR. The page then shows the price of the study."""
    report: OmitArgPrefixes[ForPaper] = field(default_factory=ForPaper)
    json: JsonFlag = False
    exit_by_verdict: VerdictFlag = False

    def run(self) -> int:
        from recstudy.cli.study_entries import conclude, study_entry
        from recstudy.report.summary import Price
        from recstudy.report.writing import show_report

        price, entries = Price.parse(self.price) if self.price else None, []

        def draw(results: Results, name: str, preset: str) -> None:
            terminal, paper = console(self.json), self.report.paper
            with results.drawing(name, preset):
                record_look(results, name, preset)
                try:
                    show_report(
                        results, name, preset, self.report.formats, terminal, paper, self.trust, price
                    )
                finally:
                    if self.json or self.exit_by_verdict:
                        entries.append(study_entry(results, name, preset, self.trust))

        studies = studies_of(self.path)
        with document_output(self.json) as stdout:
            try:
                for_each_study(studies, draw)
            except (StorageError, PartError):
                conclude("report", entries, self.json, False, stdout)
                raise
            return conclude("report", entries, self.json, self.exit_by_verdict, stdout)
