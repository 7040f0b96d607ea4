"""The commands `recstudy publish` and `recstudy verify`: their options and output."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from recstudy.errors import ConfigError, choices
from recstudy.records import Results
from recstudy.records.stores import is_uri
from recstudy.terminal import console, say

Imports = Annotated[bool, tyro.conf.arg(help="Import the modules that the studies name, whoever wrote them.")]
Names = Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME")]


@dataclass(frozen=True)
class Publish:
    """Write a study as a folder and a zip with report, records, code and checksums.

    Example: recstudy publish results/studies/sudoku_depth/quick sudoku_depth_bundle
    """

    place: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="STUDY")]]
    """A study's folder (results/studies/NAME/PRESET), a results folder with one study, or its URI."""
    folder: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="OUT")]]
    """The new folder. OUT.zip is written too."""
    with_data: bool = False
    """Include images, captions and puzzles of real data sets. Check their licence first."""
    author: Names = ()
    """An author for CITATION.cff. May be repeated."""
    licence: Annotated[str, tyro.conf.arg(metavar="SPDX|URL")] = ""
    """The licence of the bundle, such as CC-BY-4.0. Default: none."""
    study: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The study file, if its command does not name it."""
    allow: Names = ()
    """A name of a machine or an account that may be published. May be repeated."""
    trust: Imports = False

    def run(self) -> int:
        from recstudy.publishing.publish import publish

        studies = studies_of(self.place, sends=True)
        if len(studies) > 1:
            folders = choices(f"studies/{name}/{preset}" for _, name, preset in studies)
            raise ConfigError(f"{self.place} has {len(studies)} studies. Give the folder of one: {folders}")
        left_out = publish(
            *studies[0],
            self.folder,
            data=self.with_data,
            authors=self.author,
            licence=self.licence,
            study=self.study,
            allowed=self.allow,
            trust=self.trust,
        )
        say(*(f"Left out: {line}" for line in left_out))
        say(
            f"Wrote and verified {self.folder} and {self.folder}.zip. Verify them anywhere with:"
            f" recstudy verify {self.folder}.zip"
        )
        return 0


@dataclass(frozen=True)
class Verify:
    """Check a published study against its records.

    No network is needed, nothing is trained, and no code of the bundle is run. The last line is the SHA-256
    of the records, which a paper may print. If something differs, the exit code is 1.
    """

    bundle: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DIR|ZIP")]]
    """A bundle of `recstudy publish`."""

    def run(self) -> int:
        from recstudy.publishing.verify import show_verified

        return 0 if show_verified(self.bundle, console()) else 1


def studies_of(place: str, sends: bool = False) -> list[tuple[Results, str, str]]:
    """Return the studies in a folder or object store.

    Args:
        place: A folder, or the URI of results on an object store, of which a local copy is read.
        sends: Send changes of the local copy to the store.

    Returns:
        The results folder, the name and the preset of each study.

    Raises:
        ConfigError: There is no study.
    """
    from recstudy.report.status import studies_at

    if not is_uri(place):
        return studies_at(Path(place.removeprefix("file://")))
    store = Results(place).pull()
    if not any(store.root.glob("studies/*/*/plan.json")):
        raise ConfigError(f"{place} has no study. Give the URI of --results.")
    return [(store if sends else copy, name, preset) for copy, name, preset in studies_at(store.root)]
