"""Commands that read a results folder: report, status, audit, explain, evaluate and clean."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from tyro.conf import OmitArgPrefixes, Positional, arg

from recstudy.base.terminal import console, say
from recstudy.cli.options import Amount, Folder, ForPaper, Imports, Names, ResultsArgument, data_folder
from recstudy.cli.places import for_each_study, studies_of
from recstudy.programs.base import load_program
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


@dataclass(frozen=True)
class Status:
    """Show the progress of each study of a results folder."""

    path: ResultsArgument = "results"
    """A results folder, or its URI."""

    def run(self) -> int:
        from recstudy.report.status import show_status

        show_status(studies_of(self.path)[0][0], console())
        return 0


@dataclass(frozen=True)
class Audit:
    """List what a reviewer would ask about studies, and known contradictions in their papers."""

    path: ResultsArgument = "results"
    """A results folder, a study's folder (results/studies/NAME/PRESET), or its URI."""
    trust: Imports = False
    json: bool = False
    """Print a JSON list with an entry per study."""

    def run(self) -> int:
        from recstudy.report.audit import show_audits

        show_audits(studies_of(self.path), self.json, console(), self.trust)
        return 0


@dataclass(frozen=True)
class Explain:
    """Show the runs, the estimate and the verdict behind a number of a table.

    Example: recstudy explain table1:ViTRM:64 results/studies/vitrm_batch_size/paper
    """

    cell: Positional[Annotated[str, arg(metavar="TABLE:ROW:COLUMN")]]
    """Table, row and column, each by its label or the beginning of it. Rows and columns also by number, from
    1."""
    path: ResultsArgument = "results"
    """A study's folder (results/studies/NAME/PRESET), a results folder with one study that has the table, or
    a URI.
    """
    trust: Imports = False

    def run(self) -> int:
        from recstudy.report.explain import show_cell

        show_cell(studies_of(self.path), self.cell, console(), self.trust)
        return 0


@dataclass(frozen=True)
class Evaluate:
    """Compute metrics of finished runs without training.

    They are computed from the saved answers. If these do not suffice, they are computed from the weights,
    which needs the data and torch.
    """

    path: ResultsArgument
    """A results folder, a study's folder (results/studies/NAME/PRESET), or its URI."""
    trust: Imports = False
    metric: Names = ()
    """A metric to compute, again if it exists. May be repeated. Default: all missing metrics."""
    data: Folder = None
    """The folder with the data sets. Default: RECSTUDY_DATA, else ./data."""

    def run(self) -> int:
        studies, data = studies_of(self.path, sends=True), data_folder(self.data)
        evaluate = load_program().tool("evaluate")
        done = for_each_study(
            studies,
            lambda results, name, preset: evaluate(results, name, preset, self.metric, data, self.trust),
        )
        say(f"Draw them with: recstudy report {self.path}")
        return 0 if all(done) else 1


@dataclass(frozen=True)
class Clean:
    """List or remove old checkpoints and leftovers of killed processes."""

    path: Positional[Path] = Path("results")
    """A results folder."""
    orphans: bool = False
    """Include runs that no study uses, also finished ones."""
    yes: bool = False
    """Remove the listed files. Without it they are only listed."""

    def run(self) -> int:
        from recstudy.records.clean import show_clean

        show_clean(self.path, self.orphans, self.yes)
        return 0
