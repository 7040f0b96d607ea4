"""The command `recstudy verify`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from recstudy.base.terminal import console


@dataclass(frozen=True)
class Verify:
    """Check a published study against its records.

    No network is needed, nothing is trained, and no code of the bundle is run. The last line is the SHA-256
    of the records, which a paper may print. If something differs, the exit code is 1.
    """

    bundle: Positional[Annotated[Path, arg(metavar="DIR|ZIP")]]
    """A bundle of `recstudy publish`."""

    def run(self) -> int:
        from recstudy.publishing.verify import show_verified

        return 0 if show_verified(self.bundle, console()) else 1
