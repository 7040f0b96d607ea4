"""The command `recstudy check`."""

from dataclasses import dataclass

from recstudy.base.terminal import console
from recstudy.cli.options import FileArgument, Folder, data_folder
from recstudy.programs.base import load_program


@dataclass(frozen=True)
class CheckCommand:
    """Check the parts that your file registers.

    Tasks: losses and saved answers. Model families: shapes, gradients, independence of images, parameter
    counts, every switch, resuming and first losses. Optimizers, losses and augmentations: that they train.
    """

    file: FileArgument
    """A study file or a module."""
    data: Folder = None
    """The folder with the data sets of the examples. Default: RECSTUDY_DATA, else ./data."""
    write: bool = False
    """Save the first losses of each family beside the file. Without it they are compared with saved ones."""

    def run(self) -> int:
        return load_program().tool("check")(self.file, data_folder(self.data), self.write, console())
