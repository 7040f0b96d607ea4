"""The commands that hand a study on and check one that was handed on: `recstudy publish` and `recstudy verify`."""

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
    """Write a study as a folder and a zip that stand by themselves, for a paper's readers: report, records, code, digests.

    Such as: recstudy publish results/studies/sudoku_depth/quick sudoku_depth_bundle
    """

    places: tyro.conf.Positional[Annotated[tuple[str, ...], tyro.conf.arg(metavar="STUDY OUT")]]
    """A study's folder (results/studies/NAME/PRESET), a results folder with one study, or its URI; and the new folder OUT, beside
    which OUT.zip is written."""
    with_weights: bool = False
    """The weights of each run's selected epoch too."""
    with_data: bool = False
    """Also what runs keep of single items of data sets (images, captions, puzzles) that no program has generated. Whether their
    licence allows it is yours to know."""
    author: Names = ()
    """Whom to cite. May be given more than once."""
    licence: Annotated[str, tyro.conf.arg(metavar="SPDX|URL")] = ""
    """Under which the bundle may be used, such as CC-BY-4.0. Default: none is stated."""
    study: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The study's file, where its command does not tell."""
    allow: Names = ()
    """A name that may be told although it is that of a machine or an account. May be given more than once."""
    trust: Imports = False

    def run(self) -> int:
        from recstudy.publishing.publish import Asked, publish

        if len(self.places) != 2:
            raise ConfigError(f"recstudy publish takes a study and the new folder, STUDY OUT, but got {len(self.places)} words")
        place, out = self.places[0], Path(self.places[1])
        studies = studies_of(place, sends=True)
        if len(studies) > 1:
            known = choices(f"studies/{name}/{preset}" for _, name, preset in studies)
            raise ConfigError(f"{place} has {len(studies)} studies: give the folder of one, of {known}")
        asked = Asked(self.with_weights, self.with_data, self.author, self.licence, self.study, self.allow, self.trust)
        folder, left = publish(*studies[0], out, asked)
        for line in left:
            say(f"Left out: {line}")
        say(f"{folder} and {folder}.zip: verified. Check them anywhere with: recstudy verify {folder}.zip")
        return 0


@dataclass(frozen=True)
class Verify:
    """Check that a published study says what its records say. Needs no network, runs no code of it, and trains nothing.

    Exits with 1 where something differs.
    """

    bundle: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DIR|ZIP")]]
    """What `recstudy publish` wrote."""
    records: Annotated[str, tyro.conf.arg(metavar="SHA256")] = ""
    """The digest that its records must have, such as a paper prints; its first 12 digits suffice."""

    def run(self) -> int:
        from recstudy.publishing.verify import show_verified

        return 0 if show_verified(self.bundle, console(), self.records) else 1


def studies_of(place: str, sends: bool = False) -> list[tuple[Results, str, str]]:
    """Return the studies at a place, each by results folder, name and preset.

    Args:
        place: A folder, or the URI of results on an object store, of which a copy is read.
        sends: Send what changes in the copy to the store.

    Raises:
        ConfigError: there is no study.
    """
    from recstudy.report.status import studies_at

    if not is_uri(place):
        return studies_at(Path(place.removeprefix("file://")))
    store = Results(place).pull()
    if not any(store.root.glob("studies/*/*/plan.json")):
        raise ConfigError(f"no study at {place}. Give the URI that --results was given.")
    return [(store if sends else copy, name, preset) for copy, name, preset in studies_at(store.root)]
