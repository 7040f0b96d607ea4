"""The command `recstudy explain`."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from recstudy.base.terminal import console
from recstudy.cli.options import Imports, JsonFlag, ResultsArgument
from recstudy.cli.places import studies_of


@dataclass(frozen=True)
class ExplainCommand:
    """Show the runs, the estimate and the verdict behind a number of a table.

    Example: recstudy explain table1:ViTRM:64 results/studies/vitrm_batch_size/paper
    """

    cell: Positional[Annotated[str, arg(metavar="TABLE:ROW[:COLUMN]")]]
    """Table, row and column, each by its label or the beginning of it. Rows and columns also by number, from
    1. A table of claims or differences has no columns: claims:1."""
    path: ResultsArgument = "results"
    """A study's folder (results/studies/NAME/PRESET), a results folder with one study that has the table, or
    a URI.
    """
    trust: Imports = False
    json: JsonFlag = False

    def run(self) -> int:
        from recstudy.report.explain import explain_cell, show_cell

        number = explain_cell(studies_of(self.path), self.cell, self.trust)
        if self.json:
            number.show()
        else:
            show_cell(number, console())
        return 0
