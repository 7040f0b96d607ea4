"""The command `recstudy clean`."""

from dataclasses import dataclass
from pathlib import Path

from recstudy.cli.options import FolderArgument


@dataclass(frozen=True)
class CleanCommand:
    """List or remove old checkpoints and leftovers of killed processes."""

    path: FolderArgument = Path("results")
    """A results folder (default: results)."""
    orphans: bool = False
    """Include runs that no study uses, also finished ones."""
    yes: bool = False
    """Remove the listed files. Without it they are only listed."""

    def run(self) -> int:
        from recstudy.records.clean import show_clean

        show_clean(self.path, self.orphans, self.yes)
        return 0
