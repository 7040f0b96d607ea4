"""The command `recstudy evaluate`."""

from dataclasses import dataclass

from recstudy.base.terminal import say
from recstudy.cli.options import Folder, Imports, Names, ResultsArgument, data_folder
from recstudy.cli.places import for_each_study, studies_of
from recstudy.programs.base import load_program


@dataclass(frozen=True)
class EvaluateCommand:
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
