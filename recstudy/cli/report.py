"""The command `recstudy report`."""

from dataclasses import dataclass, field

from tyro.conf import OmitArgPrefixes

from recstudy.base.terminal import console
from recstudy.cli.options import Amount, ForPaper, Imports, ResultsArgument
from recstudy.cli.places import for_each_study, studies_of
from recstudy.records import Results
from recstudy.records.plans import record_look


@dataclass(frozen=True)
class Report:
    """Write the page, tables and figures of studies again, from their records."""

    path: ResultsArgument
    """A results folder, a study's folder (results/studies/NAME/PRESET), or its URI."""
    trust: Imports = False
    price: Amount = ""
    """The price of a GPU hour, such as 2.5EUR. The page then shows the price of the study."""
    report: OmitArgPrefixes[ForPaper] = field(default_factory=ForPaper)

    def run(self) -> int:
        from recstudy.report.summary import Price
        from recstudy.report.writing import show_report

        price = Price.parse(self.price) if self.price else None

        def draw(results: Results, name: str, preset: str) -> None:
            record_look(results, name, preset)
            show_report(
                results, name, preset, self.report.formats, console(), self.report.paper, self.trust, price
            )

        for_each_study(studies_of(self.path), draw)
        return 0
