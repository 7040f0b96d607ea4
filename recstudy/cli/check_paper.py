"""The command `recstudy check-paper`."""

from dataclasses import dataclass

from recstudy.cli.options import FileArgument, Imports, ResultsArgument
from recstudy.cli.places import studies_of


@dataclass(frozen=True)
class CheckPaperCommand:
    """Compare the numbers and verdicts in the text and tables of a LaTeX paper with the records.

    The exit code is 1 if one differs, or if none is recognized. A number is recognized beside the names of
    its variant and metric, such as "optimizer sgd, lr 0.001" and "accuracy".

    Example: recstudy check-paper main.tex results/studies/my_study/paper
    """

    paper: FileArgument
    """The main file of the paper. Its inputs are read too."""
    path: ResultsArgument = "results"
    """A results folder, a study's folder (results/studies/NAME/PRESET), or its URI."""
    trust: Imports = False

    def run(self) -> int:
        from recstudy.report.paper_check import check_paper

        return check_paper(self.paper, studies_of(self.path), self.trust)
