"""The command `recstudy publish`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from recstudy.base.errors import ConfigError, choices
from recstudy.base.terminal import say
from recstudy.cli.options import File, Imports, Names
from recstudy.cli.places import studies_of


@dataclass(frozen=True)
class PublishCommand:
    """Write a study as a folder and a zip with report, records, code and checksums.

    Example: recstudy publish results/studies/sudoku_depth/quick sudoku_depth_bundle
    """

    place: Positional[Annotated[str, arg(metavar="STUDY")]]
    """A study's folder (results/studies/NAME/PRESET), a results folder with one study, or its URI."""
    folder: Positional[Annotated[Path, arg(metavar="OUT")]]
    """The new folder. OUT.zip is written too."""
    with_data: bool = False
    """Include images, captions and puzzles of real data sets. Check their licence first."""
    without_pages: bool = False
    """Leave out the HTML pages (3 MB). `recstudy report` writes them again."""
    author: Names = ()
    """An author for CITATION.cff. May be repeated."""
    licence: Annotated[str, arg(metavar="SPDX|URL")] = ""
    """The licence of the bundle, such as CC-BY-4.0. Default: none."""
    study: File = None
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
            pages=not self.without_pages,
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
